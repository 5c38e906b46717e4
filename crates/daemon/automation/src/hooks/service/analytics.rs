//! What hooks came to over time.

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
    /// How long a bucket is.
    #[derive(Default)]
    #[schema(default = Period::default)]
    Period, Hourly, {
        /// An hour of the profile's time zone, which may begin at another minute than one of UTC.
        #[default]
        Hourly = "hourly",
        /// A day of the profile's time zone.
        Daily = "daily",
    }
);

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);
/// More buckets are not answered.
const MAX_BUCKETS: usize = 1000;

/// Ends within some time, in figures that people read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Totals {
    pub deliveries: u64,
    pub succeeded: u64,
    pub failed: u64,
    /// 0 to 1; 0 when nothing ended.
    pub success_rate: f64,
    pub avg_latency_ms: f64,
}

impl From<Figures> for Totals {
    #[allow(clippy::cast_precision_loss, reason = "figures for people")]
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

/// The figures of a hook.
#[derive(Debug, Clone)]
pub struct Analytics {
    pub start: Timestamp,
    pub end: Timestamp,
    pub totals: Totals,
    /// By their beginning, oldest first, empty ones included.
    pub buckets: Vec<(Timestamp, Totals)>,
}

/// What was counted between two times.
struct Counted {
    start: Timestamp,
    end: Timestamp,
    by_period: BTreeMap<Timestamp, Figures>,
}

impl Counted {
    /// Of a period that lies partly outside, counts what lies inside, by the rows. Where not all of them are kept any
    /// more, the whole period counts, and the answer says so.
    async fn cut(&mut self, read: &mut Read, id: &HookId, period: Timestamp) -> Result<(), StoreError> {
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
    /// What a hook came to between two times; without them the last day by the hour, or the last 30 days.
    ///
    /// # Errors
    /// `NotFound`, `Invalid` times, or the database is away.
    pub async fn analytics(
        &self,
        id: &HookId,
        period: Period,
        start: Option<Timestamp>,
        end: Option<Timestamp>,
    ) -> Result<Analytics, HookError> {
        // What ended at this very moment is in it.
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
            return invalid("start", format!("must be so near to end that there are at most {MAX_BUCKETS} buckets"));
        }
        let mut read = self.db().read_snapshot().await?;
        store::find_hook(&mut read, id).await?.ok_or_else(|| HookError::not_found(id.as_str()))?;
        let mut counted = Counted { start, end, by_period: BTreeMap::new() };
        for (at, found) in figures::list_figures(&mut read, id, figures::period_of(start), end).await? {
            counted.by_period.insert(at, found);
        }
        let now = self.context().clock.now();
        // A period that begins with the edge is whole, and so is one of which nothing lies behind the edge yet.
        let is_cut = |edge: &Timestamp| figures::period_of(*edge) < *edge && *edge <= now;
        let cut: BTreeSet<Timestamp> =
            [start, end].iter().filter(|edge| is_cut(edge)).map(|edge| figures::period_of(*edge)).collect();
        for period in cut {
            counted.cut(&mut read, id, period).await?;
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

    /// Where the buckets begin: one more than asked for at most, so that too many show.
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

    /// What all hooks came to, as far as figures are kept, by the type of the event.
    ///
    /// # Errors
    /// The database is away.
    pub async fn global_analytics(&self) -> Result<(Totals, Vec<(String, Totals)>), HookError> {
        let by_event = figures::sum_by_event(&mut self.db().read().await?).await?;
        let mut totals = Figures::default();
        for (_, figures) in &by_event {
            totals.add(*figures);
        }
        Ok((totals.into(), by_event.into_iter().map(|(event, figures)| (event, figures.into())).collect()))
    }
}
