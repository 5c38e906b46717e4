//! A job: what an agent is to do, and when.

use agentd_base::Timestamp;
use agentd_engine::agents::AgentId;
use agentd_engine::engine::ToolUse;
use agentd_engine::projects::ProjectId;
use agentd_schedule::{MisfirePolicy, Schedule, Zone};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::retry::RetryRule;
use super::run::{Run, RunCause, RunId, RunStatus};
use super::{JobId, named};
use crate::notify::MessageFormat;

const DEFAULT_TIME_LIMIT_SECONDS: u32 = 3_600;

named!(
    // Memory has jobs of its own.
    #[schema(as = ScheduledJobStatus)]
    JobStatus {
        /// It is started when it is due.
        Active = "active",
        /// Nothing happens until it is resumed or triggered.
        Paused = "paused",
        /// A job of one date that has had its run.
        Completed = "completed",
        /// A job of one date whose run failed for good.
        Failed = "failed",
    }
);

named!(
    /// What happens to a slot while the job still runs.
    OverlapPolicy {
        /// It is left out.
        Skip = "skip",
        /// It waits for the end of the run; one slot at most waits.
        BufferOne = "buffer_one",
        /// It runs beside the other one.
        Allow = "allow",
        /// The other one is stopped, and this one runs.
        CancelOther = "cancel_other",
    }
);

named!(
    /// How much the agent may do by itself in a run.
    JobExecutionMode {
        Autonomous = "autonomous",
        /// Every tool that changes something asks first; the run waits for the answer.
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

named!(ConditionType {
    /// An expression in CEL.
    Expression = "expression",
});

/// Where the output of a run goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeliveryRule {
    /// `<platform>:<channel>`, `email:<address>`, `webhook:<url>`, or `push:` for the devices that are woken.
    #[schema(min_length = 3, max_length = 2_100, example = "slack:#reports")]
    pub channel: String,
    /// Default `markdown`.
    #[serde(default)]
    pub format: MessageFormat,
}

/// A run begins only while this is true.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobCondition {
    #[serde(rename = "type")]
    pub kind: ConditionType,
    /// CEL over `now`, `job`, `last_run` (null before the first) and `run_count`.
    #[schema(min_length = 1, max_length = 1_000, example = "last_run == null || last_run.status == 'success'")]
    pub expression: String,
}

/// A job as it is kept.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    pub id: JobId,
    pub name: String,
    pub goal: String,
    pub agent_id: AgentId,
    /// None of a project that was deleted.
    pub project_id: Option<ProjectId>,
    pub schedule: Schedule,
    pub status: JobStatus,
    pub delivery: Option<DeliveryRule>,
    pub condition: Option<JobCondition>,
    pub retry: RetryRule,
    pub overlap: OverlapPolicy,
    pub misfire: MisfirePolicy,
    pub execution_mode: JobExecutionMode,
    /// Of one attempt, without the time in which it waits for an approval.
    pub time_limit_seconds: u32,
    /// Goes before the agent's and the settings' model.
    pub model: Option<String>,
    /// The last scheduled slot, or when it was made, resumed or rescheduled.
    pub counted_from: Timestamp,
    /// Only of an active job.
    pub next_run_at: Option<Timestamp>,
    pub last_run_at: Option<Timestamp>,
    /// Result of the last run that has ended, skipped ones aside; known where a job is looked up or listed.
    pub last_run_status: Option<RunStatus>,
    /// Runs that have begun.
    pub run_count: u64,
    /// An agent planned it by itself.
    pub made_by_agent: bool,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

impl Job {
    /// A job of which nothing is known but whose it is; [`apply`](Self::apply) fills it.
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
    /// After a clock that was ahead this goes back behind slots that were handed out; those have a row each, so none of
    /// them gets a second run.
    pub(crate) fn count_from(&mut self, now: Timestamp) -> bool {
        self.counted_from = now;
        self.next_run_at = self.schedule.next_after(self.counted_from, self.counted_from);
        self.next_run_at.is_some()
    }

    /// A run of the job that begins as soon as it can.
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

    /// Whom the run asks for its time zone where the schedule names none.
    #[must_use]
    pub fn zone(&self) -> Option<&Zone> {
        self.schedule.zone()
    }
}
