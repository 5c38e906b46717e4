//! Reads the values of conditions.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use agentd_base::Timestamp;
use agentd_core::rollups::{Counter, Period, UsageSum};
use agentd_engine::providers::ProviderError;

use super::Alerts;
use super::minutes::{MINUTE_MICROS, Sums};
use crate::alerts::error::AlertError;
use crate::alerts::model::{Figure, Figures};
use crate::alerts::store;

/// Length of the intervals in which usage is aggregated.
const QUARTER_MICROS: i64 = 15 * MINUTE_MICROS;

/// Required variables per period in minutes.
pub(super) type RequiredFigures = BTreeMap<u32, BTreeSet<Figure>>;

/// Returns the start of a period, rounded down to the minute, so that the period is never shorter than configured.
fn period_start(now: Timestamp, period_minutes: u32) -> Timestamp {
    let from = now.as_micros() - i64::from(period_minutes) * MINUTE_MICROS;
    Timestamp::from_micros(from.div_euclid(MINUTE_MICROS) * MINUTE_MICROS)
}

fn next_quarter(at: Timestamp) -> Timestamp {
    Timestamp::from_micros((at.as_micros() + QUARTER_MICROS - 1).div_euclid(QUARTER_MICROS) * QUARTER_MICROS)
}

#[allow(clippy::cast_precision_loss, reason = "an approximate value is sufficient")]
fn float(count: u64) -> f64 {
    count as f64
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| float(part) / float(whole))
}

/// Returns the usage of the limit closest to exhaustion, in percent.
fn used_percent(used: &[(u64, Option<u64>)]) -> Option<f64> {
    let percents = used.iter().filter_map(|(used, limit)| ratio(*used, (*limit)?).map(|ratio| ratio * 100.0));
    percents.max_by(f64::total_cmp)
}

struct Reader<'r> {
    alerts: &'r Alerts,
    needed: &'r RequiredFigures,
    now: Timestamp,
}

impl Alerts {
    /// Reads each required variable once per period.
    pub(super) async fn read_figures(&self, needed: &RequiredFigures) -> Result<BTreeMap<u32, Figures>, AlertError> {
        let reader = Reader { alerts: self, needed, now: self.0.context.clock.now() };
        let current = reader.read_current().await?;
        let mut figures: BTreeMap<u32, Figures> = needed.keys().map(|period| (*period, current.clone())).collect();
        for of_periods in [
            reader.read_latencies().await?,
            reader.read_counters().await?,
            reader.read_usage().await?,
            reader.read_runs().await?,
        ] {
            for (period, found) in of_periods {
                figures.entry(period).or_default().extend(&found);
            }
        }
        Ok(figures)
    }
}

impl Reader<'_> {
    fn requires(&self, any_of: &[Figure]) -> bool {
        self.needed.values().any(|figures| any_of.iter().any(|figure| figures.contains(figure)))
    }

    /// Returns the periods that require one of the variables, with their starts.
    fn periods_requiring(&self, any_of: &[Figure]) -> Vec<(u32, Timestamp)> {
        let requiring = self.needed.iter().filter(|(_, figures)| any_of.iter().any(|figure| figures.contains(figure)));
        requiring.map(|(period, _)| (*period, period_start(self.now, *period))).collect()
    }

    fn period_until_now(&self, from: Timestamp) -> Period {
        // The current minute starts before now, and no later minute exists.
        Period { from, to: self.now + Duration::from_secs(60) }
    }

    /// Reads current values, which are independent of the period.
    async fn read_current(&self) -> Result<Figures, AlertError> {
        let (inner, mut figures) = (&self.alerts.0, Figures::default());
        if self.requires(&[Figure::CpuPercent, Figure::MemoryPercent, Figure::DiskPercent]) {
            let load = inner.sources.system.load().await;
            figures.set(Figure::CpuPercent, load.cpu_percent);
            figures.set(Figure::MemoryPercent, load.memory_percent);
            figures.set(Figure::DiskPercent, load.disk_percent);
        }
        if self.requires(&[Figure::BudgetPercent]) {
            inner.sources.settings.refresh().await.map_err(ProviderError::from)?;
            let usage = inner.sources.providers.usage_figures().await?;
            let used = [(usage.used_today, usage.limit_today), (usage.total_used, usage.total_limit)];
            figures.set(Figure::BudgetPercent, used_percent(&used));
        }
        if self.requires(&[Figure::QueuePending]) {
            let items = store::count_pending(&mut inner.context.db.read().await?).await?;
            let deliveries = inner.sources.hooks.queue_stats().await?;
            figures.set(Figure::QueuePending, Some(float(items + deliveries.pending + deliveries.failed)));
        }
        Ok(figures)
    }

    /// Reads requests and model calls.
    async fn read_latencies(&self) -> Result<BTreeMap<u32, Figures>, AlertError> {
        let periods = self.periods_requiring(&[
            Figure::ErrorRate,
            Figure::RequestsPerMinute,
            Figure::LatencyP95Ms,
            Figure::ModelCalls,
            Figure::FailedModelCalls,
        ]);
        let since: Vec<Timestamp> = periods.iter().map(|(_, from)| *from).collect();
        let rollups = &self.alerts.0.sources.rollups;
        let sums = self.alerts.0.minutes.lock().await.sums(rollups, self.now, &since).await?;
        let figures = |(period, from): (u32, Timestamp)| {
            let (mut figures, sums) = (Figures::default(), sums.get(&from).cloned().unwrap_or_else(Sums::default));
            let minutes = self.now.since(from).as_secs_f64() / 60.0;
            figures.set(Figure::ErrorRate, ratio(sums.failed_requests, sums.requests));
            figures.set(Figure::RequestsPerMinute, Some(float(sums.requests) / minutes));
            figures.set(Figure::LatencyP95Ms, sums.latency_p95_ms);
            figures.set(Figure::ModelCalls, Some(float(sums.model_calls)));
            figures.set(Figure::FailedModelCalls, Some(float(sums.failed_model_calls)));
            (period, figures)
        };
        Ok(periods.into_iter().map(figures).collect())
    }

    /// Reads counters and dead-lettered queue items.
    async fn read_counters(&self) -> Result<BTreeMap<u32, Figures>, AlertError> {
        let periods = self.periods_requiring(&[Figure::FailedRuns, Figure::DeadLetters]);
        let Some(first) = periods.iter().map(|(_, from)| *from).min() else { return Ok(BTreeMap::new()) };
        let counted = self
            .alerts
            .0
            .sources
            .rollups
            .list_counters(self.period_until_now(first), &[Counter::FailedRuns, Counter::DeadLetters])
            .await?;
        let dead_letters = store::list_dead_letters(&mut self.alerts.0.context.db.read().await?, first).await?;
        let figures = |(period, from): (u32, Timestamp)| {
            let sum = |counter: Counter| -> u64 {
                let of_counter = counted.iter().filter(|(at, of, _)| *at >= from && *of == counter);
                of_counter.map(|(_, _, count)| *count).sum()
            };
            let minute = from.as_micros() / MINUTE_MICROS;
            let items: u64 = dead_letters.iter().filter(|(at, _)| *at >= minute).map(|(_, items)| *items).sum();
            let mut figures = Figures::default();
            figures.set(Figure::FailedRuns, Some(float(sum(Counter::FailedRuns))));
            figures.set(Figure::DeadLetters, Some(float(sum(Counter::DeadLetters) + items)));
            (period, figures)
        };
        Ok(periods.into_iter().map(figures).collect())
    }

    /// Reads tokens and their cost: full quarters of an hour from aggregates, the part before the first quarter from
    /// single calls.
    async fn read_usage(&self) -> Result<BTreeMap<u32, Figures>, AlertError> {
        let periods = self.periods_requiring(&[Figure::Tokens, Figure::Cost]);
        let Some(first) = periods.iter().map(|(_, from)| *from).min() else { return Ok(BTreeMap::new()) };
        let sources = &self.alerts.0.sources;
        let quarters = sources.rollups.list_usage(self.period_until_now(next_quarter(first))).await?;
        let mut found = BTreeMap::new();
        for (period, from) in periods {
            let quarter = next_quarter(from);
            let mut sum: UsageSum = sources.providers.usage_between(Period { from, to: quarter }).await?;
            quarters.iter().filter(|(at, _)| *at >= quarter).for_each(|(_, used)| sum.add(used));
            let mut figures = Figures::default();
            figures.set(Figure::Tokens, Some(float(sum.total_tokens())));
            figures.set(Figure::Cost, sum.cost_usd());
            found.insert(period, figures);
        }
        Ok(found)
    }

    async fn read_runs(&self) -> Result<BTreeMap<u32, Figures>, AlertError> {
        let mut found = BTreeMap::new();
        for (period, from) in self.periods_requiring(&[Figure::ConsecutiveFailedRuns]) {
            let mut figures = Figures::default();
            let failed = self.alerts.0.sources.scheduler.max_consecutive_failures(from).await?;
            figures.set(Figure::ConsecutiveFailedRuns, Some(float(failed)));
            found.insert(period, figures);
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn period_is_never_shorter_than_configured() {
        let at = |text: &str| Timestamp::parse(text).unwrap();
        let now = at("2026-01-05T09:07:30Z");
        assert_eq!(period_start(now, 1), at("2026-01-05T09:06:00Z"));
        assert_eq!(period_start(now, 1_440), at("2026-01-04T09:07:00Z"));
        assert_eq!(next_quarter(at("2026-01-05T09:07:00Z")), at("2026-01-05T09:15:00Z"));
        assert_eq!(next_quarter(at("2026-01-05T09:15:00Z")), at("2026-01-05T09:15:00Z"));
    }

    #[test]
    fn budget_percent_is_of_the_limit_closest_to_exhaustion() {
        assert_eq!(used_percent(&[(80, Some(100)), (10, Some(1_000))]), Some(80.0));
        assert_eq!(used_percent(&[(80, None), (950, Some(1_000))]), Some(95.0));
        assert_eq!(used_percent(&[(80, None), (10, None)]), None);
        assert_eq!(used_percent(&[(80, Some(0))]), None, "a limit of zero has no percentage");
    }
}
