//! The run entity: one execution of a job, with all its attempts.

use agentd_base::Timestamp;
use agentd_engine::agents::AgentId;
use agentd_engine::engine::{Reply, SessionId, SessionStatus};
use serde::Serialize;
use utoipa::ToSchema;

use super::{JobId, string_enum};
use crate::notify::NotificationStatus;

agentd_base::typed_id!(
    /// Id of a run.
    RunId,
    "run"
);
agentd_store::stored_ids!(RunId);

/// Maximum number of open runs of a job, so that no job starves the others.
pub(crate) const MAX_OPEN_RUNS: usize = 100;
/// Maximum size of a stored output, in bytes. The session log retains the full output for one day.
pub(crate) const MAX_OUTPUT_BYTES: usize = 100_000;
const MAX_ERROR_BYTES: usize = 2_000;
const INTERRUPTED: &str =
    "The daemon stopped before the attempt was complete; changes made by its tools until then remain.";

string_enum!(
    /// Status of a run: `pending` (waiting for its due time, for other runs of its job, or for its next attempt),
    /// `running`, `success`, `failed`, `cancelled`, `skipped` (not executed; `error` contains the reason) or `timeout`
    /// (the last attempt exceeded its time limit).
    RunStatus {
        /// Waiting for its due time, for other runs of its job, or for its next attempt.
        Pending = "pending",
        Running = "running",
        Success = "success",
        Failed = "failed",
        Cancelled = "cancelled",
        /// Not executed; `error` contains the reason.
        Skipped = "skipped",
        /// The last attempt exceeded its time limit.
        Timeout = "timeout",
    }
);

impl RunStatus {
    #[must_use]
    pub fn is_over(self) -> bool {
        !matches!(self, Self::Pending | Self::Running)
    }

    #[must_use]
    pub fn is_failure(self) -> bool {
        matches!(self, Self::Failed | Self::Timeout)
    }
}

string_enum!(
    /// Reason a run was created: `schedule`, `manual` (triggered manually) or `chain`.
    RunCause {
        Schedule = "schedule",
        /// Triggered manually.
        Manual = "manual",
        Chain = "chain",
    }
);

string_enum!(
    /// Reason a run was stopped.
    StopReason {
        Cancel = "cancel",
        Timeout = "timeout",
        /// Replaced by a later slot of the job.
        Replaced = "replaced",
        /// The job was paused before the run started.
        Paused = "paused",
    }
);

impl StopReason {
    /// Returns the error message of a run stopped for this reason.
    pub(crate) fn sentence(self) -> &'static str {
        match self {
            Self::Replaced => "The run was replaced by a later slot of the job.",
            Self::Paused => "The job was paused before the run started.",
            Self::Cancel | Self::Timeout => "The run was cancelled.",
        }
    }
}

/// A stored run.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    pub id: RunId,
    pub job_id: JobId,
    pub agent_id: AgentId,
    /// Slot of the schedule; `None` if the run has another cause.
    pub scheduled_for: Option<Timestamp>,
    pub cause: RunCause,
    pub status: RunStatus,
    /// Whether it may run concurrently with other runs of its job.
    pub may_overlap: bool,
    /// Time from which it may be claimed. For a claimed run without a session, the expiry of the claim. `None` if it
    /// has ended or has a session.
    pub due_at: Option<Timestamp>,
    /// Number of started attempts.
    pub attempt: u32,
    pub fence: u32,
    pub owner: Option<String>,
    /// Session of the last attempt.
    pub session_id: Option<SessionId>,
    pub deadline_at: Option<Timestamp>,
    pub stop_reason: Option<StopReason>,
    pub output: Option<String>,
    pub error: Option<String>,
    pub created_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub completed_at: Option<Timestamp>,
}

impl Run {
    /// Marks a run as skipped before it starts.
    pub(crate) fn skip(&mut self, reason: &str, now: Timestamp) {
        (self.status, self.due_at, self.completed_at) = (RunStatus::Skipped, None, Some(now));
        self.error = Some(reason.to_owned());
    }

    /// Whether the run is a slot of the schedule that has not started.
    pub(crate) fn is_waiting_slot(&self) -> bool {
        self.cause == RunCause::Schedule && self.status == RunStatus::Pending && self.attempt == 0
    }
}

/// Returns the reason of a run skipped because too many runs of its job are open.
pub(crate) fn too_many_open_runs() -> String {
    format!("open run limit of the job reached ({MAX_OPEN_RUNS})")
}

/// Delivery status of the message about a completed run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct RunDelivery {
    /// Status of the message.
    pub status: NotificationStatus,
    /// Error of the last attempt, or the reason the message was dead-lettered; null if there was no error.
    pub error: Option<String>,
}

/// A permanently failed run that is the latest run of its job.
#[derive(Debug, Clone, PartialEq)]
pub struct FailedRun {
    pub run: Run,
    pub job_name: String,
    pub job_goal: String,
}

impl FailedRun {
    #[must_use]
    pub fn error(&self) -> &str {
        self.run.error.as_deref().unwrap_or("no reason was recorded")
    }
}

/// Outcome of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) status: RunStatus,
    pub(crate) output: Option<String>,
    pub(crate) error: Option<String>,
    /// Whether the attempt was interrupted by the end of the daemon.
    pub(crate) is_interrupted: bool,
    /// Whether further attempts are excluded, regardless of the job's rule.
    pub(crate) is_final: bool,
}

impl Outcome {
    pub(crate) fn failed(error: impl Into<String>) -> Self {
        Self::ended(RunStatus::Failed, error)
    }

    /// Returns a failure that is not retried.
    pub(crate) fn failed_permanently(error: impl Into<String>) -> Self {
        Self { is_final: true, ..Self::failed(error) }
    }

    pub(crate) fn ended(status: RunStatus, error: impl Into<String>) -> Self {
        Self {
            status,
            output: None,
            error: Some(truncate(&error.into(), MAX_ERROR_BYTES)),
            is_interrupted: false,
            is_final: false,
        }
    }

    /// Converts the result of a turn to the outcome of its attempt.
    pub(crate) fn of_reply(reply: &Reply, stop: Option<StopReason>, time_limit_seconds: u32) -> Self {
        let reply_error = || reply.error.as_ref().map(|error| error.message.clone());
        let output = (!reply.content.is_empty()).then(|| truncate(&reply.content, MAX_OUTPUT_BYTES));
        let (status, error) = match (reply.status, stop) {
            (SessionStatus::Done, _) => (RunStatus::Success, None),
            (SessionStatus::Cancelled, Some(StopReason::Timeout)) => (
                RunStatus::Timeout,
                Some(format!(
                    "The attempt took longer than {time_limit_seconds} seconds; raise the job's time_limit_seconds, or \
                     split the task."
                )),
            ),
            (SessionStatus::Cancelled, stop) => {
                (RunStatus::Cancelled, Some(stop.unwrap_or(StopReason::Cancel).sentence().to_owned()))
            }
            // The engine's message is written for conversations.
            (SessionStatus::Interrupted, _) => (RunStatus::Failed, Some(INTERRUPTED.to_owned())),
            (SessionStatus::Failed | SessionStatus::Running, _) => (RunStatus::Failed, reply_error()),
        };
        let is_interrupted = reply.status == SessionStatus::Interrupted;
        Self {
            status,
            output,
            error: error.map(|error| truncate(&error, MAX_ERROR_BYTES)),
            is_interrupted,
            is_final: false,
        }
    }

    /// Whether another attempt may succeed.
    pub(crate) fn is_retryable(&self) -> bool {
        !self.is_final && self.status.is_failure()
    }
}

/// Truncates a text to `bytes` and replaces NUL characters, which the database cannot store.
pub(crate) fn truncate(text: &str, bytes: usize) -> String {
    text[..text.floor_char_boundary(bytes)].replace('\0', "\u{fffd}")
}
