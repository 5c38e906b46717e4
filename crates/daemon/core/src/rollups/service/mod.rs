//! Queries of rollups.

mod compact;
mod latencies;

use std::sync::Arc;

use agentd_base::id::IdGenerator;
use agentd_base::{Clock, Timestamp};
use agentd_store::{Db, StoreError};
use parking_lot::Mutex;

use super::counter::Counter;
use super::period::{Period, Zoned};
use super::store::{self, LatencyRow, UsageDimension};
use crate::parts::Detached;
use crate::runtime::{AppContext, Recorder};
use crate::settings::Settings;
pub use latencies::LatencyBucket;

pub use super::store::UsageSum;

/// Measurements that are not stored yet.
#[derive(Debug, Default)]
struct PendingMeasurements {
    /// Start of the minute being recorded.
    minute: Option<i64>,
    /// Rows taken from the recorder that wait while the database is unavailable.
    rows: Vec<(LatencyRow, u64)>,
    /// Incremented whenever rows are taken or stored.
    generation: u64,
}

#[derive(Debug)]
struct Inner {
    db: Db,
    clock: Clock,
    ids: IdGenerator,
    settings: Settings,
    recorder: Recorder,
    pending: Mutex<PendingMeasurements>,
    /// Time of the last compaction.
    compacted_at: Mutex<Option<Timestamp>>,
}

/// Rollup service. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Rollups(Arc<Inner>);

impl Rollups {
    pub fn new(context: &AppContext, settings: Settings) -> Detached<Self> {
        Detached::new(Self(Arc::new(Inner {
            db: context.db.clone(),
            clock: context.clock.clone(),
            ids: context.ids.clone(),
            settings,
            recorder: context.recorder.clone(),
            pending: Mutex::default(),
            compacted_at: Mutex::default(),
        })))
    }

    pub(super) fn recorder(&self) -> &Recorder {
        &self.0.recorder
    }

    /// Returns the calendar of the profile's time zone.
    #[must_use]
    pub fn days(&self) -> Zoned {
        Zoned(self.0.settings.timezone())
    }

    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.0.clock.now()
    }

    /// Sums counters in a period, by counter and label.
    ///
    /// # Errors
    /// `StoreError` if the database is unavailable.
    pub async fn sum_counters(
        &self,
        period: Period,
        counters: &[Counter],
    ) -> Result<Vec<(Counter, String, u64)>, StoreError> {
        store::sum_counters(&mut self.0.db.read().await?, period, counters).await
    }

    /// Lists counters in a period over all labels, by the time of their buckets.
    ///
    /// # Errors
    /// `StoreError` if the database is unavailable.
    pub async fn list_counters(
        &self,
        period: Period,
        counters: &[Counter],
    ) -> Result<Vec<(Timestamp, Counter, u64)>, StoreError> {
        store::list_counters(&mut self.0.db.read().await?, period, counters).await
    }

    /// Sums the usage of model calls in a period, by the labels of a dimension.
    ///
    /// # Errors
    /// `StoreError` if the database is unavailable.
    pub async fn sum_usage_by(
        &self,
        period: Period,
        dimension: UsageDimension,
    ) -> Result<Vec<(String, UsageSum)>, StoreError> {
        store::sum_usage_by(&mut self.0.db.read().await?, period, dimension).await
    }

    /// Lists the usage of model calls in a period, by the time of its buckets.
    ///
    /// # Errors
    /// `StoreError` if the database is unavailable.
    pub async fn list_usage(&self, period: Period) -> Result<Vec<(Timestamp, UsageSum)>, StoreError> {
        store::list_usage(&mut self.0.db.read().await?, period).await
    }
}
