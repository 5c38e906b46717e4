//! Reading what was rolled up.

mod measured;
mod widen;

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
pub use measured::LatencyBucket;

pub use super::store::UsageSum;

/// Recorded in memory and not stored yet.
#[derive(Debug, Default)]
struct Unstored {
    /// The minute in which the recording began that is under way.
    minute: Option<i64>,
    /// Taken from the recorder, while the database is away.
    rows: Vec<(LatencyRow, u64)>,
    /// Counts what was taken and what was stored.
    moves: u64,
}

#[derive(Debug)]
struct Inner {
    db: Db,
    clock: Clock,
    ids: IdGenerator,
    settings: Settings,
    recorder: Recorder,
    unstored: Mutex<Unstored>,
    /// What time it was when buckets were last made wider.
    widened_at: Mutex<Option<Timestamp>>,
}

/// Cheap to clone.
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
            unstored: Mutex::default(),
            widened_at: Mutex::default(),
        })))
    }

    pub(super) fn recorder(&self) -> &Recorder {
        &self.0.recorder
    }

    /// The days of the profile's time zone.
    #[must_use]
    pub fn days(&self) -> Zoned {
        Zoned(self.0.settings.timezone())
    }

    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.0.clock.now()
    }

    /// What was counted in a period, by counter and label.
    ///
    /// # Errors
    /// The database is away.
    pub async fn counted(
        &self,
        period: Period,
        counters: &[Counter],
    ) -> Result<Vec<(Counter, String, u64)>, StoreError> {
        store::sum_counters(&mut self.0.db.read().await?, period, counters).await
    }

    /// The same, whatever the label, by where its rows stand.
    ///
    /// # Errors
    /// The database is away.
    pub async fn counted_over_time(
        &self,
        period: Period,
        counters: &[Counter],
    ) -> Result<Vec<(Timestamp, Counter, u64)>, StoreError> {
        store::list_counters(&mut self.0.db.read().await?, period, counters).await
    }

    /// What calls used in a period.
    ///
    /// # Errors
    /// The database is away.
    pub async fn usage_by(
        &self,
        period: Period,
        dimension: UsageDimension,
    ) -> Result<Vec<(String, UsageSum)>, StoreError> {
        store::sum_usage_by(&mut self.0.db.read().await?, period, dimension).await
    }

    /// The same by where its rows stand.
    ///
    /// # Errors
    /// The database is away.
    pub async fn usage_over_time(&self, period: Period) -> Result<Vec<(Timestamp, UsageSum)>, StoreError> {
        store::list_usage(&mut self.0.db.read().await?, period).await
    }
}
