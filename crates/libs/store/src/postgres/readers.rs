//! Connections for reading, and what happens when one turns out to be lost.
//!
//! A server that restarts, or an administrator who ends its sessions, takes every idle connection
//! along. The first that fails casts suspicion on all that were idle by then: each is asked whether it
//! lives before it is handed out. So a read that failed needs one more connection, not one more try for each
//! lost one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use sqlx::PgPool;

use super::Pooled;
use super::server::{PING_AFTER, Server};
use crate::StoreError;

const CONNECTIONS: u32 = 8;
const SNAPSHOT: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY";

/// Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Readers {
    pool: PgPool,
    server: Arc<Server>,
    lost_at: Arc<Mutex<Option<Instant>>>,
}

/// A connection that can be replaced.
pub(crate) struct Reader {
    pub(crate) connection: Pooled,
    readers: Readers,
}

impl Readers {
    pub(super) fn new(server: Arc<Server>) -> Self {
        let limits = server.limits;
        let lost_at = Arc::new(Mutex::new(None));
        let suspicion = Arc::clone(&lost_at);
        let pool = server
            .pool_options(CONNECTIONS)
            .before_acquire(move |connection, meta| {
                let is_suspect = is_suspect(meta.idle_for, *suspicion.lock());
                Box::pin(async move {
                    if is_suspect {
                        Server::ping(connection, limits).await?;
                    }
                    Ok(true)
                })
            })
            .connect_lazy_with(server.options.clone());
        Self { pool, server, lost_at }
    }

    pub(crate) async fn acquire(&self) -> Result<Reader, StoreError> {
        Ok(Reader { connection: Pooled::acquire(&self.pool, &self.server).await?, readers: self.clone() })
    }

    /// A transaction that sees one state.
    pub(crate) async fn begin_snapshot(&self) -> Result<Pooled, StoreError> {
        let begin = async || Pooled::acquire(&self.pool, &self.server).await?.begin(SNAPSHOT).await;
        match begin().await {
            Err(error) if self.is_lost(&error) => begin().await,
            outcome => outcome,
        }
    }

    /// Whether a statement failed because its connection did; then the others are suspect.
    fn is_lost(&self, error: &StoreError) -> bool {
        let is_lost = error.is_lost_connection() && !self.pool.is_closed();
        if is_lost {
            *self.lost_at.lock() = Some(Instant::now());
        }
        is_lost
    }

    pub(super) async fn close(&self) {
        self.pool.close().await;
    }
}

fn is_suspect(idle_for: Duration, lost_at: Option<Instant>) -> bool {
    idle_for >= PING_AFTER || lost_at.is_some_and(|lost_at| idle_for >= lost_at.elapsed())
}

impl Reader {
    /// After a statement failed: `Err` gives back a connection that is not to blame, `Ok` says where
    /// another can be had. The lost one is let go first, so that those who replace theirs at the same
    /// time never wait for each other.
    pub(crate) fn give_up(self, error: &StoreError) -> Result<Readers, Self> {
        if self.readers.is_lost(error) { Ok(self.readers) } else { Err(self) }
    }
}
