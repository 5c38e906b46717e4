//! Errors of the scheduler.

use std::time::Duration;

use agentd_base::{DomainError, ErrorKind, FieldProblem};
use agentd_engine::agents::AgentError;
use agentd_engine::engine::{EngineError, NoAnswer};
use agentd_engine::projects::ProjectError;
use agentd_store::StoreError;

use super::model::{JobStatus, RunStatus};
use crate::notify::NotifyError;

/// Suggested delay before a retry while too many runs of a job are open.
const RETRY_OPEN_RUNS: Duration = Duration::from_secs(10);

#[derive(Debug, thiserror::Error)]
pub enum SchedulerError {
    #[error("the job is not valid")]
    Invalid(Vec<FieldProblem>),
    #[error("job `{id}` not found; list jobs with GET /api/scheduler/jobs")]
    JobNotFound { id: String },
    #[error("run `{id}` not found; runs are retained for 30 days, at most the newest 1,000 per job")]
    RunNotFound { id: String },
    #[error("chain `{id}` not found; list chains with GET /api/scheduler/chains")]
    ChainNotFound { id: String },
    #[error("the job is {}, so it cannot be {action}", .status.as_str())]
    WrongState { status: JobStatus, action: &'static str },
    #[error("the schedule of the job has no future run time; set another schedule")]
    NeverDue,
    #[error("run `{run_id}` of the job is in progress; wait until it ends, cancel it, or set another `overlap` policy")]
    RunInProgress { run_id: String },
    #[error("open run limit of the job reached ({limit}); wait until runs end, or cancel runs")]
    TooManyOpenRuns { limit: usize },
    #[error("the run has already ended with the status {}", .status.as_str())]
    RunEnded { status: RunStatus },
    #[error("the job is part of the chain `{chain}`; delete the chain first")]
    InChain { chain: String },
    #[error("chain limit of the job reached ({limit} chains start with it); delete one of the chains first")]
    TooManyChains { limit: usize },
    #[error("job limit reached ({limit}); delete a job first")]
    TooManyJobs { limit: u64 },
    #[error("limit of active jobs created by the agent reached ({limit}); cancel one of the jobs first")]
    TooManyOfAgent { limit: u64 },
    #[error(
        "no schedule found in the text; use a form such as `every weekday at 9`, `in 20 minutes` or `on the 1st at \
         8:30`{hint}"
    )]
    NotUnderstood { hint: &'static str },
    #[error("the text was not understood, and the model call failed: {reason}")]
    NoAnswer { reason: String },
    #[error(transparent)]
    Agent(#[from] AgentError),
    #[error(transparent)]
    Project(#[from] ProjectError),
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error(transparent)]
    Notify(#[from] NotifyError),
    #[error("failed to read or update jobs; retry")]
    Store(#[from] StoreError),
}

impl From<NoAnswer> for SchedulerError {
    fn from(error: NoAnswer) -> Self {
        Self::NoAnswer { reason: error.message }
    }
}

impl SchedulerError {
    pub(super) fn job_not_found(id: &str) -> Self {
        Self::JobNotFound { id: truncate_id(id) }
    }

    pub(super) fn run_not_found(id: &str) -> Self {
        Self::RunNotFound { id: truncate_id(id) }
    }

    pub(super) fn chain_not_found(id: &str) -> Self {
        Self::ChainNotFound { id: truncate_id(id) }
    }
}

fn truncate_id(id: &str) -> String {
    id.chars().take(80).collect()
}

impl DomainError for SchedulerError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Invalid(problems) => ErrorKind::Invalid(problems.clone()),
            Self::JobNotFound { .. } | Self::RunNotFound { .. } | Self::ChainNotFound { .. } => ErrorKind::NotFound,
            Self::WrongState { .. }
            | Self::NeverDue
            | Self::RunInProgress { .. }
            | Self::RunEnded { .. }
            | Self::InChain { .. }
            | Self::TooManyChains { .. }
            | Self::TooManyJobs { .. }
            | Self::TooManyOfAgent { .. } => ErrorKind::Conflict,
            Self::TooManyOpenRuns { .. } => ErrorKind::TooMany(RETRY_OPEN_RUNS),
            Self::NotUnderstood { .. } => ErrorKind::Invalid(Vec::new()),
            Self::NoAnswer { .. } => ErrorKind::Upstream,
            Self::Agent(error) => error.kind(),
            Self::Project(error) => error.kind(),
            Self::Engine(error) => error.kind(),
            Self::Notify(error) => error.kind(),
            Self::Store(error) => error.kind(),
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "invalid_request",
            Self::JobNotFound { .. } => "job_not_found",
            Self::RunNotFound { .. } => "run_not_found",
            Self::ChainNotFound { .. } => "chain_not_found",
            Self::WrongState { .. } => "wrong_state",
            Self::NeverDue => "never_due",
            Self::RunInProgress { .. } => "run_in_progress",
            Self::TooManyOpenRuns { .. } => "too_many_open_runs",
            Self::RunEnded { .. } => "run_ended",
            Self::InChain { .. } => "job_in_chain",
            Self::TooManyChains { .. } => "too_many_chains",
            Self::TooManyJobs { .. } | Self::TooManyOfAgent { .. } => "too_many_jobs",
            Self::NotUnderstood { .. } => "not_understood",
            Self::NoAnswer { .. } => "no_answer",
            Self::Agent(error) => error.code(),
            Self::Project(error) => error.code(),
            Self::Engine(error) => error.code(),
            Self::Notify(error) => error.code(),
            Self::Store(error) => error.code(),
        }
    }
}
