//! Reading what was rolled up, and storing what was recorded.

use std::collections::BTreeMap;
use std::sync::Arc;

use agentd_base::{Clock, Timestamp};
use agentd_store::{Db, StoreError, Tx};
use parking_lot::Mutex;

use super::period::{Period, Zoned};
use super::store::{self, DAY, HOUR, LatencyRow, MINUTE, QUARTER};
use crate::runtime::{AppContext, Latency, Recorded, Recorder, Series};
use crate::settings::Settings;

pub use super::store::UsageSum;

/// How long what is counted stays as fine as it is.
const MINUTES_KEPT: i64 = 48 * HOUR;
const HOURS_KEPT: i64 = 90 * DAY;
/// What a call used is asked for by the hour of the last 24.
const QUARTERS_KEPT: i64 = 48 * HOUR;
/// Minutes or hours put together in one transaction.
const WIDENED_AT_ONCE: usize = 24;
/// Rows that wait because the database is away; the oldest go first.
const MAX_WAITING: usize = 20_000;

/// What a sum is asked by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UsageDimension {
    Model,
    Agent,
    Project,
    Origin,
    Key,
}

impl UsageDimension {
    fn column(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Agent => "agent_id",
            Self::Project => "project_id",
            Self::Origin => "origin",
            Self::Key => "key_id",
        }
    }
}

/// What was measured in the bucket that begins then.
#[derive(Debug, Clone)]
pub struct LatencyBucket {
    pub start: Timestamp,
    pub series: Series,
    pub label: String,
    pub recorded: Recorded,
}

/// Recorded in memory and not stored yet.
#[derive(Debug, Default)]
struct Unstored {
    /// The minute in which the recording began that is under way.
    minute: Option<i64>,
    /// Taken from the recorder, while the database is away.
    rows: Vec<(LatencyRow, u64)>,
}

#[derive(Debug)]
struct Inner {
    db: Db,
    clock: Clock,
    settings: Settings,
    recorder: Recorder,
    instance: Arc<str>,
    unstored: Mutex<Unstored>,
}

/// Cheap to clone.
#[derive(Debug, Clone)]
pub struct Rollups(Arc<Inner>);

impl Rollups {
    #[must_use]
    pub fn new(context: &AppContext, settings: Settings) -> Self {
        Self(Arc::new(Inner {
            db: context.db.clone(),
            clock: context.clock.clone(),
            settings,
            recorder: context.recorder.clone(),
            instance: Arc::clone(&context.instance),
            unstored: Mutex::default(),
        }))
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

    /// When the minute is over that is being recorded, if anything is.
    pub(super) fn minute_ends(&self) -> Option<Timestamp> {
        let unstored = self.0.unstored.lock();
        unstored.minute.map(|minute| Timestamp::from_micros(minute + MINUTE * 1_000_000))
    }

    /// Stores what was recorded in minutes that are over; with `is_last`, in this one too. Answers how many rows.
    ///
    /// # Errors
    /// The database is away; nothing is lost then.
    pub async fn flush(&self, is_last: bool) -> Result<usize, StoreError> {
        let now = store::start_of(self.now(), MINUTE);
        {
            let mut unstored = self.0.unstored.lock();
            let has_news = self.0.recorder.has_news();
            match unstored.minute {
                None if has_news && !is_last => unstored.minute = Some(now),
                Some(minute) if minute == now && !is_last => {}
                None if !has_news => {}
                minute => {
                    let start = minute.unwrap_or(now);
                    let taken = self.0.recorder.drain().into_iter().map(|(series, label, recorded)| {
                        let row = LatencyRow {
                            start,
                            series: series.as_str().to_owned(),
                            label: label.into(),
                            errors: recorded.errors,
                            buckets: recorded.latency.to_bytes(),
                        };
                        (row, recorded.latency.count())
                    });
                    unstored.rows.extend(taken);
                    let excess = unstored.rows.len().saturating_sub(MAX_WAITING);
                    unstored.rows.drain(..excess);
                    unstored.minute = None;
                }
            }
        }
        let rows = self.0.unstored.lock().rows.clone();
        if rows.is_empty() {
            return Ok(0);
        }
        let (stored, instance) = (rows.len(), Arc::clone(&self.0.instance));
        let write = async move |tx: &mut Tx| {
            for (row, count) in &rows {
                store::put_latency(tx, row, MINUTE, &instance, *count).await?;
            }
            Ok::<_, StoreError>(())
        };
        self.0.db.write(write).await?;
        self.0.unstored.lock().rows.drain(..stored);
        Ok(stored)
    }

    /// Makes old buckets wider; a bounded number a call. Answers how many were made, and whether there are more.
    ///
    /// # Errors
    /// The database is away.
    pub async fn widen(&self) -> Result<(u64, bool), StoreError> {
        let now = self.now().as_micros();
        let mut made = 0;
        let mut has_more = false;
        for (table, span, kept) in [
            ("counters", MINUTE, MINUTES_KEPT),
            ("counters", HOUR, HOURS_KEPT),
            ("latencies", MINUTE, MINUTES_KEPT),
            ("latencies", HOUR, HOURS_KEPT),
            ("usage_rollups", QUARTER, QUARTERS_KEPT),
        ] {
            let before = now - kept * 1_000_000;
            for at in 0..WIDENED_AT_ONCE {
                let oldest = store::oldest(&mut self.0.db.read().await?, table, span).await?;
                let Some(oldest) = oldest.map(Timestamp::from_micros) else { break };
                let wider = if span == MINUTE { HOUR } else { DAY };
                let period = self.bucket_of(oldest, wider);
                if period.1 > before {
                    break;
                }
                self.widen_one(table, span, period, wider).await?;
                made += 1;
                has_more |= at + 1 == WIDENED_AT_ONCE;
            }
        }
        Ok((made, has_more))
    }

    fn bucket_of(&self, at: Timestamp, span: i64) -> (i64, i64) {
        if span == DAY {
            let days = self.days();
            let day = days.date(at);
            let period = days.between(day, day);
            return (period.from.as_micros(), period.to.as_micros());
        }
        let start = store::start_of(at, span);
        (start, start + span * 1_000_000)
    }

    async fn widen_one(
        &self,
        table: &'static str,
        span: i64,
        period: (i64, i64),
        wider: i64,
    ) -> Result<(), StoreError> {
        let widen = async move |tx: &mut Tx| match table {
            "counters" => store::widen_counters(tx, span, period, wider).await,
            "usage_rollups" => store::widen_usage(tx, span, period, wider).await,
            _ => widen_latencies(tx, span, period, wider).await,
        };
        self.0.db.write(widen).await.map(|_| ())
    }

    /// What was counted in a period, by counter and label.
    ///
    /// # Errors
    /// The database is away.
    pub async fn counted(&self, period: Period) -> Result<Vec<(String, String, u64)>, StoreError> {
        store::sum_counters(&mut self.0.db.read().await?, period).await
    }

    /// The same by counter and by when its buckets begin.
    ///
    /// # Errors
    /// The database is away.
    pub async fn counted_over_time(&self, period: Period) -> Result<Vec<(Timestamp, String, u64)>, StoreError> {
        store::list_counters(&mut self.0.db.read().await?, period).await
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
        store::sum_usage_by(&mut self.0.db.read().await?, period, dimension.column()).await
    }

    /// The same by when the buckets begin.
    ///
    /// # Errors
    /// The database is away.
    pub async fn usage_over_time(&self, period: Period) -> Result<Vec<(Timestamp, UsageSum)>, StoreError> {
        store::list_usage(&mut self.0.db.read().await?, period).await
    }

    /// How long things took in a period, what is not stored yet included.
    ///
    /// # Errors
    /// The database is away.
    pub async fn latencies(&self, period: Period, series: &[Series]) -> Result<Vec<LatencyBucket>, StoreError> {
        let names: Vec<&str> = series.iter().map(|series| series.as_str()).collect();
        let rows = store::list_latencies(&mut self.0.db.read().await?, period, &names).await?;
        let mut buckets: Vec<LatencyBucket> = rows
            .into_iter()
            .filter_map(|row| {
                let series = series.iter().copied().find(|series| series.as_str() == row.series)?;
                let mut latency = Latency::default();
                latency.merge_bytes(&row.buckets);
                let recorded = Recorded { latency, errors: row.errors };
                Some(LatencyBucket { start: Timestamp::from_micros(row.start), series, label: row.label, recorded })
            })
            .collect();
        let start = self.0.unstored.lock().minute.unwrap_or_else(|| store::start_of(self.now(), MINUTE));
        let start = Timestamp::from_micros(start);
        if start >= period.from && start < period.to {
            let unstored = self.0.recorder.load().into_iter().filter(|(of, _, _)| series.contains(of));
            let bucket = |(series, label, recorded): (Series, Box<str>, Recorded)| LatencyBucket {
                start,
                series,
                label: label.into(),
                recorded,
            };
            buckets.extend(unstored.map(bucket));
        }
        Ok(buckets)
    }
}

/// Histograms are added here: the database cannot.
async fn widen_latencies(tx: &mut Tx, span: i64, period: (i64, i64), wider: i64) -> Result<u64, StoreError> {
    let mut merged: BTreeMap<(String, String), Recorded> = BTreeMap::new();
    let there = store::list_latencies_of(tx, wider, (period.0, period.0 + 1)).await?;
    for row in there.into_iter().chain(store::list_latencies_of(tx, span, period).await?) {
        let recorded = merged.entry((row.series, row.label)).or_default();
        recorded.latency.merge_bytes(&row.buckets);
        recorded.errors += row.errors;
    }
    for ((series, label), recorded) in merged {
        let buckets = recorded.latency.to_bytes();
        let row = LatencyRow { start: period.0, series, label, errors: recorded.errors, buckets };
        store::put_latency(tx, &row, wider, "", recorded.latency.count()).await?;
    }
    store::delete_latencies(tx, span, period).await
}
