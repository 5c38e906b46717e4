//! Figures.

use std::collections::BTreeMap;

use agentd_base::Timestamp;
use agentd_web::{Answer, Json, Path};
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use crate::scheduler::model::{JobId, JobStatus, RunStatus};
use crate::scheduler::service::Scheduler;

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct SchedulerStatisticsView {
    total_jobs: u64,
    active_jobs: u64,
    /// Runs that were planned since midnight in the profile's time zone, those left out included.
    total_runs_today: u64,
    /// 0 to 1, over the runs of the last 30 days that succeeded, failed or took too long; `null` without any.
    success_rate: Option<f64>,
    /// From the beginning of a run to its end, of the same runs.
    avg_duration_seconds: Option<f64>,
    jobs_by_status: BTreeMap<String, u64>,
}

/// Figures over all jobs
#[utoipa::path(
    get, path = "/api/scheduler/stats", tag = "scheduler",
    responses((status = 200, body = SchedulerStatisticsView)),
)]
pub(super) async fn get_scheduler_statistics(State(scheduler): State<Scheduler>) -> Answer<SchedulerStatisticsView> {
    let statistics = scheduler.statistics().await?;
    let mut by_status: BTreeMap<String, u64> =
        [JobStatus::Active, JobStatus::Paused, JobStatus::Completed, JobStatus::Failed]
            .into_iter()
            .map(|status| (status.as_str().to_owned(), 0))
            .collect();
    by_status.extend(statistics.jobs_by_status);
    Ok(Json(SchedulerStatisticsView {
        total_jobs: by_status.values().sum(),
        active_jobs: by_status.get(JobStatus::Active.as_str()).copied().unwrap_or(0),
        total_runs_today: statistics.total_runs_today,
        success_rate: statistics.success_rate,
        avg_duration_seconds: statistics.avg_duration_seconds,
        jobs_by_status: by_status,
    }))
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct SchedulerStatusView {
    /// Whether the daemon that answers hands out slots.
    running: bool,
    /// It looks at least this often, and exactly when the next job is due.
    tick_interval_seconds: u64,
    next_tick_at: Timestamp,
    /// Jobs that were due then; those that are not cost nothing and are not looked at.
    jobs_checked_last_tick: u64,
    /// Runs that the daemon that answers holds now.
    runs_in_progress: usize,
}

/// How the scheduler of the daemon that answers does
#[utoipa::path(
    get, path = "/api/scheduler/status", tag = "scheduler",
    responses((status = 200, body = SchedulerStatusView)),
)]
pub(super) async fn get_scheduler_status(State(scheduler): State<Scheduler>) -> Answer<SchedulerStatusView> {
    let status = scheduler.status();
    Ok(Json(SchedulerStatusView {
        running: status.running,
        tick_interval_seconds: status.tick_interval.as_secs(),
        next_tick_at: status.next_tick_at,
        jobs_checked_last_tick: status.jobs_checked_last_tick,
        runs_in_progress: status.runs_in_progress,
    }))
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct JobStatisticsView {
    job_id: JobId,
    /// Of the runs that are kept: 30 days, and the newest 1,000.
    total_runs: u64,
    runs_by_status: BTreeMap<String, u64>,
    /// 0 to 1, over those that succeeded, failed or took too long; `null` without any.
    success_rate: Option<f64>,
    avg_duration_seconds: Option<f64>,
    last_run_at: Option<Timestamp>,
    /// How the last run that ended did so.
    last_status: Option<RunStatus>,
    /// The next five slots.
    next_runs: Vec<Timestamp>,
}

/// Figures of one job
#[utoipa::path(
    get, path = "/api/scheduler/jobs/{id}/stats", tag = "scheduler",
    params(("id" = String, Path, description = "Id of the job")),
    responses((status = 200, body = JobStatisticsView)),
)]
pub(super) async fn get_job_statistics(
    State(scheduler): State<Scheduler>,
    Path(id): Path<JobId>,
) -> Answer<JobStatisticsView> {
    let statistics = scheduler.job_statistics(&id).await?;
    Ok(Json(JobStatisticsView {
        job_id: id,
        total_runs: statistics.total_runs,
        runs_by_status: statistics.runs_by_status,
        success_rate: statistics.success_rate,
        avg_duration_seconds: statistics.avg_duration_seconds,
        last_run_at: statistics.last_run_at,
        last_status: statistics.last_status,
        next_runs: statistics.next_runs,
    }))
}
