//! What a turn asks the model besides the reply itself: a plan before it acts, a second look at an
//! answer, and summaries of what no longer fits (`compaction`). Each is one call without tools, counted
//! like any. A failed one is passed over: the reply matters more.

use std::sync::Arc;

use agentd_core::settings::Planning;
use agentd_llm::{ModelError, ModelErrorCode, ModelMessage, ToolCall};
use serde_json::json;

use super::{GivenUp, Turn, stopped};
use crate::engine::call::{Call, CallEvent};
use crate::engine::live::Stop;
use crate::engine::model::{CallProgress, Outcome, PLAN, Purpose, Round, SessionEvent};
use crate::engine::prompt::Prompt;

/// More of such an answer is not read.
const MAX_CHARACTERS: usize = 16_000;
/// A request of so many characters, or with so many sentences, is worth a plan.
const LONG_REQUEST_CHARACTERS: usize = 240;
const MANY_SENTENCES: usize = 3;
const FINE: &str = "FINE";
/// About six short steps.
const PLAN_TOKENS: u32 = 400;

const PLANNING: &str = "Before you act, write down how you will go about the last request: a numbered list of at most \
    six short steps. Write the steps alone.";
const REFLECTION: &str = "Look over your last answer: is it right, complete, and in keeping with what the tools said? \
    If it is, answer with the single word FINE. If not, write the answer as it should be, and nothing else.";

/// Why there is no answer.
pub(crate) enum Unanswered {
    Stopped(Stop),
    Failed(ModelError),
}

impl Turn {
    /// One call without tools, for an answer of at most about so many tokens.
    pub(crate) async fn ask_auxiliary(
        &mut self,
        prompt: Prompt,
        most: Option<u32>,
        purpose: Purpose,
    ) -> Result<String, Unanswered> {
        let mut options = self.options.clone().with_most_output(&self.session.provider, most);
        options.tools = Arc::default();
        options.is_conversation = false;
        options.noted.purpose = purpose;
        let options = self.reserve_for(options, &prompt).await.map_err(Unanswered::Failed)?;
        self.note_call(purpose);
        let mut call = Call::new(Arc::clone(&self.backend), options, prompt).allowing_silence(true);
        let mut stops = self.running.live.stops();
        let mut text = String::new();
        let ended = loop {
            let event = tokio::select! {
                biased;
                stop = stopped(&mut stops) => break Err(Unanswered::Stopped(stop)),
                event = call.next() => event,
            };
            match event {
                Some(CallEvent::Text(piece)) if text.len() < MAX_CHARACTERS => text.push_str(&piece),
                // Nothing of what follows would be used.
                Some(CallEvent::Text(_)) => break Ok(()),
                Some(CallEvent::ToolCall(_)) => {}
                Some(CallEvent::End(Ok(_))) => break Ok(()),
                Some(CallEvent::End(Err(error))) => break Err(Unanswered::Failed(error)),
                None => {
                    let error = ModelError::new(ModelErrorCode::ProviderUnavailable, "the answer broke off");
                    break Err(Unanswered::Failed(error));
                }
            }
        };
        let usages = call.into_parts().1;
        self.running.live.note_call(None);
        self.count(&usages);
        self.unrecorded.extend(usages);
        ended.map(|()| text.trim().replace('\0', "\u{fffd}"))
    }

    pub(crate) fn wants_plan(&self) -> bool {
        let is_worth_it = match self.engine.settings.strategy().planning {
            Planning::Off => false,
            Planning::Always => true,
            Planning::Auto => self.prompt.last_request().is_some_and(is_worth_a_plan),
        };
        is_worth_it && !self.offer.is_empty()
    }

    /// Lets the model plan, where that is wanted; answers how the turn is to end if it is.
    pub(crate) async fn plan_ahead(&mut self) -> Result<Option<Stop>, GivenUp> {
        if !self.wants_plan() {
            return Ok(None);
        }
        let names: Vec<&str> = self.offer.iter().map(|tool| tool.description().name.as_str()).collect();
        let mut prompt = self.prompt.clone();
        prompt.add_note(&format!("{PLANNING} The tools that you can use: {}.", names.join(", ")));
        let plan = match self.ask_auxiliary(prompt.without_calls(), Some(PLAN_TOKENS), Purpose::Plan).await {
            Ok(plan) if !plan.is_empty() => plan,
            Ok(_) => return Ok(None),
            Err(Unanswered::Stopped(stop)) => return Ok(Some(stop)),
            Err(Unanswered::Failed(error)) => {
                tracing::debug!(session = %self.session.id, %error, "a turn goes on without a plan");
                return Ok(None);
            }
        };
        self.prompt.add_note(&format!("Your plan:\n{plan}"));
        let progress = CallProgress {
            has_begun: true,
            outcome: Some(Outcome::done(json!({ "text": plan }))),
            ..CallProgress::new(PLAN.to_owned(), ToolCall::new(PLAN, PLAN, json!({})))
        };
        let (first, second) = (self.log.number(), self.log.number());
        self.log.waiting.push(SessionEvent::tool_use(first, 0, &progress));
        if let Some(outcome) = &progress.outcome {
            self.log.waiting.push(SessionEvent::tool_result(second, 0, &progress, outcome));
        }
        self.rounds.push(Round { text: String::new(), calls: vec![progress.record()] });
        self.store_waiting().await?;
        Ok(None)
    }

    /// Lets the model look over an answer for which it used tools; answers what it should have
    /// been, where that is something else.
    pub(crate) async fn reflect(&mut self) -> Result<Option<String>, Stop> {
        let has_acted = self.rounds.iter().flat_map(|round| &round.calls).any(|call| call.tool != PLAN);
        if !has_acted || !self.engine.settings.strategy().reflection || self.log.round_text.trim().is_empty() {
            return Ok(None);
        }
        let mut prompt = self.prompt.clone().without_calls();
        prompt.messages.push(ModelMessage::Assistant { content: self.log.round_text.clone(), tool_calls: Vec::new() });
        prompt.messages.push(ModelMessage::User { content: REFLECTION.to_owned() });
        match self.ask_auxiliary(prompt, None, Purpose::Reflection).await {
            Ok(answer) if answer.is_empty() || answer.trim_end_matches('.').eq_ignore_ascii_case(FINE) => Ok(None),
            Ok(answer) => Ok(Some(answer)),
            Err(Unanswered::Stopped(stop)) => Err(stop),
            Err(Unanswered::Failed(error)) => {
                tracing::debug!(session = %self.session.id, %error, "an answer is given without a second look");
                Ok(None)
            }
        }
    }
}

/// Quotes, tables and names of files are material and ask for nothing.
fn is_worth_a_plan(request: &str) -> bool {
    let is_own = |line: &&str| !line.trim_start().starts_with(['>', '[']) && !line.contains("| ");
    let own: Vec<&str> = request.lines().filter(is_own).collect();
    let sentences = own.iter().flat_map(|line| line.split(['.', '!', '?', ';']));
    let sentences = sentences.filter(|part| part.trim().len() > 3).count();
    let characters: usize = own.iter().map(|line| line.chars().count()).sum();
    characters > LONG_REQUEST_CHARACTERS || sentences >= MANY_SENTENCES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_requests_are_worth_a_plan() {
        assert!(!is_worth_a_plan("What is the capital of France?"));
        assert!(!is_worth_a_plan("Read notes.txt, please."));
        assert!(is_worth_a_plan("Read all notes. Find the dates. Write them into a table."));
        assert!(is_worth_a_plan(&"and then ".repeat(40)));
        let quote = "> A long message. It has sentences. And more.\n".repeat(20);
        assert!(!is_worth_a_plan(&format!("[In reply to a message from Bob]\n{quote}\ntranslate this")));
        assert!(!is_worth_a_plan(
            "Sum it up.\n| a | b |\nA long cell. | 1.5; yes. | Three four.\n[a file: \"a.b.pdf\"]"
        ));
    }
}
