//! Memory recall for a turn.
//!
//! Recall runs concurrently with the transaction that stores the turn and has [`RECALL_TIMEOUT`] to finish. If it fails
//! or takes longer, the turn continues without memories. Recalled memories are stored with a parked turn, so that they
//! remain available when it resumes.

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

/// Maximum time that a turn waits for recalled memories.
const RECALL_TIMEOUT: Duration = Duration::from_millis(500);
/// Number of newest messages that recall treats as known, because the prompt already contains them.
const KNOWN_MESSAGES: usize = 40;
const KNOWN_CHARACTERS: usize = 2_000;
/// Source name of memories derived from untrusted text.
const UNTRUSTED_MEMORY: &str = "memories of untrusted text";

pub(super) struct TurnRecall {
    /// Query for the agent's memory; `None` disables recall.
    question: Option<String>,
    /// Start of the recall in progress.
    began_at: Option<Timestamp>,
    recalled: Option<Recalled>,
}

impl TurnRecall {
    pub(super) fn new(question: Option<String>) -> Self {
        Self { question, began_at: None, recalled: None }
    }

    /// Restores the recalled memories of a parked turn.
    pub(super) fn resumed(recalled: Option<Recalled>) -> Self {
        Self { question: None, began_at: None, recalled }
    }

    pub(super) fn recalled(&self) -> Option<&Recalled> {
        self.recalled.as_ref()
    }

    /// Starts recall, if requested.
    pub(super) fn begin(&mut self, context: &TurnContext, prompt: &Prompt) -> Option<Recalling> {
        let (question, recall) = (self.question.clone()?, context.engine.recall()?);
        let messages = prompt.messages.iter().rev();
        let known = messages.filter_map(|message| match message {
            ModelMessage::User { content } | ModelMessage::Assistant { content, .. } => Some(content),
            ModelMessage::Tool { .. } => None,
        });
        // The newest message is the question itself.
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
                tokio::time::timeout(RECALL_TIMEOUT, recalling).await.unwrap_or_else(|_| {
                    tracing::info!(%session, "recall timed out; continuing without memories");
                    None
                })
            }
            .boxed(),
        )
    }

    /// Adds recalled memories to the prompt and records the duration of the recall.
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

    /// Notifies the memory that the turn is stored.
    pub(super) fn note_stored(&self, context: &TurnContext) {
        if let (Some(recalled), Some(recall)) = (&self.recalled, context.engine.recall()) {
            recall.recalled(recalled_turn(context, recalled));
        }
    }

    /// Notifies the memory that the turn has ended with an answer.
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
