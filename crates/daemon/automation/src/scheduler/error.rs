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
    #[error("there is no job `{id}`; GET /api/scheduler/jobs lists those there are")]
    JobNotFound { id: String },
    #[error("the job has no run `{id}`; runs are kept for 30 days, and the newest 1,000 of a job")]
    RunNotFound { id: String },
    #[error("there is no chain `{id}`; GET /api/scheduler/chains lists those there are")]
    ChainNotFound { id: String },
    #[error("the job is {}, so it cannot be {action}", .status.as_str())]
    WrongState { status: JobStatus, action: &'static str },
    #[error("the job has no time left at which it could run; give it another schedule")]
    NeverDue,
    #[error("the job is under way in run `{run_id}`; wait for its end, cancel it, or set `overlap` to another policy")]
    RunInProgress { run_id: String },
    #[error("run limit of the job reached ({limit} open runs); wait until some have ended, or cancel them")]
    TooManyOpenRuns { limit: usize },
    #[error("the run is over already, it is {}", .status.as_str())]
    RunOver { status: RunStatus },
    #[error("the job is part of the chain `{chain}`; delete that first")]
    InChain { chain: String },
    #[error("{limit} chains begin with this job, which is the limit; delete one of them first")]
    TooManyChains { limit: usize },
    #[error("there are {limit} jobs, which is as many as are kept; delete some first")]
    TooManyJobs { limit: u64 },
    #[error("the agent has planned {limit} active jobs by itself, which is as many as it may; call some off first")]
    TooManyOfAgent { limit: u64 },
    #[error(
        "no schedule was understood in the text; say it as in `every weekday at 9`, `in 20 minutes` or `on the 1st at \
         8:30`{hint}"
    )]
    NotUnderstood { hint: &'static str },
    #[error("the text was not understood, and the model that was asked gave no answer: {reason}")]
    NoAnswer { reason: String },
    #[error(transparent)]
    Agent(#[from] AgentError),
    #[error(transparent)]
    Project(#[from] ProjectError),
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error(transparent)]
    Notify(#[from] NotifyError),
    #[error("jobs cannot be read or stored now")]
    Store(#[from] StoreError),
}

impl From<NoAnswer> for SchedulerError {
    fn from(error: NoAnswer) -> Self {
        Self::NoAnswer { reason: error.message }
    }
}

impl SchedulerError {
    pub(super) fn job_not_found(id: &str) -> Self {
        Self::JobNotFound { id: shown(id) }
    }

    pub(super) fn run_not_found(id: &str) -> Self {
        Self::RunNotFound { id: shown(id) }
    }

    pub(super) fn chain_not_found(id: &str) -> Self {
        Self::ChainNotFound { id: shown(id) }
    }
}

fn shown(id: &str) -> String {
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
            | Self::RunOver { .. }
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
            Self::RunOver { .. } => "run_over",
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
