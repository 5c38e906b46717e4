//! Time series of counters, latency histograms and model usage, in buckets that are compacted with age.
//!
//! Invariants:
//! - Events are counted in the transaction in which they happen, so neither a crash nor a retry loses or duplicates a
//!   count.
//! - Every count is in exactly one row, so the total of a period is the sum of its rows. The cost of a query depends on
//!   the number of buckets, not of events.
//! - Latencies are stored once a minute; measurements that are not stored yet are lost if the process ends.
//! - Days and hours are those of the profile's time zone. Compacted buckets keep their bounds if the time zone changes.
//! - A clock that is wrong for a short time does not cause compaction.
//!
//! Percentiles are not stored, because they cannot be summed. Usage is not stored by two dimensions at once, because
//! that would need as many rows as calls.

mod counter;
mod period;
mod service;
mod store;
mod worker;

use agentd_web::Routes;

use crate::parts::{Domain, DomainParts, ShutdownPhase, ShutdownStep};
use crate::runtime::MetricList;
use worker::{CompactBuckets, StoreLatencies};

pub use counter::Counter;
pub use period::{Buckets, Period, Zoned};
pub use service::{LatencyBucket, Rollups, UsageSum};
pub use store::{UsageDimension, UsageEntry, add_usage, count, sum_tokens_of_agent};

impl Domain for Rollups {
    fn parts(&self) -> DomainParts {
        DomainParts {
            routes: Routes::new(),
            workers: vec![Box::new(StoreLatencies(self.clone())), Box::new(CompactBuckets(self.clone()))],
            metrics: MetricList::default(),
            bindings: Vec::new(),
            shutdown: vec![ShutdownStep::new(ShutdownPhase::Measurements, self, async |rollups, _| {
                if let Err(error) = rollups.flush(true).await {
                    tracing::warn!(%error, "failed to store measurements of the last minute");
                }
            })],
        }
    }
}
