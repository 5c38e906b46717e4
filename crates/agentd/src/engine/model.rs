//! Sessions, their events, and what a caller gives and gets.

use std::sync::Arc;

use agentd_base::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use crate::agents::{Agent, AgentId};

agentd_base::typed_id!(
    /// The id of a session: the log of one turn.
    SessionId,
    "sess"
);
agentd_store::stored_ids!(SessionId);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SessionStatus {
    Running,
    Done,
    Failed,
    Cancelled,
    Interrupted,
}

impl SessionStatus {
    const ALL: [Self; 5] = [Self::Running, Self::Done, Self::Failed, Self::Cancelled, Self::Interrupted];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Interrupted => "interrupted",
        }
    }

    /// What the database holds is one of these: a rule of the table says so.
    pub(super) fn from_stored(text: &str) -> Self {
        Self::ALL.into_iter().find(|status| status.as_str() == text).unwrap_or(Self::Failed)
    }
}

/// The row of a session.
#[derive(Debug, Clone)]
pub struct Session {
    pub id: SessionId,
    pub agent_id: AgentId,
    pub conversation_id: Option<String>,
    /// The reply's message, where one is kept.
    pub message_id: Option<String>,
    /// Who keeps the reply; see [`Transcript::name`].
    pub transcript: Option<String>,
    pub provider: String,
    pub model: String,
    pub prompt_tokens_estimate: u64,
    pub status: SessionStatus,
    pub error_code: Option<String>,
    pub owner: String,
    pub started_at: Timestamp,
    pub completed_at: Option<Timestamp>,
}

impl Session {
    /// The first event of every session, number 0.
    pub(super) fn start_event(&self) -> SessionEvent {
        let data = json!({
            "conversation_id": self.conversation_id,
            "message_id": self.message_id,
            "session_id": self.id,
        });
        SessionEvent { seq: 0, kind: EventKind::Start, data: data.to_string().into() }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    Start,
    Token,
    Done,
    Error,
}

impl EventKind {
    const ALL: [Self; 4] = [Self::Start, Self::Token, Self::Done, Self::Error];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Token => "token",
            Self::Done => "done",
            Self::Error => "error",
        }
    }

    pub(super) fn from_stored(text: &str) -> Self {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text).unwrap_or(Self::Error)
    }

    /// Nothing follows it.
    #[must_use]
    pub fn is_last(self) -> bool {
        matches!(self, Self::Done | Self::Error)
    }
}

/// One event of a session. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionEvent {
    pub seq: u64,
    pub kind: EventKind,
    /// JSON, without line breaks.
    pub data: Arc<str>,
}

impl SessionEvent {
    pub(super) fn token(seq: u64, content: &str) -> Self {
        Self { seq, kind: EventKind::Token, data: json!({ "content": content }).to_string().into() }
    }

    pub(super) fn error(seq: u64, code: &str, message: &str) -> Self {
        Self { seq, kind: EventKind::Error, data: json!({"code": code, "message": message}).to_string().into() }
    }

    pub(super) fn done(seq: u64, message_id: Option<&str>, input_tokens: u64, output_tokens: u64) -> Self {
        let data = json!({
            "message_id": message_id,
            "input_tokens": input_tokens,
            "output_tokens": output_tokens,
            "total_tokens": input_tokens + output_tokens,
        });
        Self { seq, kind: EventKind::Done, data: data.to_string().into() }
    }

    /// The data as a JSON value.
    #[must_use]
    pub fn value(&self) -> Value {
        serde_json::from_str(&self.data).unwrap_or_default()
    }
}

/// What was said before, oldest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HistoryMessage {
    User(String),
    Assistant(String),
    /// Becomes part of the system prompt.
    Note(String),
}

/// A turn that is wanted.
#[derive(Debug, Clone)]
pub struct StartTurn {
    pub agent: Arc<Agent>,
    /// What is to be answered stands last.
    pub history: Vec<HistoryMessage>,
    /// Goes before the agent's and the settings' model.
    pub model: Option<String>,
    /// At most one turn runs in a conversation.
    pub conversation_id: Option<String>,
    /// The reply's message, as the events name it.
    pub message_id: Option<String>,
    /// The [`Transcript`] that keeps the reply.
    pub transcript: Option<&'static str>,
}

/// How a turn ended.
#[derive(Debug, Clone)]
pub struct Reply {
    pub session_id: SessionId,
    pub conversation_id: Option<String>,
    pub message_id: Option<String>,
    /// All the text that was shown.
    pub content: String,
    pub status: SessionStatus,
}
