//! Statistics of jobs and the scheduler status.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use agentd_base::Timestamp;

use super::Scheduler;
use crate::scheduler::error::SchedulerError;
use crate::scheduler::model::{JobId, RunStatus};
use crate::scheduler::store::statistics::{self, RunFigures};
use crate::scheduler::store::{jobs, runs};

/// Maximum interval between ticks. Another replica may have accepted a job that is due sooner.
pub(crate) const TICK_INTERVAL: Duration = Duration::from_secs(1);

/// Period covered by rates and averages.
const STATISTICS_PERIOD: Duration = Duration::from_secs(30 * 86_400);
/// Number of upcoming slots in a response.
pub(super) const NEXT_RUNS: usize = 5;

/// Statistics of all jobs.
#[derive(Debug, Clone)]
pub struct Statistics {
    pub jobs_by_status: BTreeMap<String, u64>,
    pub total_runs_today: u64,
    /// Share of successful runs in the last 30 days, from 0 to 1; `None` without completed runs.
    pub success_rate: Option<f64>,
    pub avg_duration_seconds: Option<f64>,
}

/// Statistics of one job over its retained runs.
#[derive(Debug, Clone)]
pub struct JobStatistics {
    pub runs_by_status: BTreeMap<String, u64>,
    pub total_runs: u64,
    pub success_rate: Option<f64>,
    pub avg_duration_seconds: Option<f64>,
    pub last_run_at: Option<Timestamp>,
    pub last_status: Option<RunStatus>,
    pub next_runs: Vec<Timestamp>,
}

/// Status of this daemon's scheduler.
#[derive(Debug, Clone, Copy)]
pub struct SchedulerStatus {
    pub running: bool,
    pub tick_interval: Duration,
    pub next_tick_at: Timestamp,
    pub jobs_checked_last_tick: u64,
    pub runs_in_progress: usize,
}

#[allow(clippy::cast_precision_loss, reason = "a ratio")]
fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

fn has_status(figures: &RunFigures, statuses: &[RunStatus]) -> bool {
    statuses.iter().any(|status| status.as_str() == figures.status)
}

/// Computes the success rate of runs that succeeded, failed or timed out. Cancelled and skipped runs are excluded.
fn success_rate(figures: &[RunFigures]) -> Option<f64> {
    let count = |statuses: &[RunStatus]| figures.iter().filter(|f| has_status(f, statuses)).map(|f| f.runs).sum();
    share(count(&[RunStatus::Success]), count(&[RunStatus::Success, RunStatus::Failed, RunStatus::Timeout]))
}

#[allow(clippy::cast_precision_loss, reason = "an average")]
fn avg_duration_seconds(figures: &[RunFigures]) -> Option<f64> {
    let ended =
        || figures.iter().filter(|f| has_status(f, &[RunStatus::Success, RunStatus::Failed, RunStatus::Timeout]));
    let begun: u64 = ended().map(|f| f.begun).sum();
    let micros: u64 = ended().map(|f| f.duration_micros).sum();
    (begun > 0).then(|| micros as f64 / begun as f64 / 1e6)
}

impl Scheduler {
    /// Returns the statistics of all jobs.
    ///
    /// # Errors
    /// A store error.
    pub async fn statistics(&self) -> Result<Statistics, SchedulerError> {
        let now = self.0.context.clock.now();
        let today =
            self.0.settings.day(now).to_zoned(self.0.settings.timezone()).map_or(now, |day| day.timestamp().into());
        let mut read = self.0.context.db.read().await?;
        let figures = statistics::figures_since(&mut read, now - STATISTICS_PERIOD).await?;
        Ok(Statistics {
            jobs_by_status: statistics::count_jobs(&mut read).await?,
            total_runs_today: statistics::count_runs_since(&mut read, today).await?,
            success_rate: success_rate(&figures),
            avg_duration_seconds: avg_duration_seconds(&figures),
        })
    }

    /// Returns the statistics of one job.
    ///
    /// # Errors
    /// `JobNotFound`, or a store error.
    pub async fn job_statistics(&self, id: &JobId) -> Result<JobStatistics, SchedulerError> {
        let mut read = self.0.context.db.read().await?;
        let job = jobs::find_job(&mut read, id).await?.ok_or_else(|| SchedulerError::job_not_found(id.as_str()))?;
        let figures = statistics::figures_of_job(&mut read, id).await?;
        let last = runs::find_last_ended(&mut read, id).await?;
        let upcoming = job.next_run_at.map(|next| {
            let later = job.schedule.occurrences(next, job.counted_from).take(NEXT_RUNS - 1);
            std::iter::once(next).chain(later).collect()
        });
        Ok(JobStatistics {
            total_runs: figures.iter().map(|f| f.runs).sum(),
            success_rate: success_rate(&figures),
            avg_duration_seconds: avg_duration_seconds(&figures),
            runs_by_status: figures.into_iter().map(|f| (f.status, f.runs)).collect(),
            last_run_at: job.last_run_at,
            last_status: last.map(|run| run.status),
            next_runs: upcoming.unwrap_or_default(),
        })
    }

    /// Returns the status of this daemon's scheduler.
    #[must_use]
    pub fn status(&self) -> SchedulerStatus {
        let now = self.0.context.clock.now();
        let last = Timestamp::from_micros(self.0.last_tick.load(Ordering::Relaxed));
        // The worker sleeps while no job is due; the next tick is reported as if it had run regularly.
        let since_last = now.since(last).as_micros() % TICK_INTERVAL.as_micros();
        let regular = last.max(now - Duration::from_micros(since_last.try_into().unwrap_or_default())) + TICK_INTERVAL;
        SchedulerStatus {
            running: !self.0.context.draining.is_cancelled(),
            tick_interval: TICK_INTERVAL,
            next_tick_at: regular.min(self.next_due().max(now)),
            jobs_checked_last_tick: self.0.last_checked.load(Ordering::Relaxed),
            runs_in_progress: *self.0.running.borrow(),
        }
    }
}
