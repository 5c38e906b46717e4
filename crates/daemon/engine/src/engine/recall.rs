//! What agents remember, as the engine asks for it.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};

use super::model::SessionId;
use crate::agents::{Agent, AgentId};

/// What something is recalled for.
#[derive(Debug, Clone)]
pub struct RecallRequest {
    pub agent: Arc<Agent>,
    /// What is to be answered.
    pub question: String,
    /// What the model reads of the conversation anyway, or the beginning of it.
    pub known: Vec<String>,
    /// What may be recalled takes about so many tokens at most.
    pub max_tokens: u64,
}

/// What an agent remembers about a question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recalled {
    /// What the model is shown.
    pub note: String,
    pub question: String,
    /// The ids of what is in it, the most relevant first.
    pub memories: Vec<String>,
    /// Some of it was made from text that others wrote.
    #[serde(default)]
    pub is_untrusted: bool,
}

/// A turn for which something was recalled.
#[derive(Debug, Clone)]
pub struct RecalledTurn {
    pub agent_id: AgentId,
    pub session_id: SessionId,
    pub memories: Vec<String>,
}

/// A turn for which something was recalled, at its end.
#[derive(Debug, Clone)]
pub struct AnsweredTurn {
    pub recalled: RecalledTurn,
    pub question: String,
    pub answer: String,
}

/// What agents remember. `recalled` and `answered` stand in the turn's way, so they only take note.
pub trait Recall: Send + Sync {
    /// What the agent remembers about the question; `None` when that is nothing. May be dropped.
    fn recall(&self, request: RecallRequest) -> BoxFuture<'static, Option<Recalled>>;

    /// The turn is stored, and its model is shown what was recalled.
    fn recalled(&self, turn: RecalledTurn);

    /// The turn is over, with an answer.
    fn answered(&self, turn: AnsweredTurn);
}

pub(super) type Recalling = BoxFuture<'static, Option<Recalled>>;
