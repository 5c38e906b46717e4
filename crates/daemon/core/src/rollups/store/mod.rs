//! SQL of rollups.

mod counters;
mod latencies;
mod usage;

use agentd_base::Timestamp;
use agentd_store::{Dialect, Read, StoreError, Tx, args};

pub use counters::count;
pub(super) use counters::{compact_counters, list_counters, sum_counters};
pub(super) use latencies::{LatencyRow, delete_latencies, list_latencies, list_latencies_of, put_latency};
pub use usage::{UsageDimension, UsageEntry, UsageSum, add_usage, sum_tokens_of_agent};
pub(super) use usage::{compact_usage, list_usage, sum_usage_by};

/// Number of rows over which replicas spread each counter, to reduce contention.
const SHARDS: i64 = 8;
const SECOND: i64 = 1_000_000;
pub(super) const MINUTE: i64 = 60;
pub(super) const QUARTER: i64 = 900;
pub(super) const HOUR: i64 = 3_600;
pub(super) const DAY: i64 = 86_400;

/// Compaction of rows with one span into one longer bucket.
#[derive(Debug, Clone, Copy)]
pub(super) struct Compaction {
    pub(super) span: i64,
    /// Start in microseconds, inclusive.
    pub(super) from: i64,
    /// End in microseconds, exclusive.
    pub(super) to: i64,
    pub(super) target_span: i64,
}

impl Compaction {
    /// Time of the compacted row: the middle of a day, the start of any other bucket.
    pub(super) fn at(&self) -> i64 {
        if self.target_span == DAY { i64::midpoint(self.from, self.to) } else { self.from }
    }
}

/// Returns the start of the bucket that contains `at`.
pub(super) fn start_of(at: Timestamp, span: i64) -> i64 {
    at.as_micros().div_euclid(span * SECOND) * span * SECOND
}

fn shard(tx: &Tx) -> i64 {
    match tx.dialect() {
        // The single writer has no contention.
        Dialect::Sqlite => 0,
        Dialect::Postgres => tx.clock().now().as_micros().rem_euclid(SHARDS),
    }
}

/// Returns the time of the oldest row with this span.
pub(super) async fn oldest(read: &mut Read, table: &'static str, span: i64) -> Result<Option<i64>, StoreError> {
    let sql = format!("SELECT MIN(at) AS at FROM {table} WHERE span = $1");
    read.fetch_one(sql, args![span]).await?.get("at")
}
