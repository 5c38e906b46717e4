//! When the owner is there. Who knows it is registered while the daemon is composed.

use agentd_base::Timestamp;
use agentd_store::StoreError;
use futures_util::future::BoxFuture;

/// How much was done in a quarter of an hour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Activity {
    /// The quarter's first instant.
    pub at: Timestamp,
    pub count: u64,
}

/// The length of what activity is counted in: every time zone's hours begin with a quarter.
pub const ACTIVITY_QUARTER_MICROS: i64 = 15 * 60 * 1_000_000;

/// A part of the daemon that sees the owner do something.
pub trait ActivitySource: Send + Sync {
    /// What was done since then, each quarter of an hour once, in any order.
    fn activity_since(&self, since: Timestamp) -> BoxFuture<'_, Result<Vec<Activity>, StoreError>>;
}
