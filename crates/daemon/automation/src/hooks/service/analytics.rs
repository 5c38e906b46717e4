//! Delivery analytics for hooks.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use agentd_base::{FieldProblem, Timestamp};
use agentd_store::{Read, StoreError};
use jiff::ToSpan;

use super::Hooks;
use crate::hooks::error::HookError;
use crate::hooks::model::{HookId, stored_enum};
use crate::hooks::store;
use crate::hooks::store::figures::{self, Figures};

stored_enum!(
    /// Length of a bucket: one hour or one day in the profile's time zone.
    #[derive(Default)]
    #[schema(default = Period::default)]
    Period, Hourly, {
        /// An hour of the profile's time zone, which may begin at a different minute than in UTC.
        #[default]
        Hourly = "hourly",
        /// A day of the profile's time zone.
        Daily = "daily",
    }
);

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);
/// Maximum number of buckets in a response.
const MAX_BUCKETS: usize = 1000;

/// Numbers of completed deliveries and executions, with derived rates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Totals {
    pub deliveries: u64,
    pub succeeded: u64,
    pub failed: u64,
    /// 0 to 1; 0 when nothing completed.
    pub success_rate: f64,
    pub avg_latency_ms: f64,
}

impl From<Figures> for Totals {
    #[allow(clippy::cast_precision_loss, reason = "displayed values, precision is not critical")]
    fn from(figures: Figures) -> Self {
        let deliveries = figures.succeeded + figures.failed;
        let share = |part: u64| if deliveries == 0 { 0.0 } else { part as f64 / deliveries as f64 };
        Self {
            deliveries,
            succeeded: figures.succeeded,
            failed: figures.failed,
            success_rate: share(figures.succeeded),
            avg_latency_ms: share(figures.duration_ms),
        }
    }
}

/// Delivery analytics of one hook.
#[derive(Debug, Clone)]
pub struct Analytics {
    pub start: Timestamp,
    pub end: Timestamp,
    pub totals: Totals,
    /// Buckets by their start, oldest first, including empty ones.
    pub buckets: Vec<(Timestamp, Totals)>,
}

/// Counts of the periods between two times.
struct PeriodCounts {
    start: Timestamp,
    end: Timestamp,
    by_period: BTreeMap<Timestamp, Figures>,
}

impl PeriodCounts {
    /// Recounts a boundary period from its rows so that only the part inside the range is included. If rows of the
    /// period were already purged, the whole period counts, and the range is extended to it.
    async fn recount_boundary(&mut self, read: &mut Read, id: &HookId, period: Timestamp) -> Result<(), StoreError> {
        let period_end = period + figures::PERIOD;
        let whole = figures::count_ended(read, id, period, period_end).await?;
        let counted = self.by_period.get(&period).copied().unwrap_or_default();
        let (from, until) = (period.max(self.start), period_end.min(self.end));
        if (whole.succeeded, whole.failed) == (counted.succeeded, counted.failed) {
            let inside = figures::count_ended(read, id, from, until).await?;
            self.by_period.insert(period, inside);
        } else {
            self.start = if from == period { self.start } else { period };
            self.end = if until == period_end { self.end } else { period_end };
        }
        Ok(())
    }
}

impl Hooks {
    /// Returns the analytics of a hook between two times. Defaults to the last 24 hours, or the last 30 days for daily
    /// buckets.
    ///
    /// # Errors
    /// `NotFound`, `Invalid` times, or the database is unavailable.
    pub async fn analytics(
        &self,
        id: &HookId,
        period: Period,
        start: Option<Timestamp>,
        end: Option<Timestamp>,
    ) -> Result<Analytics, HookError> {
        // `end` is exclusive; the added microsecond includes work that completes now.
        let end = end.unwrap_or_else(|| self.context().clock.now() + Duration::from_micros(1));
        let start = start.unwrap_or_else(|| match period {
            Period::Hourly => end - DAY,
            Period::Daily => end - DAY * 30,
        });
        let invalid = |field: &str, message: String| {
            Err(HookError::Invalid { problems: vec![FieldProblem { field: field.to_owned(), message }] })
        };
        if start >= end {
            return invalid("start", "must be before end".to_owned());
        }
        let starts = self.bucket_starts(period, start, end);
        if starts.len() > MAX_BUCKETS {
            return invalid("start", format!("must be closer to end: the range has more than {MAX_BUCKETS} buckets"));
        }
        let mut read = self.db().read_snapshot().await?;
        store::find_hook(&mut read, id).await?.ok_or_else(|| HookError::not_found(id.as_str()))?;
        let mut counted = PeriodCounts { start, end, by_period: BTreeMap::new() };
        for (at, found) in figures::list_figures(&mut read, id, figures::period_of(start), end).await? {
            counted.by_period.insert(at, found);
        }
        let now = self.context().clock.now();
        // A period that begins at the edge is complete, and so is one whose edge lies in the future.
        let is_cut = |edge: &Timestamp| figures::period_of(*edge) < *edge && *edge <= now;
        let cut: BTreeSet<Timestamp> =
            [start, end].iter().filter(|edge| is_cut(edge)).map(|edge| figures::period_of(*edge)).collect();
        for period in cut {
            counted.recount_boundary(&mut read, id, period).await?;
        }
        let mut buckets: BTreeMap<Timestamp, Figures> =
            starts.into_iter().map(|start| (start, Figures::default())).collect();
        let mut totals = Figures::default();
        for (at, found) in counted.by_period {
            totals.add(found);
            if let Some((_, bucket)) = buckets.range_mut(..=at).next_back() {
                bucket.add(found);
            }
        }
        let buckets = buckets.into_iter().map(|(start, figures)| (start, figures.into())).collect();
        Ok(Analytics { start: counted.start, end: counted.end, totals: totals.into(), buckets })
    }

    /// Returns the start of each bucket. Stops one past [`MAX_BUCKETS`], so that the caller can detect the excess.
    fn bucket_starts(&self, period: Period, start: Timestamp, end: Timestamp) -> Vec<Timestamp> {
        let zone = self.dependencies().settings.timezone();
        let mut starts = Vec::new();
        match period {
            Period::Hourly => {
                let hour = i64::try_from(HOUR.as_micros()).unwrap_or(i64::MAX);
                let offset = i64::from(zone.to_offset(start.to_jiff()).seconds()) * 1_000_000;
                let mut at = Timestamp::from_micros((start.as_micros() + offset).div_euclid(hour) * hour - offset);
                while at < end && starts.len() <= MAX_BUCKETS {
                    starts.push(at);
                    at = at + HOUR;
                }
            }
            Period::Daily => {
                let mut day = self.dependencies().settings.day(start);
                while starts.len() <= MAX_BUCKETS {
                    let Ok(midnight) = day.to_zoned(zone.clone()) else { break };
                    let at = Timestamp::from(midnight.timestamp());
                    if at >= end {
                        break;
                    }
                    starts.push(at);
                    let Ok(next) = day.checked_add(1.day()) else { break };
                    day = next;
                }
            }
        }
        starts
    }

    /// Returns the totals of all hooks within the retention period, overall and by event type.
    ///
    /// # Errors
    /// The database is unavailable.
    pub async fn global_analytics(&self) -> Result<(Totals, Vec<(String, Totals)>), HookError> {
        let by_event = figures::sum_by_event(&mut self.db().read().await?).await?;
        let mut totals = Figures::default();
        for (_, figures) in &by_event {
            totals.add(*figures);
        }
        Ok((totals.into(), by_event.into_iter().map(|(event, figures)| (event, figures.into())).collect()))
    }
}
