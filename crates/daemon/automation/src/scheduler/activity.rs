//! Activity of the owner. The daemon registers a source at composition.

use agentd_base::Timestamp;
use agentd_store::StoreError;
use futures_util::future::BoxFuture;

/// Number of actions in a 15-minute period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Activity {
    /// Start of the period.
    pub at: Timestamp,
    pub count: u64,
}

/// Length of an activity period, in microseconds. The hours of every time zone start at a quarter of an hour.
pub const ACTIVITY_QUARTER_MICROS: i64 = 15 * 60 * 1_000_000;

/// Source of owner activity.
pub trait ActivitySource: Send + Sync {
    /// Returns the activity since a time, with one entry per 15-minute period, in any order.
    fn activity_since(&self, since: Timestamp) -> BoxFuture<'_, Result<Vec<Activity>, StoreError>>;
}
