//! The job entity: a goal for an agent and a schedule.

use agentd_base::Timestamp;
use agentd_engine::agents::AgentId;
use agentd_engine::engine::ToolUse;
use agentd_engine::projects::ProjectId;
use agentd_schedule::{MisfirePolicy, Schedule, Zone};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::retry::RetryRule;
use super::run::{Run, RunCause, RunId, RunStatus};
use super::{JobId, string_enum};
use crate::notify::MessageFormat;

const DEFAULT_TIME_LIMIT_SECONDS: u32 = 3_600;

string_enum!(
    // Memory has a schema named JobStatus too.
    /// Status of a job: `active` (runs when it is due), `paused` (does not run until it is resumed or triggered),
    /// `completed` (one-time job whose run has ended) or `failed` (one-time job whose run failed permanently).
    #[schema(as = ScheduledJobStatus)]
    JobStatus {
        /// Runs when it is due.
        Active = "active",
        /// Does not run until it is resumed or triggered.
        Paused = "paused",
        /// One-time job whose run has ended.
        Completed = "completed",
        /// One-time job whose run failed permanently.
        Failed = "failed",
    }
);

string_enum!(
    /// Handling of a slot that is due while a run of the job is open: `skip` (skips the slot), `buffer_one` (queues at
    /// most one slot until the run ends), `allow` (runs the slot concurrently) or `cancel_other` (cancels the open runs
    /// and runs the slot).
    OverlapPolicy {
        /// Skips the slot.
        Skip = "skip",
        /// Queues the slot until the run ends; at most one slot is queued.
        BufferOne = "buffer_one",
        /// Runs the slot concurrently.
        Allow = "allow",
        /// Cancels the open runs and runs the slot.
        CancelOther = "cancel_other",
    }
);

string_enum!(
    /// Autonomy of the agent in a run: `autonomous`, or `approval_required` (every tool that changes something requires
    /// approval; the run waits for the response).
    JobExecutionMode {
        Autonomous = "autonomous",
        /// Every tool that changes something requires approval; the run waits for the response.
        ApprovalRequired = "approval_required",
    }
);

impl JobExecutionMode {
    #[must_use]
    pub fn tool_use(self) -> ToolUse {
        match self {
            Self::Autonomous => ToolUse::Free,
            Self::ApprovalRequired => ToolUse::Asking,
        }
    }
}

string_enum!(
    /// Language of a condition: `expression`, an expression in CEL.
    ConditionType {
        /// An expression in CEL.
        Expression = "expression",
    }
);

/// Destination of a run's output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeliveryRule {
    /// Target: `<platform>:<channel>`, `email:<address>`, `webhook:<url>`, or `push:` for the registered devices.
    #[schema(min_length = 3, max_length = 2_100, example = "slack:#reports")]
    pub channel: String,
    /// Format of the message. Default: `markdown`.
    #[serde(default)]
    pub format: MessageFormat,
}

/// Condition that must be true for a run to start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobCondition {
    /// Language of the condition: always `expression`, an expression in CEL.
    #[serde(rename = "type")]
    pub kind: ConditionType,
    /// CEL expression over `now`, `job`, `last_run` (null before the first run) and `run_count`, 1 to 1,000 characters.
    #[schema(min_length = 1, max_length = 1_000, example = "last_run == null || last_run.status == 'success'")]
    pub expression: String,
}

/// A stored job.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    pub id: JobId,
    pub name: String,
    pub goal: String,
    pub agent_id: AgentId,
    /// `None` if the project was deleted.
    pub project_id: Option<ProjectId>,
    pub schedule: Schedule,
    pub status: JobStatus,
    pub delivery: Option<DeliveryRule>,
    pub condition: Option<JobCondition>,
    pub retry: RetryRule,
    pub overlap: OverlapPolicy,
    pub misfire: MisfirePolicy,
    pub execution_mode: JobExecutionMode,
    /// Time limit of one attempt, excluding time spent waiting for approval.
    pub time_limit_seconds: u32,
    /// Model that overrides those of the agent and the settings.
    pub model: Option<String>,
    /// The last planned slot, or the time of creation, resumption or rescheduling.
    pub counted_from: Timestamp,
    /// Set only for active jobs.
    pub next_run_at: Option<Timestamp>,
    pub last_run_at: Option<Timestamp>,
    /// Result of the last completed run, excluding skipped ones. Set only if the job was looked up or listed.
    pub last_run_status: Option<RunStatus>,
    /// Number of started runs.
    pub run_count: u64,
    /// Whether an agent created the job.
    pub made_by_agent: bool,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

impl Job {
    /// Returns an empty job, to be filled by [`apply`](Self::apply).
    #[must_use]
    pub(crate) fn blank(id: JobId, agent_id: AgentId, schedule: Schedule, now: Timestamp) -> Self {
        Self {
            id,
            name: String::new(),
            goal: String::new(),
            agent_id,
            project_id: None,
            schedule,
            status: JobStatus::Active,
            delivery: None,
            condition: None,
            retry: RetryRule::default(),
            overlap: OverlapPolicy::Skip,
            misfire: MisfirePolicy::default(),
            execution_mode: JobExecutionMode::Autonomous,
            time_limit_seconds: DEFAULT_TIME_LIMIT_SECONDS,
            model: None,
            counted_from: now,
            next_run_at: None,
            last_run_at: None,
            last_run_status: None,
            run_count: 0,
            made_by_agent: false,
            created_at: now,
            updated_at: now,
        }
    }

    /// Restarts counting at `now`: the next slot is the first one after it. Returns whether there is one.
    ///
    /// If the clock was ahead before, this moves back behind planned slots. Each of those has a row, so none gets a
    /// second run.
    pub(crate) fn count_from(&mut self, now: Timestamp) -> bool {
        self.counted_from = now;
        self.next_run_at = self.schedule.next_after(self.counted_from, self.counted_from);
        self.next_run_at.is_some()
    }

    /// Builds a run that is due immediately.
    #[must_use]
    pub(crate) fn new_run(&self, id: RunId, cause: RunCause, now: Timestamp) -> Run {
        Run {
            id,
            job_id: self.id.clone(),
            agent_id: self.agent_id.clone(),
            scheduled_for: None,
            cause,
            status: RunStatus::Pending,
            may_overlap: self.overlap == OverlapPolicy::Allow,
            due_at: Some(now),
            attempt: 0,
            fence: 0,
            owner: None,
            session_id: None,
            deadline_at: None,
            stop_reason: None,
            output: None,
            error: None,
            created_at: now,
            started_at: None,
            completed_at: None,
        }
    }

    /// Returns the time zone named by the schedule, if any.
    #[must_use]
    pub fn zone(&self) -> Option<&Zone> {
        self.schedule.zone()
    }
}
