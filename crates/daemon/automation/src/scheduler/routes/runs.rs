//! Runs of jobs.

use agentd_base::{Page, PageLimits, Problems, Timestamp};
use agentd_core::runtime::record_once;
use agentd_engine::engine::SessionId;
use agentd_web::{Answer, ApiError, ErrorBody, IdempotencyKey, Json, Path, Query};
use axum::extract::State;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::scheduler::model::{JobId, Run, RunCause, RunDelivery, RunId, RunStatus};
use crate::scheduler::service::Scheduler;

/// Run created by a trigger.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct JobTriggered {
    /// Id of the created run.
    run_id: RunId,
}

/// Trigger a job
///
/// Creates a run that starts immediately, regardless of the job's schedule and status. The condition still applies.
#[utoipa::path(
    post, path = "/api/scheduler/jobs/{id}/trigger", tag = "scheduler",
    params(("id" = String, Path, description = "Job id"), IdempotencyKey),
    responses(
        (status = 202, body = JobTriggered),
        (status = 409, body = ErrorBody, description = "A run is open, and the overlap policy permits no further one"),
        (status = 429, body = ErrorBody, description = "Too many runs of the job are open (`too_many_open_runs`)"),
    ),
)]
pub(super) async fn trigger_job(
    State(scheduler): State<Scheduler>,
    once: IdempotencyKey,
    Path(id): Path<JobId>,
) -> Result<(StatusCode, Json<JobTriggered>), ApiError> {
    let view = |run_id: &RunId| JobTriggered { run_id: run_id.clone() };
    let run_id = scheduler.trigger(&id, record_once(&once, StatusCode::ACCEPTED, view)).await?;
    Ok((StatusCode::ACCEPTED, Json(JobTriggered { run_id })))
}

/// Execution of a job, with all its attempts.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct RunView {
    id: RunId,
    job_id: JobId,
    status: RunStatus,
    /// Reason the run was created.
    cause: RunCause,
    /// Slot of the schedule; null if the run has another cause.
    scheduled_for: Option<Timestamp>,
    /// Number of started attempts; 0 before the first.
    attempt: u32,
    /// Earliest start of a pending run or of its next attempt; null otherwise.
    next_attempt_at: Option<Timestamp>,
    /// Session of the last attempt; null before the first. `/api/chat/sessions/{session_id}/stream` streams it live and
    /// for one day after.
    session_id: Option<SessionId>,
    /// Time at which the first attempt started; null before that.
    started_at: Option<Timestamp>,
    /// Time at which the run ended; null while it is open.
    completed_at: Option<Timestamp>,
    /// Output of the agent, truncated to 100,000 bytes; null if there is none.
    output: Option<String>,
    /// Reason the run failed, was skipped or was stopped; null if there was no error. For a run that will be retried,
    /// the error of the last attempt.
    error: Option<String>,
    /// Delivery status of the output; null if nothing was to be sent or the record has expired.
    delivery: Option<RunDelivery>,
    /// Time at which the run was created.
    created_at: Timestamp,
}

impl RunView {
    fn new(run: &Run, delivery: Option<RunDelivery>) -> Self {
        Self {
            id: run.id.clone(),
            job_id: run.job_id.clone(),
            status: run.status,
            cause: run.cause,
            scheduled_for: run.scheduled_for,
            attempt: run.attempt,
            next_attempt_at: run.due_at.filter(|_| run.status == RunStatus::Pending),
            session_id: run.session_id.clone(),
            started_at: run.started_at,
            completed_at: run.completed_at,
            output: run.output.clone(),
            error: run.error.clone(),
            delivery,
            created_at: run.created_at,
        }
    }
}

/// Page of job runs, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct RunList {
    /// Runs of this page.
    runs: Vec<RunView>,
    /// Total number of matches on all pages.
    total: u64,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct RunQuery {
    /// Returns only runs in this state.
    #[param(inline)]
    status: Option<RunStatus>,
    /// Maximum number of runs to return, 1 to 200. Default: 50.
    #[param(minimum = 1, maximum = 200, default = json!(PageLimits::default().default))]
    limit: Option<i64>,
    /// Number of runs to skip. Default: 0.
    #[param(minimum = 0, default = 0)]
    offset: Option<i64>,
}

/// List job runs
///
/// Returns the runs of a job, newest first. Runs are retained for 30 days, at most the newest 1,000 per job.
#[utoipa::path(
    get, path = "/api/scheduler/jobs/{id}/runs", tag = "scheduler",
    params(("id" = String, Path, description = "Job id"), RunQuery),
    responses((status = 200, body = RunList)),
)]
pub(super) async fn list_job_runs(
    State(scheduler): State<Scheduler>,
    Path(id): Path<JobId>,
    Query(query): Query<RunQuery>,
) -> Answer<RunList> {
    let mut problems = Problems::new();
    let page = Page::checked(query.limit, query.offset, PageLimits::default(), &mut problems);
    problems.into_result().map_err(ApiError::invalid)?;
    let (runs, total) = scheduler.list_runs(&id, query.status, page).await?;
    let mut deliveries = scheduler.deliveries(&runs).await?;
    let runs = runs.iter().map(|run| RunView::new(run, deliveries.remove(&run.id))).collect();
    Ok(Json(RunList { runs, total }))
}

/// Get a job run
#[utoipa::path(
    get, path = "/api/scheduler/jobs/{id}/runs/{run_id}", tag = "scheduler",
    params(
        ("id" = String, Path, description = "Job id"),
        ("run_id" = String, Path, description = "Run id"),
    ),
    responses((status = 200, body = RunView)),
)]
pub(super) async fn get_job_run(
    State(scheduler): State<Scheduler>,
    Path((id, run_id)): Path<(JobId, RunId)>,
) -> Answer<RunView> {
    let run = scheduler.get_run(&id, &run_id).await?;
    let delivery = scheduler.deliveries(std::slice::from_ref(&run)).await?.remove(&run_id);
    Ok(Json(RunView::new(&run, delivery)))
}

/// Cancel a job run
///
/// Stops the turn on whichever daemon executes it. No further attempt is made.
#[utoipa::path(
    post, path = "/api/scheduler/jobs/{id}/runs/{run_id}/cancel", tag = "scheduler",
    params(
        ("id" = String, Path, description = "Job id"),
        ("run_id" = String, Path, description = "Run id"), IdempotencyKey),
    responses(
        (status = 200, body = RunView),
        (status = 409, body = ErrorBody, description = "The run has already ended"),
    ),
)]
pub(super) async fn cancel_job_run(
    State(scheduler): State<Scheduler>,
    once: IdempotencyKey,
    Path((id, run_id)): Path<(JobId, RunId)>,
) -> Answer<RunView> {
    let recorder = record_once(&once, StatusCode::OK, |run: &Run| RunView::new(run, None));
    // A cancelled run sends no message.
    Ok(Json(RunView::new(&scheduler.cancel_run(&id, &run_id, recorder).await?, None)))
}
