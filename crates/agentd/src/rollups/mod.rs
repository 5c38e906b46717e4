//! What happened over time: counters, histograms of latencies and what calls of models used, in buckets that get
//! coarser with age.
//!
//! Invariants: what is counted is counted in the transaction in which it happens, so that neither a kill nor a
//! second try loses or doubles it; whatever was counted stands in exactly one row, so that a period is the sum of
//! the rows that begin in it; a period costs by its buckets and not by what happened in it. Latencies are stored
//! once a minute, and what was not stored yet is lost with the process.
//!
//! Deliberately absent: percentiles that are stored, since they cannot be added.

mod counter;
mod parts;
mod period;
mod service;
mod store;
mod worker;

pub use counter::Counter;
pub use period::{Period, Zoned};
pub use service::{LatencyBucket, Rollups, UsageDimension, UsageSum};
pub use store::{UsageEntry, add_usage, count};
