//! Chains of jobs.

use agentd_base::{Page, PageLimits, Problems, Timestamp};
use agentd_core::runtime::record_once;
use agentd_web::{Answer, ApiError, ErrorBody, IdempotencyKey, Json, Path, Query};
use axum::extract::State;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::scheduler::model::{
    Chain, ChainCause, ChainEdge, ChainId, ChainRun, ChainRunId, ChainRunStatus, JobId, RunId, RunStatus,
};
use crate::scheduler::service::{NewChain, Scheduler};

/// Definition of a new chain.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct CreateChainBody {
    /// Display name, 1 to 200 characters after trimming.
    #[schema(min_length = 1, max_length = 200)]
    name: String,
    /// Ids of the jobs, 1 to 50; each must be unique.
    #[schema(min_items = 1, max_items = 50)]
    jobs: Vec<String>,
    /// Dependencies, at most 200, without cycles. A job starts when all its predecessors have ended and all its
    /// `on_success` and `on_complete` edges are satisfied. If it has `on_failure` edges, at least one must be satisfied
    /// too.
    #[serde(default)]
    #[schema(max_items = 200)]
    edges: Vec<ChainEdge>,
}

/// Jobs with dependencies that determine the order of their runs.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ChainView {
    id: ChainId,
    /// Display name.
    name: String,
    /// Ids of the jobs, in the order of the request.
    jobs: Vec<JobId>,
    /// Dependencies between the jobs.
    edges: Vec<ChainEdge>,
    created_at: Timestamp,
}

impl From<&Chain> for ChainView {
    fn from(chain: &Chain) -> Self {
        Self {
            id: chain.id.clone(),
            name: chain.name.clone(),
            jobs: chain.jobs.clone(),
            edges: chain.edges.clone(),
            created_at: chain.created_at,
        }
    }
}

/// Page of chains, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ChainList {
    /// Chains of this page.
    chains: Vec<ChainView>,
    /// Total number of chains on all pages.
    total: u64,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct ChainQuery {
    /// Maximum number of chains to return, 1 to 200. Default: all chains.
    #[param(minimum = 1, maximum = 200)]
    limit: Option<i64>,
    /// Number of chains to skip. Default: 0.
    #[param(minimum = 0, default = 0)]
    offset: Option<i64>,
}

impl ChainQuery {
    fn page(&self) -> Result<Page, ApiError> {
        let mut problems = Problems::new();
        let page = Page::checked(self.limit, self.offset, PageLimits::default(), &mut problems);
        problems.into_result().map_err(ApiError::invalid)?;
        let limit = if self.limit.is_none() { u32::MAX } else { page.limit };
        Ok(Page { limit, ..page })
    }
}

/// List chains
///
/// Returns chains of jobs, newest first.
#[utoipa::path(
    get, path = "/api/scheduler/chains", tag = "scheduler", params(ChainQuery),
    responses((status = 200, body = ChainList)),
)]
pub(super) async fn list_chains(
    State(scheduler): State<Scheduler>,
    Query(query): Query<ChainQuery>,
) -> Answer<ChainList> {
    let (chains, total) = scheduler.list_chains(query.page()?).await?;
    Ok(Json(ChainList { chains: chains.iter().map(ChainView::from).collect(), total }))
}

/// Create a chain
///
/// A chain starts when it is triggered, and whenever a scheduled or manual run of one of its root jobs ends.
#[utoipa::path(
    post, path = "/api/scheduler/chains", tag = "scheduler", request_body = CreateChainBody,
    params(IdempotencyKey),
    responses(
        (status = 201, body = ChainView),
        (status = 409, body = ErrorBody, description = "Too many chains have one of the jobs as root (`too_many_chains`)"),
    ),
)]
pub(super) async fn create_chain(
    State(scheduler): State<Scheduler>,
    once: IdempotencyKey,
    Json(body): Json<CreateChainBody>,
) -> Result<(StatusCode, Json<ChainView>), ApiError> {
    let recorder = record_once(&once, StatusCode::CREATED, |chain: &Chain| ChainView::from(chain));
    let wanted =
        NewChain { name: body.name, jobs: body.jobs.into_iter().map(JobId::from).collect(), edges: body.edges };
    let chain = scheduler.create_chain(wanted, recorder).await?;
    Ok((StatusCode::CREATED, Json(ChainView::from(&chain))))
}

/// Get a chain
#[utoipa::path(
    get, path = "/api/scheduler/chains/{id}", tag = "scheduler",
    params(("id" = String, Path, description = "Chain id")),
    responses((status = 200, body = ChainView)),
)]
pub(super) async fn get_chain(State(scheduler): State<Scheduler>, Path(id): Path<ChainId>) -> Answer<ChainView> {
    Ok(Json(ChainView::from(&scheduler.get_chain(&id).await?)))
}

/// Result of deleting a chain.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ChainDeleted {
    /// Always true.
    deleted: bool,
}

/// Delete a chain
///
/// Does not affect the jobs of the chain or their runs.
#[utoipa::path(
    delete, path = "/api/scheduler/chains/{id}", tag = "scheduler",
    params(("id" = String, Path, description = "Chain id")),
    responses((status = 200, body = ChainDeleted)),
)]
pub(super) async fn delete_chain(State(scheduler): State<Scheduler>, Path(id): Path<ChainId>) -> Answer<ChainDeleted> {
    scheduler.delete_chain(&id).await?;
    Ok(Json(ChainDeleted { deleted: true }))
}

/// Chain run created by a trigger.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ChainTriggered {
    /// Id of the created chain run.
    chain_run_id: ChainRunId,
}

/// Trigger a chain
///
/// Starts a chain run immediately, from all root jobs.
#[utoipa::path(
    post, path = "/api/scheduler/chains/{id}/trigger", tag = "scheduler",
    params(("id" = String, Path, description = "Chain id"), IdempotencyKey),
    responses(
        (status = 202, body = ChainTriggered),
        (status = 429, body = ErrorBody, description = "Too many runs of a job are open (`too_many_open_runs`)"),
    ),
)]
pub(super) async fn trigger_chain(
    State(scheduler): State<Scheduler>,
    once: IdempotencyKey,
    Path(id): Path<ChainId>,
) -> Result<(StatusCode, Json<ChainTriggered>), ApiError> {
    let view = |run: &ChainRunId| ChainTriggered { chain_run_id: run.clone() };
    let chain_run_id = scheduler.trigger_chain(&id, record_once(&once, StatusCode::ACCEPTED, view)).await?;
    Ok((StatusCode::ACCEPTED, Json(ChainTriggered { chain_run_id })))
}

/// Step of a chain run.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ChainStepView {
    /// Job of the step.
    job_id: JobId,
    /// Run of the job; null if the job can no longer start.
    run_id: Option<RunId>,
    /// Status of the run; `skipped` if the job can no longer start.
    status: RunStatus,
}

/// Run of a chain.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ChainRunView {
    id: ChainRunId,
    chain_id: ChainId,
    cause: ChainCause,
    status: ChainRunStatus,
    /// Steps that have started or are due, followed by jobs that can no longer start, as `skipped`.
    steps: Vec<ChainStepView>,
    started_at: Timestamp,
    /// Time at which the chain run ended; null while running.
    completed_at: Option<Timestamp>,
}

impl From<&ChainRun> for ChainRunView {
    fn from(run: &ChainRun) -> Self {
        let step = |step: &crate::scheduler::model::ChainStep| ChainStepView {
            job_id: step.job_id.clone(),
            run_id: Some(step.run_id.clone()),
            status: step.status,
        };
        let unreachable = |job: &JobId| ChainStepView { job_id: job.clone(), run_id: None, status: RunStatus::Skipped };
        Self {
            id: run.id.clone(),
            chain_id: run.chain_id.clone(),
            cause: run.cause,
            status: run.status,
            steps: run.steps.iter().map(step).chain(run.unreachable.iter().map(unreachable)).collect(),
            started_at: run.started_at,
            completed_at: run.completed_at,
        }
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct ChainRunQuery {
    /// Maximum number of chain runs to return, 1 to 200. Default: 50.
    #[param(minimum = 1, maximum = 200, default = json!(PageLimits::default().default))]
    limit: Option<i64>,
    /// Number of chain runs to skip. Default: 0.
    #[param(minimum = 0, default = 0)]
    offset: Option<i64>,
}

/// Page of chain runs, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ChainRunList {
    /// Chain runs of this page.
    runs: Vec<ChainRunView>,
    /// Total number of chain runs on all pages.
    total: u64,
}

/// List chain runs
///
/// Returns the runs of a chain, newest first.
#[utoipa::path(
    get, path = "/api/scheduler/chains/{id}/runs", tag = "scheduler",
    params(("id" = String, Path, description = "Chain id"), ChainRunQuery),
    responses((status = 200, body = ChainRunList)),
)]
pub(super) async fn list_chain_runs(
    State(scheduler): State<Scheduler>,
    Path(id): Path<ChainId>,
    Query(query): Query<ChainRunQuery>,
) -> Answer<ChainRunList> {
    let mut problems = Problems::new();
    let page = Page::checked(query.limit, query.offset, PageLimits::default(), &mut problems);
    problems.into_result().map_err(ApiError::invalid)?;
    let (runs, total) = scheduler.list_chain_runs(&id, page).await?;
    Ok(Json(ChainRunList { runs: runs.iter().map(ChainRunView::from).collect(), total }))
}
