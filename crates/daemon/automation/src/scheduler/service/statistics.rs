//! Figures.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use agentd_base::Timestamp;

use super::Scheduler;
use crate::scheduler::error::SchedulerError;
use crate::scheduler::model::{JobId, RunStatus};
use crate::scheduler::store::statistics::{self, RunFigures};
use crate::scheduler::store::{jobs, runs};

/// Another replica may have taken a job that is due sooner, so nobody sleeps longer.
pub(crate) const TICK_INTERVAL: Duration = Duration::from_secs(1);

/// Rates and means are of this time.
const LATELY: Duration = Duration::from_secs(30 * 86_400);
pub(super) const NEXT_RUNS: usize = 5;

/// Over all jobs.
#[derive(Debug, Clone)]
pub struct Statistics {
    pub jobs_by_status: BTreeMap<String, u64>,
    pub total_runs_today: u64,
    /// 0 to 1, of the runs of 30 days that came to an end; `None` when there was none.
    pub success_rate: Option<f64>,
    pub avg_duration_seconds: Option<f64>,
}

/// Of one job, over the runs of it that are kept.
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

/// How the scheduler of this daemon does.
#[derive(Debug, Clone, Copy)]
pub struct SchedulerStatus {
    pub running: bool,
    pub tick_interval: Duration,
    pub next_tick_at: Timestamp,
    pub jobs_checked_last_tick: u64,
    pub runs_in_progress: usize,
}

#[allow(clippy::cast_precision_loss, reason = "a share")]
fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

fn is(figures: &RunFigures, statuses: &[RunStatus]) -> bool {
    statuses.iter().any(|status| status.as_str() == figures.status)
}

/// Of those that came to an end of their own: cancelled and skipped ones say nothing.
fn success_rate(figures: &[RunFigures]) -> Option<f64> {
    let count = |statuses: &[RunStatus]| figures.iter().filter(|f| is(f, statuses)).map(|f| f.runs).sum();
    share(count(&[RunStatus::Success]), count(&[RunStatus::Success, RunStatus::Failed, RunStatus::Timeout]))
}

#[allow(clippy::cast_precision_loss, reason = "a mean")]
fn avg_duration_seconds(figures: &[RunFigures]) -> Option<f64> {
    let ended = || figures.iter().filter(|f| is(f, &[RunStatus::Success, RunStatus::Failed, RunStatus::Timeout]));
    let begun: u64 = ended().map(|f| f.begun).sum();
    let micros: u64 = ended().map(|f| f.duration_micros).sum();
    (begun > 0).then(|| micros as f64 / begun as f64 / 1e6)
}

impl Scheduler {
    /// # Errors
    /// The store's refusal.
    pub async fn statistics(&self) -> Result<Statistics, SchedulerError> {
        let now = self.0.context.clock.now();
        let today =
            self.0.settings.day(now).to_zoned(self.0.settings.timezone()).map_or(now, |day| day.timestamp().into());
        let mut read = self.0.context.db.read().await?;
        let figures = statistics::figures_since(&mut read, now - LATELY).await?;
        Ok(Statistics {
            jobs_by_status: statistics::count_jobs(&mut read).await?,
            total_runs_today: statistics::count_runs_since(&mut read, today).await?,
            success_rate: success_rate(&figures),
            avg_duration_seconds: avg_duration_seconds(&figures),
        })
    }

    /// # Errors
    /// `JobNotFound`, or the store's refusal.
    pub async fn job_statistics(&self, id: &JobId) -> Result<JobStatistics, SchedulerError> {
        let mut read = self.0.context.db.read().await?;
        let job = jobs::find_job(&mut read, id).await?.ok_or_else(|| SchedulerError::no_job(id.as_str()))?;
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

    /// How the scheduler of this daemon does.
    #[must_use]
    pub fn status(&self) -> SchedulerStatus {
        let now = self.0.context.clock.now();
        let last = Timestamp::from_micros(self.0.last_tick.load(Ordering::Relaxed));
        // While nothing is due there is no need to look, and it is as if it had been looked in time.
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
