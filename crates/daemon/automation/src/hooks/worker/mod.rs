//! Background workers: reading events, delivering, executing and purging.

mod capacity;
mod purge;
mod queues;
mod read;
mod record;

use std::time::Duration;

pub(super) use purge::PurgeHooks;
pub(super) use queues::{DeliverHooks, ExecuteHooks};
pub(super) use read::ReadEvents;

/// Number of inserted rows after which the reader's transaction ends, at an event boundary.
const ROWS_PER_BATCH: usize = 500;
/// Interval of polling for due work when no signal wakes a worker.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
