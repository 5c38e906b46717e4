//! What works in the background: reading events, delivering, executing, tidying up.

mod capacity;
mod claim;
mod deliver;
mod execute;
mod places;
mod purge;
mod read;
mod record;

use std::time::Duration;

pub(super) use claim::Holder;
pub use deliver::DeliverHooks;
pub use execute::ExecuteHooks;
pub(super) use places::QueuePlaces;
pub use purge::PurgeHooks;
pub use read::ReadEvents;
pub(super) use record::Recorder;

/// Requests on their way at once, of those that are queued and again of those that are not; of one receiver a quarter.
const REQUESTS_AT_ONCE: usize = 64;
/// So many more that take long, so that what hangs takes no place from what does not.
const SLOW_REQUESTS_AT_ONCE: usize = 64;
/// Other hooks at work at once; of one hook a quarter.
const OTHERS_AT_ONCE: usize = 16;
/// A transaction of the reader ends with the event that brings it to so many rows.
const ROWS_A_BATCH: usize = 500;
/// How often is looked for what is due when nothing wakes.
const INTERVAL: Duration = Duration::from_secs(1);
/// So that the daemon can come to rest while something is under way.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
