//! Sessions, their events, and what a caller gives and gets.

use std::sync::Arc;

use agentd_base::{Problems, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::approvals::Approval;
use super::error::NoAnswer;
use super::origin::Origin;
use super::rounds::{CallProgress, Outcome, Round, as_object};
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
    pub origin: Origin,
    /// Whose usage it is, besides the agent's.
    pub project_id: Option<String>,
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
    /// Since when it waits for an approval; nobody holds it then.
    pub waiting_since: Option<Timestamp>,
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
    ToolUse,
    ToolResult,
    ApprovalRequest,
    Done,
    Error,
}

impl EventKind {
    const ALL: [Self; 7] =
        [Self::Start, Self::Token, Self::ToolUse, Self::ToolResult, Self::ApprovalRequest, Self::Done, Self::Error];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Token => "token",
            Self::ToolUse => "tool_use",
            Self::ToolResult => "tool_result",
            Self::ApprovalRequest => "approval_request",
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

    /// A tool is about to run. Stored before it does.
    pub(super) fn tool_use(seq: u64, round: u32, call: &CallProgress) -> Self {
        let data = json!({
            "tool": call.call.name,
            "input": as_object(&call.call.input),
            "call_id": call.id,
            "round": round,
        });
        Self { seq, kind: EventKind::ToolUse, data: data.to_string().into() }
    }

    pub(super) fn tool_result(seq: u64, round: u32, call: &CallProgress, outcome: &Outcome) -> Self {
        let mut data = json!({
            "tool": call.call.name,
            "output": outcome.output,
            "call_id": call.id,
            "round": round,
            "status": outcome.status,
        });
        // Where no `tool_use` went before, this is the only place that shows what was asked for.
        if call.approval_id.is_some() && outcome.is_error() {
            data["input"] = as_object(&call.call.input);
        }
        Self { seq, kind: EventKind::ToolResult, data: data.to_string().into() }
    }

    pub(super) fn approval_request(seq: u64, call_id: &str, approval: &Approval) -> Self {
        let data = json!({
            "approval_id": approval.id,
            "tool": approval.tool,
            "input": approval.input,
            "input_sha256": approval.input_sha256,
            "call_id": call_id,
            "expires_at": approval.expires_at,
        });
        Self { seq, kind: EventKind::ApprovalRequest, data: data.to_string().into() }
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
#[derive(Debug, Clone, PartialEq)]
pub enum HistoryMessage {
    User(String),
    Assistant(String),
    /// An answer for which tools were used.
    Worked(Vec<Round>),
    /// Becomes part of the system prompt.
    Note(String),
}

/// What was said before the history and is in no summary yet: the [`Transcript`](super::Transcript) is asked for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unread {
    /// The keys of the entries around it.
    pub after: u64,
    pub before: u64,
    pub entries: u64,
}

/// A turn that is wanted.
#[derive(Debug, Clone)]
pub struct StartTurn {
    pub agent: Arc<Agent>,
    pub origin: Origin,
    /// What is to be answered stands last.
    pub history: Vec<HistoryMessage>,
    /// What the [`Transcript`](super::Transcript) calls each entry of the history; may be left out.
    pub keys: Vec<u64>,
    /// What stands for still older messages.
    pub summary: Option<String>,
    /// What was said between the summary and the history.
    pub unread: Option<Unread>,
    /// Goes before the agent's and the settings' model.
    pub model: Option<String>,
    /// The project that what the turn uses is counted for.
    pub project_id: Option<String>,
    /// At most one turn runs in a conversation.
    pub conversation_id: Option<String>,
    /// The reply's message, as the events name it.
    pub message_id: Option<String>,
    /// The [`Transcript`](super::Transcript) that keeps the reply.
    pub transcript: Option<&'static str>,
    pub tools: ToolUse,
    /// The longest answer that is of use, in tokens; the settings' limit holds besides.
    pub max_output_tokens: Option<u32>,
    /// What is asked of the agent's memory before the answer; `None`: nothing.
    pub recall: Option<String>,
}

impl StartTurn {
    /// A question beside any conversation: words alone, kept by nobody, and nothing is recalled for it.
    #[must_use]
    pub fn aside(agent: Arc<Agent>, history: Vec<HistoryMessage>) -> Self {
        Self {
            agent,
            origin: Origin::aside(),
            history,
            keys: Vec::new(),
            summary: None,
            unread: None,
            model: None,
            project_id: None,
            conversation_id: None,
            message_id: None,
            transcript: None,
            tools: ToolUse::None,
            max_output_tokens: None,
            recall: None,
        }
    }
}

/// What an agent may do in a turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolUse {
    /// Words alone.
    None,
    /// Tools that change nothing.
    ReadingOnly,
    /// Tools that change nothing, and those that are named here; of these, those that act ask first.
    ReadingAnd(Arc<[String]>),
    /// Every tool; those that act ask first.
    Asking,
    /// Every tool. What `security.approval_tools` names asks first all the same.
    Free,
}

impl ToolUse {
    /// What a turn that something outside caused may do: it reads, and uses what its owner names besides.
    #[must_use]
    pub fn reading_and(named: &[String]) -> Self {
        match named {
            [] => Self::ReadingOnly,
            named => Self::ReadingAnd(named.into()),
        }
    }
}

const MAX_NAMED_TOOLS: usize = 100;
const MAX_TOOL_BYTES: usize = 128;

/// Judges the names of tools that an owner gives to turns which something outside causes, not whether there are such
/// tools: one may come later. `field` is what a refusal calls the list.
pub fn check_tools(field: &str, named: &[String], problems: &mut Problems) {
    problems.require(named.len() <= MAX_NAMED_TOOLS, field, format!("must have at most {MAX_NAMED_TOOLS} entries"));
    for (index, tool) in named.iter().enumerate() {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        problems.require(
            (1..=MAX_TOOL_BYTES).contains(&tool.len()) && tool.bytes().all(is_plain),
            &format!("{field}[{index}]"),
            "must be the name of a tool: letters, digits, `-`, `_` and `.`",
        );
    }
}

/// Each name once, in their order.
#[must_use]
pub fn distinct_tools(named: &[String]) -> Vec<String> {
    let mut tools: Vec<String> = Vec::new();
    for tool in named {
        if !tools.contains(tool) {
            tools.push(tool.clone());
        }
    }
    tools
}

/// How a turn ended.
#[derive(Debug, Clone)]
pub struct Reply {
    pub session_id: SessionId,
    pub conversation_id: Option<String>,
    pub message_id: Option<String>,
    /// All the text that was shown.
    pub content: String,
    /// What was done for it; empty where no tool was used.
    pub rounds: Vec<Round>,
    pub status: SessionStatus,
    /// Why it is not complete; `None` when it is.
    pub error: Option<NoAnswer>,
}
