//! Proactive turns and their causes.

use agentd_base::Timestamp;
use agentd_engine::agents::AgentId;
use agentd_engine::engine::{Reply, SessionStatus};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::scheduler::{FailedRun, Suggestion};

agentd_base::typed_id!(
    /// Id of a proactive turn.
    ProactiveTurnId,
    "pro"
);
agentd_store::stored_ids!(ProactiveTurnId);

/// Maximum size of a stored output, in bytes. The session log retains the full output for one day.
const MAX_OUTPUT_BYTES: usize = 64 * 1024;
const MAX_REASON_BYTES: usize = 2_000;

/// Cause of a proactive turn: `failed_run` (the last run of a job failed) or `suggestion` (a schedule was suggested
/// from the owner's habits).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = ProactiveCause)]
pub enum CauseKind {
    /// The last run of a job failed.
    FailedRun,
    /// A schedule was suggested from the owner's habits.
    Suggestion,
}

impl CauseKind {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::FailedRun => "failed_run",
            Self::Suggestion => "suggestion",
        }
    }

    /// Parses a stored value. The database constraint excludes unknown values.
    pub(super) fn from_stored(text: &str) -> Self {
        if text == Self::FailedRun.as_str() { Self::FailedRun } else { Self::Suggestion }
    }
}

/// Status of a proactive turn: `running`, `success`, `failed`, `cancelled` or `interrupted` (the daemon ended during
/// the turn).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = ProactiveTurnStatus)]
pub enum TurnStatus {
    Running,
    Success,
    Failed,
    Cancelled,
    /// The daemon ended during the turn.
    Interrupted,
}

impl TurnStatus {
    const ALL: [Self; 5] = [Self::Running, Self::Success, Self::Failed, Self::Cancelled, Self::Interrupted];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Success => "success",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Interrupted => "interrupted",
        }
    }

    /// Parses a stored value. The database constraint excludes unknown values.
    pub(super) fn from_stored(text: &str) -> Self {
        Self::ALL.into_iter().find(|status| status.as_str() == text).unwrap_or(Self::Failed)
    }
}

/// Cause of a proactive turn with its data.
#[derive(Debug, Clone, PartialEq)]
pub enum Cause {
    FailedRun(FailedRun),
    Suggestion(Suggestion),
}

impl Cause {
    #[must_use]
    pub fn kind(&self) -> CauseKind {
        match self {
            Self::FailedRun(_) => CauseKind::FailedRun,
            Self::Suggestion(_) => CauseKind::Suggestion,
        }
    }

    /// Returns the stable identifier of the cause. There are at most a few hundred distinct suggestions.
    #[must_use]
    pub fn id(&self) -> String {
        match self {
            Self::FailedRun(failed) => failed.run.id.to_string(),
            Self::Suggestion(suggestion) => format!("{}@{}", suggestion.days.join(","), suggestion.time),
        }
    }

    #[must_use]
    pub fn job_id(&self) -> Option<String> {
        match self {
            Self::FailedRun(failed) => Some(failed.run.job_id.to_string()),
            Self::Suggestion(_) => None,
        }
    }

    /// Returns the subject of the message to the owner.
    #[must_use]
    pub fn subject(&self) -> String {
        match self {
            Self::FailedRun(failed) => format!("{} failed", failed.job_name),
            Self::Suggestion(_) => "A suggestion".to_owned(),
        }
    }

    /// Returns the reason as one sentence.
    #[must_use]
    pub fn reason(&self) -> String {
        match self {
            Self::FailedRun(failed) => truncate(failed.error(), MAX_REASON_BYTES),
            Self::Suggestion(suggestion) => truncate(&suggestion.reason, MAX_REASON_BYTES),
        }
    }
}

/// A stored proactive turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProactiveTurn {
    pub id: ProactiveTurnId,
    pub agent_id: AgentId,
    /// Day that the turn counts for, in the profile's time zone.
    pub day: String,
    /// Number of the turn among those of the agent on that day, starting at 1.
    pub ordinal: u64,
    pub cause: CauseKind,
    pub cause_id: String,
    pub job_id: Option<String>,
    pub subject: String,
    pub reason: String,
    pub status: TurnStatus,
    pub session_id: Option<String>,
    pub output: Option<String>,
    pub error: Option<String>,
    pub started_at: Timestamp,
    pub completed_at: Option<Timestamp>,
}

/// Outcome of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) status: TurnStatus,
    pub(super) output: Option<String>,
    pub(super) error: Option<String>,
}

impl Outcome {
    /// Converts a reply; `None` while the turn is running.
    pub(super) fn of_reply(reply: &Reply) -> Option<Self> {
        let status = match reply.status {
            SessionStatus::Running => return None,
            SessionStatus::Done => TurnStatus::Success,
            SessionStatus::Failed => TurnStatus::Failed,
            SessionStatus::Cancelled => TurnStatus::Cancelled,
            SessionStatus::Interrupted => TurnStatus::Interrupted,
        };
        let output = (!reply.content.trim().is_empty()).then(|| truncate(&reply.content, MAX_OUTPUT_BYTES));
        let error = reply.error.as_ref().map(|error| format!("{}: {}", error.code, error.message));
        Some(Self { status, output, error })
    }
}

/// Truncates a text to `bytes` and replaces NUL characters, which the database cannot store.
fn truncate(text: &str, bytes: usize) -> String {
    text[..text.floor_char_boundary(bytes)].replace('\0', "\u{fffd}")
}
