//! Reader connections and the replacement of lost ones.
//!
//! A server restart, or an administrator who ends sessions, closes every idle connection. The first failure makes all
//! connections suspect that were idle at that time: each is pinged before it is handed out. A failed read therefore
//! needs one more connection, not one retry for each lost one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use sqlx::PgPool;

use super::Pooled;
use super::server::{PING_AFTER, Server};
use crate::StoreError;

const CONNECTIONS: u32 = 8;
const SNAPSHOT: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY";

/// Pool of reader connections. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Readers {
    pool: PgPool,
    server: Arc<Server>,
    lost_at: Arc<Mutex<Option<Instant>>>,
}

/// Reader connection that can be replaced after a failure.
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

    /// Begins a transaction that sees one consistent state.
    pub(crate) async fn begin_snapshot(&self) -> Result<Pooled, StoreError> {
        let begin = async || Pooled::acquire(&self.pool, &self.server).await?.begin(SNAPSHOT).await;
        match begin().await {
            Err(error) if self.is_lost(&error) => begin().await,
            outcome => outcome,
        }
    }

    /// Whether a statement failed because its connection was lost; all idle connections are then suspect.
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
    /// Handles a failed statement: returns the reader unchanged if its connection is intact, otherwise the pool to get
    /// another one from. The lost connection is released first, so that concurrent replacements never wait for each
    /// other.
    pub(crate) fn discard_if_lost(self, error: &StoreError) -> Result<Readers, Self> {
        if self.readers.is_lost(error) { Ok(self.readers) } else { Err(self) }
    }
}
