//! Long work that somebody asks for.

use agentd_base::Timestamp;
use agentd_core::runtime::record_once;
use agentd_web::{Answer, ErrorBody, IdempotencyKey, Json};
use axum::extract::State;
use http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use crate::memory::jobs::{Job, JobState, JobStatus, Tally};
use crate::memory::service::Memory;

/// What came of it. Asked again, with nothing new, everything is 0.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct JobResult {
    /// Messages, conversations or episodes that were gone over.
    processed: u64,
    /// Episodes that were made, or were given entities.
    created: u64,
    /// What was taken into an episode that was there.
    merged: u64,
    /// What came to nothing.
    skipped: u64,
}

impl From<Tally> for JobResult {
    fn from(Tally { processed, created, merged, skipped }: Tally) -> Self {
        Self { processed, created, merged, skipped }
    }
}

async fn done_once(memory: &Memory, job: Job, once: &IdempotencyKey) -> Answer<JobResult> {
    let recorder = record_once(once, StatusCode::OK, |tally: &Tally| JobResult::from(*tally));
    Ok(Json(memory.run_job(job, recorder).await?.into()))
}

/// Go through what was said in conversations
///
/// Whatever was not gone over yet is remembered, the conversations that are unchanged for longest first;
/// what repeats an episode is taken into it. Answers when it is done; `GET /api/memory/jobs` shows how far
/// it is. A run that was cut off goes on where it was.
#[utoipa::path(
    post, path = "/api/memory/consolidate/conversations", tag = "memory",
    params(IdempotencyKey),
    responses(
        (status = 200, body = JobResult),
        (status = 409, body = ErrorBody, description = "It is being done already"),
        (status = 503, body = ErrorBody, description = "Memory is switched off"),
    ),
)]
pub(super) async fn consolidate_conversations(State(memory): State<Memory>, once: IdempotencyKey) -> Answer<JobResult> {
    done_once(&memory, Job::Consolidate, &once).await
}

/// Sum conversations up
///
/// Each conversation that changed since becomes one episode of source `insight`, written by the agent's
/// model, or put together from its most telling sentences where none answers. What was made of it before
/// is replaced and counts as `merged`.
#[utoipa::path(
    post, path = "/api/memory/generate-episodes", tag = "memory",
    params(IdempotencyKey),
    responses(
        (status = 200, body = JobResult),
        (status = 409, body = ErrorBody, description = "It is being done already"),
        (status = 503, body = ErrorBody, description = "Memory is switched off"),
    ),
)]
pub(super) async fn generate_episodes(State(memory): State<Memory>, once: IdempotencyKey) -> Answer<JobResult> {
    done_once(&memory, Job::GenerateEpisodes, &once).await
}

/// Find entities in older episodes
///
/// In those that were stored while that was switched off, or gone over by older rules.
#[utoipa::path(
    post, path = "/api/memory/backfill-entities", tag = "memory",
    params(IdempotencyKey),
    responses(
        (status = 200, body = JobResult),
        (status = 409, body = ErrorBody, description = "It is being done already"),
        (status = 503, body = ErrorBody, description = "Memory or the extraction of entities is switched off"),
    ),
)]
pub(super) async fn backfill_entities(State(memory): State<Memory>, once: IdempotencyKey) -> Answer<JobResult> {
    done_once(&memory, Job::BackfillEntities, &once).await
}

/// Long work as it stands.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct MemoryJob {
    /// `consolidate_conversations`, `generate_episodes`, `backfill_entities`, or `embed_episodes`.
    name: String,
    status: JobStatus,
    /// Conversations or episodes that are done, of `total`.
    processed: u64,
    total: u64,
    #[schema(required)]
    started_at: Option<Timestamp>,
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

/// Always in the same order.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct MemoryJobs {
    jobs: Vec<MemoryJob>,
}

/// How far long work is
///
/// `embed_episodes` works by itself, after a change of the embedding model: what it has not reached yet is
/// found by its words.
#[utoipa::path(get, path = "/api/memory/jobs", tag = "memory", responses((status = 200, body = MemoryJobs)))]
pub(super) async fn list_memory_jobs(State(memory): State<Memory>) -> Answer<MemoryJobs> {
    Ok(Json(MemoryJobs { jobs: memory.jobs().await?.into_iter().map(MemoryJob::from).collect() }))
}
