//! What a turn is shown of what its agent remembers, and what becomes of that.
//!
//! Recalling runs beside the transaction that stores the turn and has [`LIMIT`] for it; a turn never
//! waits longer, and goes without when it fails. What is recalled is kept with the turn, so that a turn
//! which waited for an approval still knows it.

use std::sync::Arc;
use std::time::Duration;

use agentd_llm::ModelMessage;
use futures_util::FutureExt;

use super::Turn;
use crate::engine::model::{Session, SessionStatus, Sources, Step};
use crate::engine::recall::{AnsweredTurn, RecallRequest, Recalled, RecalledTurn, Recalling};
use crate::engine::state::EngineState;

/// A turn waits for what it recalls no longer than this.
const LIMIT: Duration = Duration::from_millis(500);
/// What is recalled takes no more tokens than this, nor more than an eighth of the model's window.
pub(super) const MAX_TOKENS: u64 = 700;
/// Newest messages that are looked at for what the model reads anyway.
const KNOWN_MESSAGES: usize = 40;
const KNOWN_CHARACTERS: usize = 2_000;
/// Names recalled text that others wrote.
const UNTRUSTED_MEMORY: &str = "memories of untrusted text";

impl EngineState {
    fn recalled_turn(session: &Session, recalled: &Recalled) -> RecalledTurn {
        RecalledTurn {
            agent_id: session.agent_id.clone(),
            session_id: session.id.clone(),
            memories: recalled.memories.clone(),
        }
    }

    /// Hears of the end of a turn for which something was recalled.
    pub(crate) fn answered(&self, session: &Session, status: SessionStatus, recalled: Option<Recalled>, answer: &str) {
        let (Some(recalled), Some(recall), SessionStatus::Done) = (recalled, self.recall(), status) else { return };
        let turn = Self::recalled_turn(session, &recalled);
        recall.answered(AnsweredTurn { recalled: turn, question: recalled.question, answer: answer.to_owned() });
    }
}

impl Turn {
    /// Begins to recall, where that is wanted.
    pub(crate) fn begin_recall(&mut self) -> Option<Recalling> {
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
        self.recall_began = Some(self.engine.context.clock.now());
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
    pub(crate) fn most_recalled(&self) -> u64 {
        self.window.map_or(MAX_TOKENS, |window| (window / 8).min(MAX_TOKENS))
    }

    /// Notes how long recalling took, once.
    fn note_recall_over(&mut self, memories: &[String]) {
        let Some(began_at) = self.recall_began.take() else { return };
        let (id, times) = (self.engine.context.ids.next_span(), (began_at, self.engine.context.clock.now()));
        self.steps.push(Step::recall(id, times, memories));
        self.engine.record_recall(&self.session, id, times, memories.len());
    }

    /// Takes what was recalled into the prompt. What becomes a summary first must not be left out before.
    pub(crate) fn take_recalled(&mut self, recalled: Option<Recalled>, is_prepared: bool) {
        self.note_recall_over(recalled.as_ref().map_or(&[], |recalled| recalled.memories.as_slice()));
        let Some(recalled) = recalled else { return };
        self.prompt.set_recalled(recalled.note.clone());
        if recalled.is_untrusted {
            self.prompt.add_sources(&Sources::of(UNTRUSTED_MEMORY));
        }
        self.recalled = Some(recalled);
        if is_prepared || !self.must_compact() {
            self.fit_prompt();
        }
    }

    /// Tells that the turn is stored.
    pub(crate) fn note_recalled(&self) {
        if let (Some(recalled), Some(recall)) = (&self.recalled, self.engine.recall()) {
            recall.recalled(EngineState::recalled_turn(&self.session, recalled));
        }
    }
}
