//! Interface between the engine and the memory of agents.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};

use super::model::SessionId;
use crate::agents::{Agent, AgentId};

/// Query for an agent's memory.
#[derive(Debug, Clone)]
pub struct RecallRequest {
    pub agent: Arc<Agent>,
    /// The message to be answered.
    pub question: String,
    /// Messages that are already in the prompt, possibly truncated.
    pub known: Vec<String>,
    /// Maximum size of the recalled note in tokens.
    pub max_tokens: u64,
}

/// Memories of an agent that are relevant to a question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recalled {
    /// Text that is added to the prompt.
    pub note: String,
    pub question: String,
    /// Ids of the included memories, most relevant first.
    pub memories: Vec<String>,
    /// Whether some of it derives from untrusted text.
    #[serde(default)]
    pub is_untrusted: bool,
}

/// A stored turn for which memories were recalled.
#[derive(Debug, Clone)]
pub struct RecalledTurn {
    pub agent_id: AgentId,
    pub session_id: SessionId,
    pub memories: Vec<String>,
}

/// A completed turn for which memories were recalled.
#[derive(Debug, Clone)]
pub struct AnsweredTurn {
    pub recalled: RecalledTurn,
    pub question: String,
    pub answer: String,
}

/// Memory of agents. `recalled` and `answered` run on the turn's path, so implementations must not block.
pub trait Recall: Send + Sync {
    /// Recalls memories that are relevant to the question; `None` if there are none. The future may be dropped.
    fn recall(&self, request: RecallRequest) -> BoxFuture<'static, Option<Recalled>>;

    /// Called when the turn is stored and its prompt contains the memories.
    fn recalled(&self, turn: RecalledTurn);

    /// Called when the turn has ended with an answer.
    fn answered(&self, turn: AnsweredTurn);
}

pub(super) type Recalling = BoxFuture<'static, Option<Recalled>>;
