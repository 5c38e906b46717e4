//! A turn that an agent began by itself, and why.

use agentd_base::Timestamp;
use agentd_engine::agents::AgentId;
use agentd_engine::engine::{Reply, SessionStatus};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::scheduler::{FailedRun, Suggestion};

agentd_base::typed_id!(
    /// The id of a turn that an agent began by itself.
    ProactiveTurnId,
    "pro"
);
agentd_store::stored_ids!(ProactiveTurnId);

/// Longer outputs are cut; the session's log has the whole for a day.
const OUTPUT_BYTES: usize = 64 * 1024;
const REASON_BYTES: usize = 2_000;

/// What made an agent begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = ProactiveCause)]
pub enum CauseKind {
    /// The last run of a job failed.
    FailedRun,
    /// Something could be planned around the owner's habits.
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

    /// The schema of the table lets nothing else in.
    pub(super) fn from_stored(text: &str) -> Self {
        if text == Self::FailedRun.as_str() { Self::FailedRun } else { Self::Suggestion }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = ProactiveTurnStatus)]
pub enum TurnStatus {
    Running,
    Success,
    Failed,
    Cancelled,
    /// The daemon ended in the middle.
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

    /// The schema of the table lets nothing else in.
    pub(super) fn from_stored(text: &str) -> Self {
        Self::ALL.into_iter().find(|status| status.as_str() == text).unwrap_or(Self::Failed)
    }
}

/// Something that an agent may begin a turn about.
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

    /// What is the same as long as it is the same cause. There are a few hundred suggestions at most.
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

    /// The subject of the message to the owner.
    #[must_use]
    pub fn subject(&self) -> String {
        match self {
            Self::FailedRun(failed) => format!("{} failed", failed.job_name),
            Self::Suggestion(_) => "A suggestion".to_owned(),
        }
    }

    /// In a sentence.
    #[must_use]
    pub fn reason(&self) -> String {
        match self {
            Self::FailedRun(failed) => cut(failed.error(), REASON_BYTES),
            Self::Suggestion(suggestion) => cut(&suggestion.reason, REASON_BYTES),
        }
    }
}

/// A turn as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProactiveTurn {
    pub id: ProactiveTurnId,
    pub agent_id: AgentId,
    /// In the profile's time zone.
    pub day: String,
    /// Which one of the agent and day it is, from 1 on.
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

/// What a turn came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) status: TurnStatus,
    pub(super) output: Option<String>,
    pub(super) error: Option<String>,
}

impl Outcome {
    /// `None` while it runs.
    pub(super) fn of_reply(reply: &Reply) -> Option<Self> {
        let status = match reply.status {
            SessionStatus::Running => return None,
            SessionStatus::Done => TurnStatus::Success,
            SessionStatus::Failed => TurnStatus::Failed,
            SessionStatus::Cancelled => TurnStatus::Cancelled,
            SessionStatus::Interrupted => TurnStatus::Interrupted,
        };
        let output = (!reply.content.trim().is_empty()).then(|| cut(&reply.content, OUTPUT_BYTES));
        let error = reply.error.as_ref().map(|error| format!("{}: {}", error.code, error.message));
        Some(Self { status, output, error })
    }
}

/// What the database can store of a text, up to so many bytes.
fn cut(text: &str, bytes: usize) -> String {
    text[..text.floor_char_boundary(bytes)].replace('\0', "\u{fffd}")
}
