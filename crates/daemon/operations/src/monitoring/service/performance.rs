//! Latencies, throughput and failure rates.

use std::collections::BTreeMap;
use std::time::Duration;

use agentd_base::Timestamp;
use agentd_core::rollups::{Buckets, LatencyBucket, Period};
use agentd_core::runtime::{LatencySum, Recorded, Series};

use super::Monitoring;
use crate::monitoring::error::MonitoringError;
use crate::monitoring::model::{
    CallFigures, Granularity, HistoryPeriod, MAX_POINTS, PerformanceHistory, PerformancePoint, PerformanceView,
    QueueDepth, RequestFigures, RouteFigures, TurnFigures,
};
use crate::monitoring::store;

/// Length of the window of recent values.
pub(super) const WINDOW: Duration = Duration::from_secs(300);
const MINUTE: i64 = 60_000_000;
const SLOWEST_ROUTES: usize = 20;
/// Series of the performance history.
const HISTORY_SERIES: [Series; 3] = [Series::Requests, Series::Turn, Series::FirstToken];
/// Maximum number of minutes whose histograms are read at once; a month has megabytes of them.
const MAX_MINUTES_PER_READ: usize = 720;

/// Merges buckets of any time by label.
pub(super) fn merge_by_label<'b>(buckets: impl Iterator<Item = &'b LatencyBucket>) -> Vec<(String, Recorded)> {
    let mut by_label: BTreeMap<&str, Vec<&LatencyBucket>> = BTreeMap::new();
    for bucket in buckets {
        by_label.entry(&bucket.label).or_default().push(bucket);
    }
    let mut sum = LatencySum::default();
    let merge = |(label, buckets): (&str, Vec<&LatencyBucket>)| (label.to_owned(), sum_buckets(&mut sum, &buckets));
    by_label.into_iter().map(merge).collect()
}

fn sum_buckets(sum: &mut LatencySum, buckets: &[&LatencyBucket]) -> Recorded {
    buckets.iter().for_each(|bucket| sum.add(&bucket.histogram));
    Recorded { latency: sum.take(), errors: buckets.iter().map(|bucket| bucket.errors).sum() }
}

fn start_of_minute(at: Timestamp) -> Timestamp {
    Timestamp::from_micros(at.as_micros().div_euclid(MINUTE) * MINUTE)
}

impl Monitoring {
    /// Returns the period of the last five minutes, rounded to whole minutes, and its length.
    pub(super) fn window(&self) -> (Period, Duration) {
        let now = self.context.clock.now();
        let from = start_of_minute(now - WINDOW);
        let to = Timestamp::from_micros(start_of_minute(now).as_micros() + MINUTE);
        (Period { from, to }, now.since(from))
    }

    /// Returns the performance of the last five minutes.
    ///
    /// # Errors
    /// The database is unavailable.
    pub async fn performance(&self) -> Result<PerformanceView, MonitoringError> {
        const ALL: [Series; 6] =
            [Series::Requests, Series::Request, Series::Turn, Series::FirstToken, Series::ModelCall, Series::Tool];
        let (period, elapsed) = self.window();
        let buckets = self.sources.rollups.latencies(period, &ALL).await?;
        let merged = |series| merge_by_label(buckets.iter().filter(move |bucket| bucket.series == series));
        let one = |series| merged(series).pop().map(|(_, recorded)| recorded).unwrap_or_default();
        let seconds = elapsed.as_secs_f64();
        let route = |(route, recorded): (String, Recorded)| RouteFigures {
            route,
            figures: RequestFigures::of(&recorded, seconds),
        };
        let mut routes: Vec<RouteFigures> = merged(Series::Request).into_iter().map(route).collect();
        routes.sort_by(|left, right| {
            let key = |route: &RouteFigures| route.figures.p95_ms.unwrap_or(0.0);
            key(right).total_cmp(&key(left)).then_with(|| left.route.cmp(&right.route))
        });
        routes.truncate(SLOWEST_ROUTES);
        let calls = |series| {
            let mut calls: Vec<CallFigures> =
                merged(series).into_iter().map(|(name, recorded)| CallFigures::of(name, &recorded)).collect();
            calls.sort_by(|left, right| right.count.cmp(&left.count).then_with(|| left.name.cmp(&right.name)));
            calls
        };
        Ok(PerformanceView {
            window_seconds: elapsed.as_secs(),
            requests: RequestFigures::of(&one(Series::Requests), seconds),
            routes,
            turns: TurnFigures::of(&one(Series::Turn), &one(Series::FirstToken)),
            providers: calls(Series::ModelCall),
            tools: calls(Series::Tool),
            queues: self.queues().await?,
        })
    }

    async fn queues(&self) -> Result<Vec<QueueDepth>, MonitoringError> {
        let depths = store::list_queue_depths(&mut self.context.db.read().await?).await?;
        let mut queues: BTreeMap<String, QueueDepth> = BTreeMap::new();
        for (queue, status, items) in depths {
            let depth = queues.entry(queue.clone()).or_insert_with(|| QueueDepth { queue, ..QueueDepth::default() });
            match status.as_str() {
                "pending" => depth.pending = items,
                "leased" => depth.leased = items,
                _ => depth.dead_letter = items,
            }
        }
        let mut all: Vec<QueueDepth> = queues.into_values().collect();
        for own in &self.sources.queues {
            all.push(own.depth().await?);
        }
        Ok(all)
    }

    /// Returns the performance over a period.
    ///
    /// # Errors
    /// `Invalid` if there are too many points, or the database is unavailable.
    pub async fn performance_history(
        &self,
        period: HistoryPeriod,
        granularity: Option<Granularity>,
    ) -> Result<PerformanceHistory, MonitoringError> {
        let granularity = granularity.unwrap_or(Granularity::default_for(period));
        let points = granularity.points(period);
        if points > MAX_POINTS {
            let message = format!(
                "makes {points} points of this period, and at most {MAX_POINTS} are answered; choose a coarser one, or a \
                 shorter `period`"
            );
            return Err(MonitoringError::field("granularity", message));
        }
        self.sources.settings.refresh().await?;
        let buckets = self.buckets(granularity, u16::try_from(points).unwrap_or(u16::MAX));
        let periods: Vec<Period> = buckets.each().collect();
        let mut points = Vec::with_capacity(periods.len());
        let chunks = periods.chunks((MAX_MINUTES_PER_READ / granularity.minutes()).max(1));
        let mut measured: Option<(&[Period], Vec<LatencyBucket>)> = None;
        for periods in chunks.map(Some).chain([None]) {
            // The next chunk is read while the previous one is aggregated.
            let next = async {
                let Some(periods) = periods else { return Ok(None) };
                Ok::<_, MonitoringError>(Some((periods, self.read(periods).await?)))
            };
            let add = async {
                if let Some((periods, buckets)) = &measured {
                    self.add_points(periods, buckets, &mut points);
                }
            };
            let (next, ()) = tokio::join!(next, add);
            measured = next?;
        }
        Ok(PerformanceHistory { period, granularity, points })
    }

    /// Reads the measurements of consecutive periods.
    async fn read(&self, periods: &[Period]) -> Result<Vec<LatencyBucket>, MonitoringError> {
        let (Some(first), Some(last)) = (periods.first(), periods.last()) else { return Ok(Vec::new()) };
        Ok(self.sources.rollups.latencies(Period { from: first.from, to: last.to }, &HISTORY_SERIES).await?)
    }

    /// Adds one point per period.
    fn add_points(&self, periods: &[Period], measured: &[LatencyBucket], points: &mut Vec<PerformancePoint>) {
        let mut of_points = vec![[const { Vec::new() }; 3]; periods.len()];
        for bucket in measured {
            let series = HISTORY_SERIES.iter().position(|series| *series == bucket.series);
            let started = periods.partition_point(|period| period.from <= bucket.at);
            let point = started.checked_sub(1).and_then(|position| of_points.get_mut(position));
            if let Some(found) = series.and_then(|series| point?.get_mut(series)) {
                found.push(bucket);
            }
        }
        let (now, mut sum) = (self.context.clock.now(), LatencySum::default());
        for (period, found) in periods.iter().zip(of_points) {
            let [requests, turns, first_tokens] = found.map(|found| sum_buckets(&mut sum, &found));
            let seconds = period.to.min(now).since(period.from).as_secs_f64();
            points.push(PerformancePoint {
                start: period.from,
                requests: RequestFigures::of(&requests, seconds),
                turns: TurnFigures::of(&turns, &first_tokens),
            });
        }
    }

    /// Returns the last `count` intervals, including the current one.
    fn buckets(&self, granularity: Granularity, count: u16) -> Buckets {
        let (now, zone) = (self.context.clock.now(), self.sources.rollups.days());
        match granularity {
            Granularity::Minute => {
                let last = start_of_minute(now).as_micros();
                let start = |back: u16| Timestamp::from_micros(last - i64::from(back) * MINUTE);
                Buckets::new((0..count).rev().map(start).collect(), Timestamp::from_micros(last + MINUTE))
            }
            Granularity::Hour => zone.last_hours(now, count),
            Granularity::Day => zone.days(&zone.last_days(now, count)),
        }
    }
}
