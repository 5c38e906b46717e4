//! Telling other replicas that something changed, and hearing it from them.
//!
//! Only names travel, many in one message, at most one message in 10 ms, sent after the commit. A
//! message that is lost with a connection costs nothing: after every new connection everything
//! counts as changed. So that a connection that hangs is noticed, the server is asked for a sign of life
//! when nothing was heard for a while.

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

const BETWEEN_MESSAGES: Duration = Duration::from_millis(10);
const BEFORE_RECONNECTING: Duration = Duration::from_millis(500);
/// PostgreSQL allows 8,000 bytes.
const MESSAGE_BYTES: usize = 7_000;
/// Names that wait while the database is away; beyond that everything counts as changed anyway.
const NAMES: usize = 10_000;
/// Schemas of one database must not hear each other.
const CHANNEL: &str = "'agentd_' || md5(current_schema())";

/// Every daemon holds this lock, shared, as long as it listens: the server counts them, and lets go
/// of one that died.
const PRESENCE_LOCK: &str = "hashtextextended('agentd_' || current_schema(), 0)";
/// How long a daemon that has just begun may take to listen.
const LISTENS_WITHIN: Duration = Duration::from_secs(5);

/// That this daemon works on the database, known to the server.
#[derive(Debug)]
pub(crate) struct Presence {
    /// The server's process for the connection that listens.
    process: watch::Sender<Option<i64>>,
}

impl Default for Presence {
    fn default() -> Self {
        Self { process: watch::Sender::new(None) }
    }
}

impl Presence {
    /// The server's process for the connection that listens, once it does.
    pub(super) async fn listening(&self) -> Option<i64> {
        let mut process = self.process.subscribe();
        let listening = tokio::time::timeout(LISTENS_WITHIN, process.wait_for(Option::is_some)).await;
        listening.ok().and_then(Result::ok).and_then(|own| *own)
    }

    /// How many other daemons listen.
    pub(crate) async fn count_others(&self, read: &mut Read) -> Result<u64, StoreError> {
        let Some(own) = self.listening().await else {
            let reason = "this daemon does not hear of other daemons' changes now".to_owned();
            return Err(StoreError::Unavailable { reason, source: None });
        };
        // A lock on a number is shown as its two halves.
        let sql = format!(
            "SELECT COUNT(*) FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1 \
             AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) \
             AND ((CAST(classid AS BIGINT) << 32) | CAST(objid AS BIGINT)) = {PRESENCE_LOCK} AND pid <> $1"
        );
        read.fetch_one(sql, args![own]).await?.first()
    }
}

/// Names that wait to be sent.
#[derive(Debug)]
pub(super) struct Outgoing {
    /// Tells a replica's own messages from others'.
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
        if names.len() < NAMES {
            names.insert(name);
        }
        self.added.notify_one();
    }

    /// The next message, at most so long, and the names in it.
    fn next_message(&self) -> Option<(String, Vec<String>)> {
        let mut names = self.names.borrow_mut();
        let mut message = self.replica.clone();
        let mut taken = Vec::new();
        while let Some(name) = names.pop_first() {
            if !taken.is_empty() && message.len() + name.len() + 1 > MESSAGE_BYTES {
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
        connection.ask(|connection| connection.execute(sqlx::query(sql).bind(message))).await
    };
    loop {
        outgoing.added.notified().await;
        while let Some((message, names)) = outgoing.next_message() {
            match send(message).await {
                Ok(_) => tokio::time::sleep(BETWEEN_MESSAGES).await,
                Err(StoreError::Closed) => return,
                Err(error) => {
                    tracing::warn!(%error, "telling other replicas of a change failed; trying again");
                    outgoing.names.borrow_mut().extend(names);
                    tokio::time::sleep(BEFORE_RECONNECTING).await;
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
            Err(error) => tracing::warn!(%error, "hearing of other replicas' changes failed; connecting anew"),
        }
        tokio::time::sleep(BEFORE_RECONNECTING).await;
    }
}

/// Ends when the connection is lost.
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
        let process = in_time(server, begin(&mut listener)).await?;
        presence.process.send_replace(Some(process));
        // Whatever was said before is lost.
        shared.signals.bump_all();
        hear(&mut listener, server, shared, own).await
    }
    .await;
    presence.process.send_replace(None);
    if let Err(StoreError::Unavailable { source: None, .. }) = &ended {
        let_go(listener, server).await;
    }
    ended
}

async fn in_time<T>(server: &Server, answer: impl Future<Output = Result<T, sqlx::Error>>) -> Result<T, StoreError> {
    let answer = tokio::time::timeout(server.limits.answer(), answer).await;
    Ok(answer.map_err(|_| StoreError::unanswered())??)
}

/// Answers the server's process for this connection.
async fn begin(listener: &mut PgListener) -> Result<i64, sqlx::Error> {
    let channel = sqlx::AssertSqlSafe(format!("SELECT {CHANNEL}"));
    let channel: String = sqlx::query_scalar(channel).fetch_one(&mut *listener).await?;
    listener.listen(&channel).await?;
    let present = sqlx::AssertSqlSafe(format!("SELECT pg_advisory_lock_shared({PRESENCE_LOCK})"));
    sqlx::query(present).execute(&mut *listener).await?;
    let process: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut *listener).await?;
    Ok(process.into())
}

async fn hear(listener: &mut PgListener, server: &Server, shared: &Shared, own: &str) -> Result<(), StoreError> {
    loop {
        let Ok(message) = tokio::time::timeout(server.limits.silence(), listener.try_recv()).await else {
            in_time(server, listener.execute("SELECT 1")).await?;
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

/// A listener says goodbye in the background on a connection of the pool, and waits for the answer without end. So it
/// gets another connection for that, and the one that hangs is closed.
async fn let_go(mut listener: PgListener, server: &Server) {
    loop {
        if let Ok(mut answers) = server.connect().await {
            if let Ok(hangs) = listener.acquire().await {
                std::mem::swap(hangs, &mut answers);
            }
            return;
        }
        tokio::time::sleep(BEFORE_RECONNECTING).await;
    }
}
