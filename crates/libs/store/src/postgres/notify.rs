//! Change notifications between replicas.
//!
//! Messages contain only names, batched into at most one message per 10 ms, sent after the commit. A message lost with
//! its connection does no harm: after every reconnect all names count as changed. The server is pinged after a period
//! of silence, so that a hanging connection is detected.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::PgListener;
use sqlx::{Acquire as _, Executor as _, PgPool};
use tokio::sync::{Notify, watch};

use super::{Pooled, Server};
use crate::read::Read;
use crate::shared::Shared;
use crate::{StoreError, args};

const MESSAGE_INTERVAL: Duration = Duration::from_millis(10);
const RECONNECT_DELAY: Duration = Duration::from_millis(500);
/// Maximum message size. PostgreSQL allows 8,000 bytes.
const MAX_MESSAGE_BYTES: usize = 7_000;
/// Maximum number of names queued while the database is unavailable. After a reconnect everything counts as changed
/// anyway.
const MAX_QUEUED_NAMES: usize = 10_000;
/// Channel of the current schema: schemas of one database must not receive each other's messages.
const CHANNEL: &str = "'agentd_' || md5(current_schema())";

/// Key of the shared advisory lock that every listening daemon holds. The server counts the holders and releases the
/// lock of a daemon that died.
const PRESENCE_LOCK: &str = "hashtextextended('agentd_' || current_schema(), 0)";
/// Time a starting daemon has to begin listening.
const LISTEN_TIMEOUT: Duration = Duration::from_secs(5);

/// Registration of this daemon at the server.
#[derive(Debug)]
pub(crate) struct Presence {
    /// Server process of the listening connection.
    process: watch::Sender<Option<i64>>,
}

impl Default for Presence {
    fn default() -> Self {
        Self { process: watch::Sender::new(None) }
    }
}

impl Presence {
    /// Waits until the daemon listens and returns the server process of its connection.
    pub(super) async fn listening(&self) -> Option<i64> {
        let mut process = self.process.subscribe();
        let listening = tokio::time::timeout(LISTEN_TIMEOUT, process.wait_for(Option::is_some)).await;
        listening.ok().and_then(Result::ok).and_then(|own| *own)
    }

    /// Returns the number of other listening daemons.
    pub(crate) async fn count_others(&self, read: &mut Read) -> Result<u64, StoreError> {
        let Some(own) = self.listening().await else {
            let reason = "this daemon currently receives no changes from other daemons".to_owned();
            return Err(StoreError::Unavailable { reason, source: None });
        };
        // `pg_locks` shows a 64-bit key as two halves.
        let sql = format!(
            "SELECT COUNT(*) FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1 \
             AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) \
             AND ((CAST(classid AS BIGINT) << 32) | CAST(objid AS BIGINT)) = {PRESENCE_LOCK} AND pid <> $1"
        );
        read.fetch_one(sql, args![own]).await?.first()
    }
}

/// Names to be sent.
#[derive(Debug)]
pub(super) struct Outgoing {
    /// Id that distinguishes a replica's own messages.
    replica: String,
    names: RefCell<BTreeSet<String>>,
    added: Notify,
}

impl Outgoing {
    pub(super) fn new(shared: &Shared) -> Self {
        let replica = shared.ids.next_ulid();
        Self { replica, names: RefCell::default(), added: Notify::new() }
    }

    pub(super) fn replica(&self) -> &str {
        &self.replica
    }

    pub(super) fn add(&self, name: String) {
        let mut names = self.names.borrow_mut();
        if names.len() < MAX_QUEUED_NAMES {
            names.insert(name);
        }
        self.added.notify_one();
    }

    /// Returns the next message, limited in size, and the names in it.
    fn next_message(&self) -> Option<(String, Vec<String>)> {
        let mut names = self.names.borrow_mut();
        let mut message = self.replica.clone();
        let mut taken = Vec::new();
        while let Some(name) = names.pop_first() {
            if !taken.is_empty() && message.len() + name.len() + 1 > MAX_MESSAGE_BYTES {
                names.insert(name);
                break;
            }
            message.push('\n');
            message.push_str(&name);
            taken.push(name);
        }
        (!taken.is_empty()).then_some((message, taken))
    }
}

pub(super) async fn send(pool: PgPool, server: Arc<Server>, outgoing: Rc<Outgoing>) {
    let send = async |message: String| {
        let sql = sqlx::AssertSqlSafe(format!("SELECT pg_notify({CHANNEL}, $1)"));
        let mut connection = Pooled::acquire(&pool, &server).await?;
        connection.run(|connection| connection.execute(sqlx::query(sql).bind(message))).await
    };
    loop {
        outgoing.added.notified().await;
        while let Some((message, names)) = outgoing.next_message() {
            match send(message).await {
                Ok(_) => tokio::time::sleep(MESSAGE_INTERVAL).await,
                Err(StoreError::Closed) => return,
                Err(error) => {
                    tracing::warn!(%error, "failed to notify other replicas; retrying");
                    outgoing.names.borrow_mut().extend(names);
                    tokio::time::sleep(RECONNECT_DELAY).await;
                }
            }
        }
    }
}

pub(super) async fn listen(
    pool: PgPool,
    server: Arc<Server>,
    shared: Arc<Shared>,
    presence: Arc<Presence>,
    own: String,
) {
    loop {
        let ended = listen_once(&pool, &server, &shared, &presence, &own).await;
        match ended {
            Ok(()) => {}
            Err(StoreError::Closed) => return,
            Err(error) => tracing::warn!(%error, "notification listener failed; reconnecting"),
        }
        tokio::time::sleep(RECONNECT_DELAY).await;
    }
}

/// Listens until the connection is lost.
async fn listen_once(
    pool: &PgPool,
    server: &Server,
    shared: &Shared,
    presence: &Presence,
    own: &str,
) -> Result<(), StoreError> {
    let mut listener = PgListener::connect_with(pool).await?;
    listener.eager_reconnect(false);
    let ended = async {
        let process = with_timeout(server, begin(&mut listener)).await?;
        presence.process.send_replace(Some(process));
        // Messages sent before this point are lost.
        shared.signals.bump_all();
        receive(&mut listener, server, shared, own).await
    }
    .await;
    presence.process.send_replace(None);
    if let Err(StoreError::Unavailable { source: None, .. }) = &ended {
        discard(listener, server).await;
    }
    ended
}

async fn with_timeout<T>(
    server: &Server,
    answer: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, StoreError> {
    let answer = tokio::time::timeout(server.limits.answer(), answer).await;
    Ok(answer.map_err(|_| StoreError::timed_out())??)
}

/// Starts listening and returns the server process of this connection.
async fn begin(listener: &mut PgListener) -> Result<i64, sqlx::Error> {
    let channel = sqlx::AssertSqlSafe(format!("SELECT {CHANNEL}"));
    let channel: String = sqlx::query_scalar(channel).fetch_one(&mut *listener).await?;
    listener.listen(&channel).await?;
    let present = sqlx::AssertSqlSafe(format!("SELECT pg_advisory_lock_shared({PRESENCE_LOCK})"));
    sqlx::query(present).execute(&mut *listener).await?;
    let process: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut *listener).await?;
    Ok(process.into())
}

async fn receive(listener: &mut PgListener, server: &Server, shared: &Shared, own: &str) -> Result<(), StoreError> {
    loop {
        let Ok(message) = tokio::time::timeout(server.limits.ping_interval(), listener.try_recv()).await else {
            with_timeout(server, listener.execute("SELECT 1")).await?;
            continue;
        };
        let Some(message) = message? else { return Ok(()) };
        let mut lines = message.payload().lines();
        if lines.next() == Some(own) {
            continue;
        }
        for name in lines {
            shared.signals.bump(name);
        }
    }
}

/// Disposes of a listener. Dropped, it would unlisten in the background on a pooled connection and wait without limit.
/// So it gets another connection for that, and the hanging one is closed.
async fn discard(mut listener: PgListener, server: &Server) {
    loop {
        if let Ok(mut responsive) = server.connect().await {
            if let Ok(unresponsive) = listener.acquire().await {
                std::mem::swap(unresponsive, &mut responsive);
            }
            return;
        }
        tokio::time::sleep(RECONNECT_DELAY).await;
    }
}
