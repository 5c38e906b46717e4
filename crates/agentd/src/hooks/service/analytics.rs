//! What hooks came to over time.

use std::collections::BTreeMap;
use std::time::Duration;

use agentd_base::{FieldProblem, Timestamp};
use jiff::ToSpan;

use super::Hooks;
use crate::hooks::error::HookError;
use crate::hooks::model::{HookId, stored_enum};
use crate::hooks::store;
use crate::hooks::store::figures::{self, Figures};

stored_enum!(
    /// How long a bucket is.
    Period, Hourly, {
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
        let end = end.unwrap_or_else(|| self.ground().clock.now() + Duration::from_micros(1));
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
        let mut read = self.db().read().await?;
        store::find_hook(&mut read, id).await?.ok_or_else(|| HookError::not_found(id.as_str()))?;
        let mut buckets: BTreeMap<Timestamp, Figures> =
            starts.into_iter().map(|start| (start, Figures::default())).collect();
        let from = buckets.keys().next().copied().unwrap_or(start);
        let mut totals = Figures::default();
        for (at, found) in figures::list_figures(&mut read, id, from, end).await? {
            totals.add(found);
            if let Some((_, bucket)) = buckets.range_mut(..=at).next_back() {
                bucket.add(found);
            }
        }
        let buckets = buckets.into_iter().map(|(start, figures)| (start, figures.into())).collect();
        Ok(Analytics { start: from, end, totals: totals.into(), buckets })
    }

    /// Where the buckets begin: one more than asked for at most, so that too many show.
    fn bucket_starts(&self, period: Period, start: Timestamp, end: Timestamp) -> Vec<Timestamp> {
        let mut starts = Vec::new();
        match period {
            Period::Hourly => {
                let hour = i64::try_from(HOUR.as_micros()).unwrap_or(i64::MAX);
                let mut at = Timestamp::from_micros(start.as_micros().div_euclid(hour) * hour);
                while at < end && starts.len() <= MAX_BUCKETS {
                    starts.push(at);
                    at = at + HOUR;
                }
            }
            Period::Daily => {
                let zone = self.means().settings.timezone();
                let mut day = self.means().settings.day(start);
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
