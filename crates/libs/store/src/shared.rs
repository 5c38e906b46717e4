//! State shared by all handles of an open database.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

use agentd_base::id::IdGenerator;
use agentd_base::{Clock, Entropy};
use tokio::sync::watch;

use crate::dialect::Dialect;
use crate::schema::Migration;
use crate::topic::Signals;

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) dialect: Dialect,
    pub(crate) clock: Clock,
    pub(crate) ids: IdGenerator,
    pub(crate) entropy: Entropy,
    pub(crate) data_dir: PathBuf,
    pub(crate) migrations: &'static [Migration],
    /// Temporary database: no backup is made before migrations.
    pub(crate) is_scratch: bool,
    /// One of several simulated daemons on one SQLite file, all on one thread: behaviour must not depend on durations,
    /// and other writers exist.
    pub(crate) is_simulated: bool,
    pub(crate) signals: Signals,
    /// Whether a wake-up of the outbox watchers is scheduled: one timer serves all readers.
    pub(crate) is_outbox_wake_due: AtomicBool,
    /// Number of write batches committed by this process.
    pub(crate) commits: watch::Sender<u64>,
    /// Consecutive reads of the outbox that found unsettled events.
    pub(crate) outbox_retries: AtomicU32,
    /// Counter that determines when idempotency records are trimmed.
    pub(crate) idempotency_records: AtomicU64,
}

impl Shared {
    pub(crate) fn is_exclusive(&self) -> bool {
        self.dialect == Dialect::Sqlite && !self.is_simulated
    }
}
