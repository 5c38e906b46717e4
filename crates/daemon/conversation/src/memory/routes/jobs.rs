//! Handlers for memory jobs.

use agentd_base::Timestamp;
use agentd_core::runtime::record_once;
use agentd_web::{Answer, ErrorBody, IdempotencyKey, Json};
use axum::extract::State;
use http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use crate::memory::jobs::{Job, JobState, JobStatus, Tally};
use crate::memory::service::Memory;

/// Totals of a job. A repeated run without new data reports zeros.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct JobResult {
    /// Number of processed messages, conversations or episodes.
    processed: u64,
    /// Number of episodes that were created or given entities.
    created: u64,
    /// Number of items merged into existing episodes.
    merged: u64,
    /// Number of items without a result.
    skipped: u64,
}

impl From<Tally> for JobResult {
    fn from(Tally { processed, created, merged, skipped }: Tally) -> Self {
        Self { processed, created, merged, skipped }
    }
}

async fn run_job_once(memory: &Memory, job: Job, once: &IdempotencyKey) -> Answer<JobResult> {
    let recorder = record_once(once, StatusCode::OK, |tally: &Tally| JobResult::from(*tally));
    Ok(Json(memory.run_job(job, recorder).await?.into()))
}

/// Consolidate conversations
///
/// Stores episodes from all unprocessed messages, least recently changed conversations first, and merges repeated
/// episodes. Returns when the job is done; `GET /api/memory/jobs` reports progress. An interrupted run continues where
/// it stopped.
#[utoipa::path(
    post, path = "/api/memory/consolidate/conversations", tag = "memory",
    params(IdempotencyKey),
    responses(
        (status = 200, body = JobResult),
        (status = 409, body = ErrorBody, description = "The job is already running"),
        (status = 503, body = ErrorBody, description = "Memory is disabled"),
    ),
)]
pub(super) async fn consolidate_conversations(State(memory): State<Memory>, once: IdempotencyKey) -> Answer<JobResult> {
    run_job_once(&memory, Job::Consolidate, &once).await
}

/// Generate conversation summaries
///
/// Creates one episode of source `insight` for each changed conversation, written by the agent's model. If no model
/// answers, it consists of the most important sentences. A previous summary is replaced and counts as `merged`.
#[utoipa::path(
    post, path = "/api/memory/generate-episodes", tag = "memory",
    params(IdempotencyKey),
    responses(
        (status = 200, body = JobResult),
        (status = 409, body = ErrorBody, description = "The job is already running"),
        (status = 503, body = ErrorBody, description = "Memory is disabled"),
    ),
)]
pub(super) async fn generate_episodes(State(memory): State<Memory>, once: IdempotencyKey) -> Answer<JobResult> {
    run_job_once(&memory, Job::GenerateEpisodes, &once).await
}

/// Backfill entities
///
/// Extracts entities from episodes that were stored while extraction was disabled, or processed by an older version.
#[utoipa::path(
    post, path = "/api/memory/backfill-entities", tag = "memory",
    params(IdempotencyKey),
    responses(
        (status = 200, body = JobResult),
        (status = 409, body = ErrorBody, description = "The job is already running"),
        (status = 503, body = ErrorBody, description = "Memory or entity extraction is disabled"),
    ),
)]
pub(super) async fn backfill_entities(State(memory): State<Memory>, once: IdempotencyKey) -> Answer<JobResult> {
    run_job_once(&memory, Job::BackfillEntities, &once).await
}

/// State of a memory job.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct MemoryJob {
    /// `consolidate_conversations`, `generate_episodes`, `backfill_entities`, or `embed_episodes`.
    name: String,
    status: JobStatus,
    /// Number of processed conversations or episodes, out of `total`.
    processed: u64,
    /// Number of conversations or episodes to process in the current or last run.
    total: u64,
    /// Start of the current or last run; null if the job never ran, and always for `embed_episodes`.
    #[schema(required)]
    started_at: Option<Timestamp>,
    /// Time of the last progress; null if the job never ran, and always for `embed_episodes`.
    #[schema(required)]
    updated_at: Option<Timestamp>,
}

impl From<JobState> for MemoryJob {
    fn from(state: JobState) -> Self {
        Self {
            name: state.name.to_owned(),
            status: state.status,
            processed: state.done,
            total: state.total,
            started_at: state.started_at,
            updated_at: state.updated_at,
        }
    }
}

/// All memory jobs, always in the same order.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct MemoryJobs {
    /// State of each job.
    jobs: Vec<MemoryJob>,
}

/// List memory jobs
///
/// The `embed_episodes` job runs automatically after the embedding model changes. Episodes it has not reached yet are
/// found by keyword only.
#[utoipa::path(get, path = "/api/memory/jobs", tag = "memory", responses((status = 200, body = MemoryJobs)))]
pub(super) async fn list_memory_jobs(State(memory): State<Memory>) -> Answer<MemoryJobs> {
    Ok(Json(MemoryJobs { jobs: memory.jobs().await?.into_iter().map(MemoryJob::from).collect() }))
}
