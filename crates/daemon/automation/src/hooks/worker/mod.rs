//! What works in the background: reading events, delivering, executing, tidying up.

mod capacity;
mod purge;
mod queues;
mod read;
mod record;

use std::time::Duration;

pub(super) use purge::PurgeHooks;
pub(super) use queues::{DeliverHooks, ExecuteHooks};
pub(super) use read::ReadEvents;

/// A transaction of the reader ends with the event that brings it to so many rows.
const ROWS_A_BATCH: usize = 500;
/// How often is looked for what is due when nothing wakes.
const INTERVAL: Duration = Duration::from_secs(1);
