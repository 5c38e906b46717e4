//! Jobs.

use agentd_base::{Page, PageLimits, Problems, Timestamp};
use agentd_core::runtime::record_once;
use agentd_engine::agents::AgentId;
use agentd_engine::projects::ProjectId;
use agentd_schedule::{MisfirePolicy, ScheduleSpec};
use agentd_web::{Answer, ApiError, Caller, ErrorBody, IdempotencyKey, Json, Path, Query, Scope, Validated};
use axum::extract::State;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::job_bodies::{CreateJobBody, UpdateJobBody};
use crate::notify::Target;
use crate::scheduler::model::{
    DeliveryRule, Job, JobCondition, JobExecutionMode, JobId, JobStatus, OverlapPolicy, RetryRule, RunStatus,
};
use crate::scheduler::service::{ListJobs, Scheduler};

/// A scheduled job of an agent.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct JobView {
    id: JobId,
    /// Display name.
    name: String,
    /// Task that each run gives to the agent.
    goal: String,
    agent_id: AgentId,
    /// Project that the usage of its runs is attributed to; null if none, or if it was deleted.
    project_id: Option<ProjectId>,
    schedule: ScheduleSpec,
    /// Description of the schedule in the interface language.
    human_readable: String,
    status: JobStatus,
    /// Destination of the output; null if it is only stored. Read-only keys see only the scheme and host of a URL,
    /// because the rest may contain a token.
    delivery: Option<DeliveryRule>,
    /// Condition for starting a run; null if every run starts.
    condition: Option<JobCondition>,
    /// Retry rule. A job without one has a single attempt.
    retry: RetryRule,
    /// Handling of a slot that is due while a run of the job is open.
    overlap: OverlapPolicy,
    /// Handling of missed slots.
    misfire: MisfirePolicy,
    /// Autonomy of the agent in a run.
    execution_mode: JobExecutionMode,
    /// Time limit of one attempt in seconds, excluding time spent waiting for approval.
    time_limit_seconds: u32,
    /// Model that overrides those of the agent and the settings; null if none does.
    model: Option<String>,
    /// Time of the next run; null if the job is not active.
    next_run_at: Option<Timestamp>,
    /// Time at which the last run started; null before the first run.
    last_run_at: Option<Timestamp>,
    /// Result of the last completed run, excluding skipped ones; null before that.
    last_run_status: Option<RunStatus>,
    /// Number of started runs since the job was created.
    run_count: u64,
    created_at: Timestamp,
    updated_at: Timestamp,
}

impl JobView {
    fn new(job: &Job, scheduler: &Scheduler) -> Self {
        Self {
            id: job.id.clone(),
            name: job.name.clone(),
            goal: job.goal.clone(),
            agent_id: job.agent_id.clone(),
            project_id: job.project_id.clone(),
            schedule: job.schedule.spec(),
            human_readable: scheduler.human_readable(&job.schedule),
            status: job.status,
            delivery: job.delivery.clone(),
            condition: job.condition.clone(),
            retry: job.retry,
            overlap: job.overlap,
            misfire: job.misfire,
            execution_mode: job.execution_mode,
            time_limit_seconds: job.time_limit_seconds,
            model: job.model.clone(),
            next_run_at: job.next_run_at,
            last_run_at: job.last_run_at,
            last_run_status: job.last_run_status,
            run_count: job.run_count,
            created_at: job.created_at,
            updated_at: job.updated_at,
        }
    }

    /// Hides the token in a delivery address from read-only callers.
    fn redacted_for(mut self, caller: &Caller) -> Self {
        if caller.scope == Scope::Read
            && let Some(rule) = &mut self.delivery
        {
            rule.channel = rule.channel.parse::<Target>().map_or_else(|_| "?".to_owned(), |target| target.redacted());
        }
        self
    }
}

/// Page of jobs, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct JobList {
    /// Jobs of this page.
    jobs: Vec<JobView>,
    /// Total number of matches on all pages.
    count: u64,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct JobQuery {
    /// Returns only jobs in this state.
    #[param(inline)]
    status: Option<JobStatus>,
    /// Returns only jobs whose last run failed or timed out. Default: false.
    #[serde(default)]
    #[param(default = false)]
    failing: bool,
    /// Returns only jobs of this agent, by id or `svc_name`.
    #[param(min_length = 1, max_length = 64)]
    agent_id: Option<String>,
    /// Returns only jobs of this project.
    #[param(min_length = 1, max_length = 64)]
    project_id: Option<String>,
    /// Maximum number of jobs to return, 1 to 200. Default: 50.
    #[param(minimum = 1, maximum = 200, default = json!(PageLimits::default().default))]
    limit: Option<i64>,
    /// Number of jobs to skip. Default: 0.
    #[param(minimum = 0, default = 0)]
    offset: Option<i64>,
}

/// List jobs
///
/// Returns scheduled jobs, newest first.
#[utoipa::path(
    get, path = "/api/scheduler/jobs", tag = "scheduler", params(JobQuery),
    responses(
        (status = 200, body = JobList),
        (status = 404, body = ErrorBody, description = "The agent or project was not found"),
    ),
)]
pub(super) async fn list_jobs(
    State(scheduler): State<Scheduler>,
    caller: Caller,
    Query(query): Query<JobQuery>,
) -> Answer<JobList> {
    let mut problems = Problems::new();
    let page = Page::checked(query.limit, query.offset, PageLimits::default(), &mut problems);
    problems.into_result().map_err(ApiError::invalid)?;
    let filter = ListJobs {
        status: query.status,
        is_failing: query.failing,
        agent: query.agent_id.as_deref(),
        project: query.project_id.as_deref(),
    };
    let (jobs, count) = scheduler.list(filter, page).await?;
    let jobs = jobs.iter().map(|job| JobView::new(job, &scheduler).redacted_for(&caller)).collect();
    Ok(Json(JobList { jobs, count }))
}

/// Create a job
///
/// The first slot is the next one from now, or from the resumption if `status` is `paused`. A run is a turn of the
/// agent without a conversation, and can be streamed at `/api/chat/sessions/{session_id}/stream`.
#[utoipa::path(
    post, path = "/api/scheduler/jobs", tag = "scheduler", request_body = CreateJobBody,
    params(IdempotencyKey),
    responses(
        (status = 201, body = JobView),
        (status = 404, body = ErrorBody, description = "The agent or project was not found"),
    ),
)]
pub(super) async fn create_job(
    State(scheduler): State<Scheduler>,
    once: IdempotencyKey,
    Validated(Json(body)): Validated<Json<CreateJobBody>>,
) -> Result<(StatusCode, Json<JobView>), ApiError> {
    let scheduler_for_view = scheduler.clone();
    let recorder = record_once(&once, StatusCode::CREATED, move |job: &Job| JobView::new(job, &scheduler_for_view));
    let job = scheduler.create(body.into(), recorder).await?;
    Ok((StatusCode::CREATED, Json(JobView::new(&job, &scheduler))))
}

/// Get a job
#[utoipa::path(
    get, path = "/api/scheduler/jobs/{id}", tag = "scheduler",
    params(("id" = String, Path, description = "Job id")),
    responses((status = 200, body = JobView)),
)]
pub(super) async fn get_job(
    State(scheduler): State<Scheduler>,
    caller: Caller,
    Path(id): Path<JobId>,
) -> Answer<JobView> {
    Ok(Json(JobView::new(&scheduler.get(&id).await?, &scheduler).redacted_for(&caller)))
}

/// Update a job
///
/// Changes the given fields. A new schedule counts from now and reactivates a job that has ended.
#[utoipa::path(
    put, path = "/api/scheduler/jobs/{id}", tag = "scheduler", request_body = UpdateJobBody,
    params(("id" = String, Path, description = "Job id")),
    responses((status = 200, body = JobView)),
)]
pub(super) async fn update_job(
    State(scheduler): State<Scheduler>,
    Path(id): Path<JobId>,
    Validated(Json(body)): Validated<Json<UpdateJobBody>>,
) -> Answer<JobView> {
    let job = scheduler.update(&id, body.into()).await?;
    Ok(Json(JobView::new(&job, &scheduler)))
}

/// Result of deleting a job.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct JobDeleted {
    /// Always true.
    deleted: bool,
}

/// Delete a job and its runs
///
/// Stops open runs of the job.
#[utoipa::path(
    delete, path = "/api/scheduler/jobs/{id}", tag = "scheduler",
    params(("id" = String, Path, description = "Job id")),
    responses(
        (status = 200, body = JobDeleted),
        (status = 409, body = ErrorBody, description = "The job is part of a chain"),
    ),
)]
pub(super) async fn delete_job(State(scheduler): State<Scheduler>, Path(id): Path<JobId>) -> Answer<JobDeleted> {
    scheduler.delete(&id, None).await?;
    Ok(Json(JobDeleted { deleted: true }))
}

/// Pause a job
///
/// The schedule starts no runs until the job is resumed. A run in progress continues.
#[utoipa::path(
    post, path = "/api/scheduler/jobs/{id}/pause", tag = "scheduler",
    params(("id" = String, Path, description = "Job id"), IdempotencyKey),
    responses(
        (status = 200, body = JobView),
        (status = 409, body = ErrorBody, description = "The job is not active"),
    ),
)]
pub(super) async fn pause_job(
    State(scheduler): State<Scheduler>,
    once: IdempotencyKey,
    Path(id): Path<JobId>,
) -> Answer<JobView> {
    let scheduler_for_view = scheduler.clone();
    let recorder = record_once(&once, StatusCode::OK, move |job: &Job| JobView::new(job, &scheduler_for_view));
    Ok(Json(JobView::new(&scheduler.pause(&id, recorder).await?, &scheduler)))
}

/// Resume a paused job
///
/// The schedule counts from now; slots missed during the pause are not caught up. A one-time job whose date has passed
/// is completed, and a skipped run is recorded for the date.
#[utoipa::path(
    post, path = "/api/scheduler/jobs/{id}/resume", tag = "scheduler",
    params(("id" = String, Path, description = "Job id"), IdempotencyKey),
    responses(
        (status = 200, body = JobView),
        (status = 409, body = ErrorBody, description = "The job is not paused, or its schedule has no future run time"),
    ),
)]
pub(super) async fn resume_job(
    State(scheduler): State<Scheduler>,
    once: IdempotencyKey,
    Path(id): Path<JobId>,
) -> Answer<JobView> {
    let scheduler_for_view = scheduler.clone();
    let recorder = record_once(&once, StatusCode::OK, move |job: &Job| JobView::new(job, &scheduler_for_view));
    Ok(Json(JobView::new(&scheduler.resume(&id, recorder).await?, &scheduler)))
}
