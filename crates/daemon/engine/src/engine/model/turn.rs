//! What a caller gives for a turn, and what it gets.

use std::sync::Arc;

use agentd_base::Problems;
use agentd_core::runtime::ItemFailure;
use serde::{Deserialize, Serialize};

use super::origin::Origin;
use super::rounds::Round;
use super::session::{SessionId, SessionStatus};
use super::untrusted::Sources;
use crate::agents::{Agent, AgentId};

/// What was said before, oldest first.
#[derive(Debug, Clone, PartialEq)]
pub enum HistoryMessage {
    User(String),
    /// A message that an unknown sender wrote; it is marked in the prompt.
    Untrusted {
        text: String,
        source: String,
    },
    Assistant(String),
    /// An answer for which tools were used.
    Worked(Vec<Round>),
    /// Becomes part of the system prompt.
    Note(String),
}

/// An entry of a turn's history.
#[derive(Debug, Clone, PartialEq)]
pub struct HistoryEntry {
    /// What the [`TurnSink`](super::TurnSink) calls it. Entries without a key follow those with one.
    pub key: Option<u64>,
    pub message: HistoryMessage,
}

impl From<HistoryMessage> for HistoryEntry {
    fn from(message: HistoryMessage) -> Self {
        Self { key: None, message }
    }
}

/// What was said before the history and is in no summary yet: the [`TurnSink`](super::TurnSink) is asked for it.
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
    pub history: Vec<HistoryEntry>,
    /// Where untrusted text comes from that stands in the history or in the summary besides what is marked as such.
    pub sources: Sources,
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
    /// The [`TurnSink`](super::TurnSink) that keeps the reply.
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
            history: history.into_iter().map(HistoryEntry::from).collect(),
            sources: Sources::default(),
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

    /// The same, asked with an API key if it was one.
    #[must_use]
    pub fn asked_with(mut self, key_id: Option<String>) -> Self {
        self.origin.key_id = key_id;
        self
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
    /// For somebody whom the owner does not know: tools that read the workspace, none that show what the owner
    /// said, planned or has elsewhere, and those that are named here; of these, those that act ask first.
    WorkspaceAnd(Arc<[String]>),
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

/// Validates the names of tools that an owner gives to turns which something outside causes, not whether there are such
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

/// Model, tokens, cost and duration of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnUsage {
    pub agent_id: AgentId,
    pub provider: String,
    pub model: String,
    /// Tokens of all its model calls, auxiliary ones included.
    pub input_tokens: u64,
    pub output_tokens: u64,
    /// `None` where the price of a call is not known.
    pub cost_micro_usd: Option<u64>,
    /// Time from its start to its end, waiting for approvals included; `None` while it runs.
    pub duration_ms: Option<u64>,
}

impl TurnUsage {
    /// The cost in US dollars; `None` where the price of a call is not known.
    #[must_use]
    pub fn cost_estimate(&self) -> Option<f64> {
        self.cost_micro_usd.map(dollars)
    }
}

#[allow(clippy::cast_precision_loss, reason = "what a turn costs is far below what a float holds exactly")]
pub(crate) fn dollars(micro_usd: u64) -> f64 {
    micro_usd as f64 / 1e6
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

/// A session that ended without an answer, as its `error` event says.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the model gave no answer: {message}")]
pub struct NoAnswer {
    pub code: String,
    pub message: String,
}

impl<E> From<NoAnswer> for ItemFailure<E> {
    fn from(error: NoAnswer) -> Self {
        Self::new(error.to_string())
    }
}
