//! Input and output of a turn.

use std::sync::Arc;

use agentd_base::Problems;
use agentd_core::runtime::ItemFailure;
use serde::{Deserialize, Serialize};

use super::rounds::Round;
use super::session::Origin;
use super::session::{SessionId, SessionStatus};
use super::untrusted::Sources;
use crate::agents::{Agent, AgentId};

/// A message of the conversation history.
#[derive(Debug, Clone, PartialEq)]
pub enum HistoryMessage {
    User(String),
    /// A message that an unknown sender wrote; it is marked in the prompt.
    Untrusted {
        text: String,
        source: String,
    },
    Assistant(String),
    /// An answer for which tools were used, as rounds.
    AssistantWithTools(Vec<Round>),
    /// Becomes part of the system prompt.
    Note(String),
}

/// An entry of a turn's history.
#[derive(Debug, Clone, PartialEq)]
pub struct HistoryEntry {
    /// Key assigned by the [`TurnSink`](super::TurnSink). Entries without a key follow those with one.
    pub key: Option<u64>,
    pub message: HistoryMessage,
}

impl From<HistoryMessage> for HistoryEntry {
    fn from(message: HistoryMessage) -> Self {
        Self { key: None, message }
    }
}

/// Messages before the history that are not in a summary yet; read from the [`TurnSink`](super::TurnSink).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnsummarizedHistory {
    /// Key of the last summarized entry and of the first entry of the history, both exclusive.
    pub after: u64,
    pub before: u64,
    pub entries: u64,
}

/// Request to start a turn.
#[derive(Debug, Clone)]
pub struct StartTurn {
    pub agent: Arc<Agent>,
    pub origin: Origin,
    /// History; the message to be answered is the last entry.
    pub history: Vec<HistoryEntry>,
    /// Sources of untrusted text in the history or the summary that is not marked as such.
    pub sources: Sources,
    /// Summary of the messages before the history.
    pub summary: Option<String>,
    /// Messages between the summary and the history.
    pub unsummarized: Option<UnsummarizedHistory>,
    /// Overrides the model of the agent and of the settings.
    pub model: Option<String>,
    /// Project to which the usage is charged.
    pub project_id: Option<String>,
    /// Conversation of the turn; at most one turn runs in a conversation.
    pub conversation_id: Option<String>,
    /// Id of the reply's message in the events.
    pub message_id: Option<String>,
    /// Name of the [`TurnSink`](super::TurnSink) that stores the reply.
    pub sink: Option<&'static str>,
    pub tools: ToolUse,
    /// Maximum useful length of the answer in tokens; the limit of the settings applies as well.
    pub max_output_tokens: Option<u32>,
    /// Query for the agent's memory before the answer; `None` disables recall.
    pub recall: Option<String>,
}

impl StartTurn {
    /// Creates an auxiliary turn without a conversation: no tools, no recall, and the reply is not stored.
    #[must_use]
    pub fn auxiliary(agent: Arc<Agent>, history: Vec<HistoryMessage>) -> Self {
        Self {
            agent,
            origin: Origin::auxiliary(),
            history: history.into_iter().map(HistoryEntry::from).collect(),
            sources: Sources::default(),
            summary: None,
            unsummarized: None,
            model: None,
            project_id: None,
            conversation_id: None,
            message_id: None,
            sink: None,
            tools: ToolUse::None,
            max_output_tokens: None,
            recall: None,
        }
    }

    /// Sets the API key of the request.
    #[must_use]
    pub fn with_key(mut self, key_id: Option<String>) -> Self {
        self.origin.key_id = key_id;
        self
    }
}

/// Tools that an agent may use in a turn, and whether they require approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolUse {
    /// No tools.
    None,
    /// Read-only tools.
    ReadingOnly,
    /// Read-only tools and the named ones; named tools that have side effects require approval.
    ReadingAnd(Arc<[String]>),
    /// For unknown senders: tools that read the workspace and the named ones, but none that reveal the owner's
    /// messages, plans or other data. Named tools that have side effects require approval.
    WorkspaceAnd(Arc<[String]>),
    /// All tools; those that have side effects require approval.
    Asking,
    /// All tools; only those in `security.approval_tools` require approval.
    Free,
}

impl ToolUse {
    /// Returns the policy for turns with an external trigger: read-only tools and the named ones.
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

/// Validates a list of tool names for turns with an external trigger. Tools do not have to exist yet. `field` is the
/// name of the list in problems.
pub fn check_tools(field: &str, named: &[String], problems: &mut Problems) {
    problems.require(named.len() <= MAX_NAMED_TOOLS, field, format!("must have at most {MAX_NAMED_TOOLS} entries"));
    for (index, tool) in named.iter().enumerate() {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        problems.require(
            (1..=MAX_TOOL_BYTES).contains(&tool.len()) && tool.bytes().all(is_plain),
            &format!("{field}[{index}]"),
            "must be a tool name: letters, digits, `-`, `_` and `.`",
        );
    }
}

/// Removes duplicate names; keeps their order.
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

/// Model, tokens, cost and duration of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnUsage {
    pub agent_id: AgentId,
    pub provider: String,
    pub model: String,
    /// Tokens of all model calls, including auxiliary ones.
    pub input_tokens: u64,
    pub output_tokens: u64,
    /// `None` if the price of a call is unknown.
    pub cost_micro_usd: Option<u64>,
    /// Time from start to end, including waits for approvals; `None` while the turn runs.
    pub duration_ms: Option<u64>,
}

impl TurnUsage {
    /// Returns the cost in US dollars; `None` if the price of a call is unknown.
    #[must_use]
    pub fn cost_estimate(&self) -> Option<f64> {
        self.cost_micro_usd.map(dollars)
    }
}

#[allow(clippy::cast_precision_loss, reason = "what a turn costs is far below what a float holds exactly")]
pub(crate) fn dollars(micro_usd: u64) -> f64 {
    micro_usd as f64 / 1e6
}

/// Result of a turn.
#[derive(Debug, Clone)]
pub struct Reply {
    pub session_id: SessionId,
    pub conversation_id: Option<String>,
    pub message_id: Option<String>,
    /// The complete published text.
    pub content: String,
    /// Rounds of the reply; empty if no tool was used.
    pub rounds: Vec<Round>,
    pub status: SessionStatus,
    /// Reason why the reply is incomplete; `None` on success.
    pub error: Option<NoAnswer>,
}

/// Error of a session that ended without an answer, as in its `error` event.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the model did not answer: {message}")]
pub struct NoAnswer {
    pub code: String,
    pub message: String,
}

impl<E> From<NoAnswer> for ItemFailure<E> {
    fn from(error: NoAnswer) -> Self {
        Self::new(error.to_string())
    }
}
