//! What a turn is shown of what its agent remembers, and what becomes of that.
//!
//! Recalling runs beside the transaction that stores the turn and has [`LIMIT`] for it; a turn never
//! waits longer, and goes without when it fails. What is recalled is kept with the turn, so that a turn
//! which waited for an approval still knows it.

use std::sync::Arc;
use std::time::Duration;

use agentd_llm::ModelMessage;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};

use super::model::{Session, SessionId, SessionStatus};
use super::service::Inner;
use super::turn::Turn;
use crate::agents::{Agent, AgentId};

/// A turn waits for what it recalls no longer than this.
const LIMIT: Duration = Duration::from_millis(500);
/// What is recalled takes no more tokens than this, nor more than an eighth of the model's window.
const MAX_TOKENS: u64 = 700;
/// Newest messages that are looked at for what the model reads anyway.
const KNOWN_MESSAGES: usize = 40;
const KNOWN_CHARACTERS: usize = 2_000;

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

impl Inner {
    fn recalled_turn(session: &Session, recalled: &Recalled) -> RecalledTurn {
        RecalledTurn {
            agent_id: session.agent_id.clone(),
            session_id: session.id.clone(),
            memories: recalled.memories.clone(),
        }
    }

    /// Hears of the end of a turn for which something was recalled.
    pub(super) fn answered(&self, session: &Session, status: SessionStatus, recalled: Option<Recalled>, answer: &str) {
        let (Some(recalled), Some(recall), SessionStatus::Done) = (recalled, self.recall(), status) else { return };
        let turn = Self::recalled_turn(session, &recalled);
        recall.answered(AnsweredTurn { recalled: turn, question: recalled.question, answer: answer.to_owned() });
    }
}

impl Turn {
    /// Begins to recall, where that is wanted.
    pub(super) fn begin_recall(&self) -> Option<Recalling> {
        let (question, recall) = (self.question.clone()?, self.engine.recall()?);
        let messages = self.prompt.messages.iter().rev();
        let known = messages.filter_map(|message| match message {
            ModelMessage::User { content } | ModelMessage::Assistant { content, .. } => Some(content),
            ModelMessage::Tool { .. } => None,
        });
        // The first of them is the question.
        let known = known.skip(1).take(KNOWN_MESSAGES).map(|content| content.chars().take(KNOWN_CHARACTERS).collect());
        let request = RecallRequest {
            agent: Arc::clone(&self.agent),
            question,
            known: known.collect(),
            max_tokens: self.most_recalled(),
        };
        let recalling = recall.recall(request);
        let session = self.session.id.clone();
        Some(
            async move {
                tokio::time::timeout(LIMIT, recalling).await.unwrap_or_else(|_| {
                    tracing::info!(%session, "a turn goes on without what its agent remembers: recalling took too long");
                    None
                })
            }
            .boxed(),
        )
    }

    /// How many tokens what is recalled may have.
    pub(super) fn most_recalled(&self) -> u64 {
        self.window.map_or(MAX_TOKENS, |window| (window / 8).min(MAX_TOKENS))
    }

    /// Takes what was recalled into the prompt. What becomes a summary first must not be left out before.
    pub(super) fn take_recalled(&mut self, recalled: Option<Recalled>, is_prepared: bool) {
        let Some(recalled) = recalled else { return };
        self.prompt.set_recalled(recalled.note.clone());
        self.recalled = Some(recalled);
        if is_prepared || !self.must_compact() {
            self.fit_prompt();
        }
    }

    /// Tells that the turn is stored.
    pub(super) fn note_recalled(&self) {
        if let (Some(recalled), Some(recall)) = (&self.recalled, self.engine.recall()) {
            recall.recalled(Inner::recalled_turn(&self.session, recalled));
        }
    }
}
