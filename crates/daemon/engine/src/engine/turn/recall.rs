//! What is recalled for a turn from the memory of its agent.
//!
//! Recalling runs concurrently with the transaction that stores the turn and has [`LIMIT`] for it; a turn never
//! waits longer, and does without when it fails. What is recalled is kept with the turn, so that a turn
//! which waited for an approval still knows it.

use std::sync::Arc;
use std::time::Duration;

use agentd_base::Timestamp;
use agentd_llm::ModelMessage;
use futures_util::FutureExt;

use super::context::TurnContext;
use super::usage::UsageLedger;
use crate::engine::model::{SessionStatus, Sources, Step};
use crate::engine::prompt::Prompt;
use crate::engine::recall::{AnsweredTurn, RecallRequest, Recalled, RecalledTurn, Recalling};

/// A turn waits for what it recalls no longer than this.
const LIMIT: Duration = Duration::from_millis(500);
/// Newest messages that are looked at for what the model reads anyway.
const KNOWN_MESSAGES: usize = 40;
const KNOWN_CHARACTERS: usize = 2_000;
/// Names recalled text that others wrote.
const UNTRUSTED_MEMORY: &str = "memories of untrusted text";

pub(super) struct TurnRecall {
    /// What the agent's memory is asked; `None`: nothing.
    question: Option<String>,
    /// While it is asked.
    began_at: Option<Timestamp>,
    recalled: Option<Recalled>,
}

impl TurnRecall {
    pub(super) fn new(question: Option<String>) -> Self {
        Self { question, began_at: None, recalled: None }
    }

    /// What a turn knew that was parked.
    pub(super) fn resumed(recalled: Option<Recalled>) -> Self {
        Self { question: None, began_at: None, recalled }
    }

    pub(super) fn recalled(&self) -> Option<&Recalled> {
        self.recalled.as_ref()
    }

    /// Begins to recall, where that is wanted.
    pub(super) fn begin(&mut self, context: &TurnContext, prompt: &Prompt) -> Option<Recalling> {
        let (question, recall) = (self.question.clone()?, context.engine.recall()?);
        let messages = prompt.messages.iter().rev();
        let known = messages.filter_map(|message| match message {
            ModelMessage::User { content } | ModelMessage::Assistant { content, .. } => Some(content),
            ModelMessage::Tool { .. } => None,
        });
        // The first of them is the question.
        let known = known.skip(1).take(KNOWN_MESSAGES).map(|content| content.chars().take(KNOWN_CHARACTERS).collect());
        let request = RecallRequest {
            agent: Arc::clone(&context.agent),
            question,
            known: known.collect(),
            max_tokens: context.model.max_recalled_tokens(),
        };
        self.began_at = Some(context.engine.context.clock.now());
        let recalling = recall.recall(request);
        let session = context.session.id.clone();
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

    /// Takes what was recalled into the prompt, and notes how long recalling took.
    pub(super) fn take(
        &mut self,
        context: &TurnContext,
        prompt: &mut Prompt,
        usage: &mut UsageLedger,
        recalled: Option<Recalled>,
    ) {
        let memories = recalled.as_ref().map_or(&[][..], |recalled| &recalled.memories);
        if let Some(began_at) = self.began_at.take() {
            let (id, times) = (context.engine.context.ids.next_span(), (began_at, context.engine.context.clock.now()));
            usage.add_step(Step::recall(id, times, memories));
            context.engine.record_recall(&context.session, id, times, memories.len());
        }
        let Some(recalled) = recalled else { return };
        prompt.set_recalled(recalled.note.clone());
        if recalled.is_untrusted {
            prompt.add_sources(&Sources::of(UNTRUSTED_MEMORY));
        }
        self.recalled = Some(recalled);
    }

    /// Tells the memory that the turn is stored.
    pub(super) fn note_stored(&self, context: &TurnContext) {
        if let (Some(recalled), Some(recall)) = (&self.recalled, context.engine.recall()) {
            recall.recalled(recalled_turn(context, recalled));
        }
    }

    /// Tells the memory that the turn has ended.
    pub(super) fn note_answered(self, context: &TurnContext, status: SessionStatus, answer: String) {
        let (Some(recalled), Some(recall), SessionStatus::Done) = (self.recalled, context.engine.recall(), status)
        else {
            return;
        };
        let turn = recalled_turn(context, &recalled);
        recall.answered(AnsweredTurn { recalled: turn, question: recalled.question, answer });
    }
}

fn recalled_turn(context: &TurnContext, recalled: &Recalled) -> RecalledTurn {
    RecalledTurn {
        agent_id: context.session.agent_id.clone(),
        session_id: context.session.id.clone(),
        memories: recalled.memories.clone(),
    }
}
