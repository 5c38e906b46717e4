//! Statistics of jobs and the scheduler status.

use std::collections::BTreeMap;

use agentd_base::Timestamp;
use agentd_web::{Answer, Json, Path};
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use crate::scheduler::model::{JobId, JobStatus, RunStatus};
use crate::scheduler::service::Scheduler;

/// Statistics of all jobs and their runs.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct SchedulerStatisticsView {
    /// Number of jobs in any state.
    total_jobs: u64,
    /// Number of active jobs.
    active_jobs: u64,
    /// Number of runs created since midnight in the profile's time zone, including skipped ones.
    total_runs_today: u64,
    /// Share of successful runs in the last 30 days, from 0 to 1. Counts runs that succeeded, failed or timed out; null
    /// if there are none.
    success_rate: Option<f64>,
    /// Average duration of the same runs from start to end, in seconds; null if there are none.
    avg_duration_seconds: Option<f64>,
    /// Number of jobs by status, including statuses without jobs.
    jobs_by_status: BTreeMap<String, u64>,
}

/// Get scheduler statistics
///
/// Returns statistics of all jobs and their runs.
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

/// Status of the responding daemon's scheduler.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct SchedulerStatusView {
    /// Whether the responding daemon starts runs.
    running: bool,
    /// Maximum interval between ticks, in seconds. A tick also runs when the next job is due.
    tick_interval_seconds: u64,
    /// Time of the next tick.
    next_tick_at: Timestamp,
    /// Number of jobs that were due at the last tick.
    jobs_checked_last_tick: u64,
    /// Number of runs held by the responding daemon.
    runs_in_progress: usize,
}

/// Get scheduler status
///
/// Returns the status of the responding daemon's scheduler.
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

/// Statistics of the retained runs of a job.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct JobStatisticsView {
    /// Id of the job.
    job_id: JobId,
    /// Number of retained runs: those of the last 30 days, at most the newest 1,000.
    total_runs: u64,
    /// Number of retained runs by status. Statuses without runs are omitted.
    runs_by_status: BTreeMap<String, u64>,
    /// Share of successful runs, from 0 to 1. Counts runs that succeeded, failed or timed out; null if there are none.
    success_rate: Option<f64>,
    /// Average duration of the same runs from start to end, in seconds; null if there are none.
    avg_duration_seconds: Option<f64>,
    /// Time at which the last run started; null before the first run.
    last_run_at: Option<Timestamp>,
    /// Result of the last completed run; null before that.
    last_status: Option<RunStatus>,
    /// Next slots, at most five; empty if the job is not active.
    next_runs: Vec<Timestamp>,
}

/// Get job statistics
///
/// Returns statistics of the retained runs of a job.
#[utoipa::path(
    get, path = "/api/scheduler/jobs/{id}/stats", tag = "scheduler",
    params(("id" = String, Path, description = "Job id")),
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
