//! What happened over time: counters, histograms of latencies and what calls of models used, in buckets that get
//! coarser with age.
//!
//! Invariants: what is counted is counted in the transaction in which it happens, so that neither a kill nor a
//! second try loses or doubles it; whatever was counted stands in exactly one row, so that a period is the sum of
//! the rows that stand in it; a period costs by its buckets and not by what happened in it. Latencies are stored
//! once a minute, and what was not stored yet is lost with the process. Days and hours are those of the profile's time
//! zone; what was made coarse keeps the borders that it got. Nothing is made coarse for a clock that was set wrong for
//! a moment.
//!
//! Deliberately absent: percentiles that are stored, since they cannot be added; sums of usage by two things at once,
//! which would be as many rows as calls.

mod counter;
mod period;
mod service;
mod store;
mod worker;

use agentd_web::Routes;

use crate::parts::{Domain, DomainParts, ShutdownPhase, ShutdownStep};
use crate::runtime::MetricList;
use worker::{StoreLatencies, WidenBuckets};

pub use counter::Counter;
pub use period::{Buckets, Period, Zoned};
pub use service::{LatencyBucket, Rollups, UsageSum};
pub use store::{UsageDimension, UsageEntry, add_usage, count, sum_tokens_of_agent};

impl Domain for Rollups {
    fn parts(&self) -> DomainParts {
        DomainParts {
            routes: Routes::new(),
            workers: vec![Box::new(StoreLatencies(self.clone())), Box::new(WidenBuckets(self.clone()))],
            metrics: MetricList::default(),
            bindings: Vec::new(),
            shutdown: vec![ShutdownStep::new(ShutdownPhase::Measured, self, async |rollups, _| {
                if let Err(error) = rollups.flush(true).await {
                    tracing::warn!(%error, "what was measured in the last minute is lost");
                }
            })],
        }
    }
}
