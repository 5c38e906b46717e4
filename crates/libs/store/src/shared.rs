//! What every handle of one open database shares.

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
    /// Thrown away soon: nothing of it is copied before its schema changes.
    pub(crate) is_scratch: bool,
    /// Of one of several daemons that a simulation runs over one SQLite file, all on one thread: nothing here may
    /// depend on how long something takes, and others write, too.
    pub(crate) is_simulated: bool,
    pub(crate) signals: Signals,
    /// Whether somebody will wake the outbox's watchers soon: one timer is enough for all.
    pub(crate) is_outbox_wake_due: AtomicBool,
    /// Batches of writes that this process committed.
    pub(crate) commits: watch::Sender<u64>,
    /// How often in a row there were events that could not be read yet.
    pub(crate) outbox_looks: AtomicU32,
    /// Paces the trimming of idempotency records.
    pub(crate) idempotency_records: AtomicU64,
}

impl Shared {
    pub(crate) fn is_exclusive(&self) -> bool {
        self.dialect == Dialect::Sqlite && !self.is_simulated
    }
}
