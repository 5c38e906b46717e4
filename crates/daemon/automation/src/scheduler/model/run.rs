//! A run: one time that a job is carried out, with all its attempts.

use agentd_base::Timestamp;
use agentd_engine::agents::AgentId;
use agentd_engine::engine::{Reply, SessionId, SessionStatus};
use serde::Serialize;
use utoipa::ToSchema;

use super::{JobId, named};
use crate::notify::NotificationStatus;

agentd_base::typed_id!(
    /// The id of a run.
    RunId,
    "run"
);
agentd_store::stored_ids!(RunId);

/// Maximum number of open runs of a job, so that no job takes the runs of the others.
pub(crate) const MAX_OPEN_RUNS: usize = 100;
/// Longer outputs are cut; the session's log has the whole for a day.
pub(crate) const OUTPUT_BYTES: usize = 100_000;
const ERROR_BYTES: usize = 2_000;
const CUT_OFF: &str =
    "The daemon was stopped before the attempt was complete; what its tools did until then stays done.";

named!(RunStatus {
    /// Waits for its time, its permit, or its next attempt.
    Pending = "pending",
    Running = "running",
    Success = "success",
    Failed = "failed",
    Cancelled = "cancelled",
    /// It was left out; `error` says why.
    Skipped = "skipped",
    /// Its last attempt took longer than it may.
    Timeout = "timeout",
});

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

named!(RunCause {
    Schedule = "schedule",
    /// Somebody triggered it.
    Manual = "manual",
    Chain = "chain",
});

named!(StopReason {
    Cancel = "cancel",
    Timeout = "timeout",
    /// A later slot of the job took its place.
    Replaced = "replaced",
    /// Its job was paused before it began.
    Paused = "paused",
});

impl StopReason {
    /// The error of a run that was stopped for this reason.
    pub(crate) fn sentence(self) -> &'static str {
        match self {
            Self::Replaced => "A later slot of the job took its place.",
            Self::Paused => "The job was paused before the run began.",
            Self::Cancel | Self::Timeout => "The run was cancelled.",
        }
    }
}

/// A run as it is kept.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    pub id: RunId,
    pub job_id: JobId,
    pub agent_id: AgentId,
    /// The slot; `None` of a run that is not the schedule's.
    pub scheduled_for: Option<Timestamp>,
    pub cause: RunCause,
    pub status: RunStatus,
    /// Beside other runs of its job.
    pub may_overlap: bool,
    /// When it may be claimed; while it is claimed and has no session, when the claim ends.
    /// `None` when it is over, or its session holds it.
    pub due_at: Option<Timestamp>,
    /// Attempts that have begun.
    pub attempt: u32,
    pub fence: u32,
    pub owner: Option<String>,
    /// Of the last attempt.
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
    /// Ends a run before it begins.
    pub(crate) fn skip(&mut self, reason: &str, now: Timestamp) {
        (self.status, self.due_at, self.completed_at) = (RunStatus::Skipped, None, Some(now));
        self.error = Some(reason.to_owned());
    }

    /// A slot of the schedule whose run has not begun.
    pub(crate) fn is_waiting_slot(&self) -> bool {
        self.cause == RunCause::Schedule && self.status == RunStatus::Pending && self.attempt == 0
    }
}

/// Why a run is skipped.
pub(crate) fn too_many_open_runs() -> String {
    format!("{MAX_OPEN_RUNS} runs of the job were open already")
}

/// What became of the message about the end of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct RunDelivery {
    pub status: NotificationStatus,
    /// Why the last try failed, or the message was given up.
    pub error: Option<String>,
}

/// A run that failed for good and after which its job has not run again.
#[derive(Debug, Clone, PartialEq)]
pub struct FailedRun {
    pub run: Run,
    pub job_name: String,
    pub job_goal: String,
}

impl FailedRun {
    #[must_use]
    pub fn error(&self) -> &str {
        self.run.error.as_deref().unwrap_or("nothing was said about why")
    }
}

/// What an attempt came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) status: RunStatus,
    pub(crate) output: Option<String>,
    pub(crate) error: Option<String>,
    /// The daemon ended in the middle.
    pub(crate) is_cut_off: bool,
    /// No further attempt is made, whatever the job's rule says.
    pub(crate) is_final: bool,
}

impl Outcome {
    pub(crate) fn failed(error: impl Into<String>) -> Self {
        Self::ended(RunStatus::Failed, error)
    }

    /// Failed in a way that another attempt must not pass over.
    pub(crate) fn failed_for_good(error: impl Into<String>) -> Self {
        Self { is_final: true, ..Self::failed(error) }
    }

    pub(crate) fn ended(status: RunStatus, error: impl Into<String>) -> Self {
        Self { status, output: None, error: Some(cut(&error.into(), ERROR_BYTES)), is_cut_off: false, is_final: false }
    }

    /// What the end of a turn means for the run that it is an attempt of.
    pub(crate) fn of_reply(reply: &Reply, stop: Option<StopReason>, time_limit_seconds: u32) -> Self {
        let said = || reply.error.as_ref().map(|error| error.message.clone());
        let output = (!reply.content.is_empty()).then(|| cut(&reply.content, OUTPUT_BYTES));
        let (status, error) = match (reply.status, stop) {
            (SessionStatus::Done, _) => (RunStatus::Success, None),
            (SessionStatus::Cancelled, Some(StopReason::Timeout)) => (
                RunStatus::Timeout,
                Some(format!(
                    "The attempt took longer than {time_limit_seconds} seconds; raise the job's time_limit_seconds, or \
                     ask for less at once."
                )),
            ),
            (SessionStatus::Cancelled, stop) => {
                (RunStatus::Cancelled, Some(stop.unwrap_or(StopReason::Cancel).sentence().to_owned()))
            }
            // What the engine says of it fits a conversation.
            (SessionStatus::Interrupted, _) => (RunStatus::Failed, Some(CUT_OFF.to_owned())),
            (SessionStatus::Failed | SessionStatus::Running, _) => (RunStatus::Failed, said()),
        };
        let is_cut_off = reply.status == SessionStatus::Interrupted;
        Self { status, output, error: error.map(|error| cut(&error, ERROR_BYTES)), is_cut_off, is_final: false }
    }

    /// Whether another attempt could go better.
    pub(crate) fn may_be_repeated(&self) -> bool {
        !self.is_final && self.status.is_failure()
    }
}

/// What the database can store of a text, up to so many bytes.
pub(crate) fn cut(text: &str, bytes: usize) -> String {
    text[..text.floor_char_boundary(bytes)].replace('\0', "\u{fffd}")
}
