//! The rows of the buckets.

mod counters;
mod latencies;
mod usage;

use agentd_base::Timestamp;
use agentd_store::{Dialect, Read, StoreError, Tx, args};

pub use counters::count;
pub(super) use counters::{list_counters, sum_counters, widen_counters};
pub(super) use latencies::{LatencyRow, delete_latencies, list_latencies, list_latencies_of, put_latency};
pub use usage::{UsageDimension, UsageEntry, UsageSum, add_usage, sum_tokens_of_agent};
pub(super) use usage::{list_usage, sum_usage_by, widen_usage};

/// Over how many rows replicas spread each count.
const SHARDS: i64 = 8;
const SECOND: i64 = 1_000_000;
pub(super) const MINUTE: i64 = 60;
pub(super) const QUARTER: i64 = 900;
pub(super) const HOUR: i64 = 3_600;
pub(super) const DAY: i64 = 86_400;

/// Rows with one span that are put together into one bucket.
#[derive(Debug, Clone, Copy)]
pub(super) struct Widening {
    pub(super) span: i64,
    /// From when on, in microseconds.
    pub(super) from: i64,
    /// Before when.
    pub(super) to: i64,
    pub(super) wider: i64,
}

impl Widening {
    /// Where the wider row stands: a day in its middle, anything else at its beginning.
    pub(super) fn at(&self) -> i64 {
        if self.wider == DAY { i64::midpoint(self.from, self.to) } else { self.from }
    }
}

/// When the bucket begins that `at` falls into.
pub(super) fn start_of(at: Timestamp, span: i64) -> i64 {
    at.as_micros().div_euclid(span * SECOND) * span * SECOND
}

fn shard(tx: &Tx) -> i64 {
    match tx.dialect() {
        // One writer meets nobody.
        Dialect::Sqlite => 0,
        Dialect::Postgres => tx.clock().now().as_micros().rem_euclid(SHARDS),
    }
}

/// Where the oldest row with this span stands, in the table.
pub(super) async fn oldest(read: &mut Read, table: &'static str, span: i64) -> Result<Option<i64>, StoreError> {
    let sql = format!("SELECT MIN(at) AS at FROM {table} WHERE span = $1");
    read.fetch_one(sql, args![span]).await?.get("at")
}
