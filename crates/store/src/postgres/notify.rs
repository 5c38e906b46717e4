//! Telling other replicas that something changed, and hearing it from them.
//!
//! Only names travel, many in one message, at most one message in 10 ms, sent after the commit. A
//! message that is lost with a connection costs nothing: after every new connection everything
//! counts as changed.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use sqlx::PgPool;
use sqlx::postgres::PgListener;
use tokio::sync::Notify;

use crate::shared::Shared;

const BETWEEN_MESSAGES: Duration = Duration::from_millis(10);
const BEFORE_RECONNECTING: Duration = Duration::from_millis(500);
/// PostgreSQL allows 8,000 bytes.
const MESSAGE_BYTES: usize = 7_000;
/// Names that wait while the database is away; beyond that everything counts as changed anyway.
const NAMES: usize = 10_000;
/// Schemas of one database must not hear each other.
const CHANNEL: &str = "'agentd_' || md5(current_schema())";

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

pub(super) async fn send(pool: PgPool, outgoing: Rc<Outgoing>) {
    loop {
        outgoing.added.notified().await;
        while let Some((message, names)) = outgoing.next_message() {
            let sent = sqlx::query(sqlx::AssertSqlSafe(format!("SELECT pg_notify({CHANNEL}, $1)")))
                .bind(message)
                .execute(&pool)
                .await;
            match sent {
                Ok(_) => tokio::time::sleep(BETWEEN_MESSAGES).await,
                Err(sqlx::Error::PoolClosed) => return,
                Err(error) => {
                    tracing::warn!(%error, "telling other replicas of a change failed; trying again");
                    outgoing.names.borrow_mut().extend(names);
                    tokio::time::sleep(BEFORE_RECONNECTING).await;
                }
            }
        }
    }
}

pub(super) async fn listen(pool: PgPool, shared: Arc<Shared>, own: String) {
    loop {
        match listen_once(&pool, &shared, &own).await {
            Ok(()) => {}
            Err(sqlx::Error::PoolClosed) => return,
            Err(error) => tracing::warn!(%error, "hearing of other replicas' changes failed; connecting anew"),
        }
        tokio::time::sleep(BEFORE_RECONNECTING).await;
    }
}

/// Ends when the connection is lost.
async fn listen_once(pool: &PgPool, shared: &Shared, own: &str) -> Result<(), sqlx::Error> {
    let channel: String = sqlx::query_scalar(sqlx::AssertSqlSafe(format!("SELECT {CHANNEL}"))).fetch_one(pool).await?;
    let mut listener = PgListener::connect_with(pool).await?;
    listener.eager_reconnect(false);
    listener.listen(&channel).await?;
    // Whatever was said before is lost.
    shared.signals.bump_all();
    while let Some(message) = listener.try_recv().await? {
        let mut lines = message.payload().lines();
        if lines.next() == Some(own) {
            continue;
        }
        for name in lines {
            shared.signals.bump(name);
        }
    }
    Ok(())
}
