//! What a turn asks the model besides the reply itself: a plan before it acts, a second look at an
//! answer, and a summary of what no longer fits. Each is one call without tools, counted like any.
//! A failed one is passed over: the reply matters more.

use std::sync::Arc;

use agentd_llm::{ModelError, ModelErrorCode, ModelMessage, ToolCall};
use serde_json::json;

use super::call::{Call, CallEvent};
use super::context::{Prompt, estimate_tokens};
use super::live::Stop;
use super::model::SessionEvent;
use super::rounds::{CallProgress, CallStatus, Outcome, Round};
use super::turn::{GivenUp, Turn, stopped};
use crate::settings::Planning;

/// The name under which a plan stands among the steps of a reply.
pub(super) const PLAN: &str = "plan";
/// More of such an answer is not read.
const MAX_CHARACTERS: usize = 16_000;
/// A request of so many characters, or with so many sentences, is worth a plan.
const LONG_REQUEST_CHARACTERS: usize = 240;
const MANY_SENTENCES: usize = 3;
const FINE: &str = "FINE";

const PLANNING: &str = "Before you act, write down how you will go about the last request: a numbered list of at most \
    six short steps. Write the steps alone.";
const REFLECTION: &str = "Look over your last answer: is it right, complete, and in keeping with what the tools said? \
    If it is, answer with the single word FINE. If not, write the answer as it should be, and nothing else.";
const SUMMARY: &str = "You keep the minutes of a conversation between a user and an assistant. Write down what matters \
    for going on with it: facts, names, numbers, wishes, decisions, what was done and what is still open. Use at most \
    300 words. Write the minutes alone.";

/// Why there is no answer.
pub(super) enum Unanswered {
    Stopped(Stop),
    Failed(ModelError),
}

impl Turn {
    /// One call without tools.
    async fn ask_aside(&mut self, prompt: Prompt) -> Result<String, Unanswered> {
        let mut options = self.options.clone();
        options.tools = Arc::default();
        let mut call = Call::new(Arc::clone(&self.backend), options, prompt);
        let mut stops = self.place.live.stops();
        let mut text = String::new();
        let ended = loop {
            let event = tokio::select! {
                biased;
                stop = stopped(&mut stops) => break Err(Unanswered::Stopped(stop)),
                event = call.next() => event,
            };
            match event {
                Some(CallEvent::Text(piece)) if text.len() < MAX_CHARACTERS => text.push_str(&piece),
                Some(CallEvent::Text(_) | CallEvent::ToolCall(_)) => {}
                Some(CallEvent::End(Ok(_))) => break Ok(()),
                Some(CallEvent::End(Err(error))) => break Err(Unanswered::Failed(error)),
                None => {
                    let error = ModelError::new(ModelErrorCode::ProviderUnavailable, "the answer broke off");
                    break Err(Unanswered::Failed(error));
                }
            }
        };
        let usages = call.into_parts().1;
        self.count(&usages);
        self.unrecorded.extend(usages);
        ended.map(|()| text.trim().replace('\0', "\u{fffd}"))
    }

    pub(super) fn wants_plan(&self) -> bool {
        let is_worth_it = match self.engine.settings.strategy().planning {
            Planning::Off => false,
            Planning::Always => true,
            Planning::Auto => self.prompt.last_request().is_some_and(is_worth_a_plan),
        };
        is_worth_it && !self.offer.is_empty()
    }

    /// Lets the model plan, where that is wanted; answers how the turn is to end if it is.
    pub(super) async fn plan_ahead(&mut self) -> Result<Option<Stop>, GivenUp> {
        if !self.wants_plan() {
            return Ok(None);
        }
        let names: Vec<&str> = self.offer.iter().map(|tool| tool.description().name.as_str()).collect();
        let mut prompt = self.prompt.clone();
        prompt.add_note(&format!("{PLANNING} The tools that you can use: {}.", names.join(", ")));
        let plan = match self.ask_aside(prompt.without_calls()).await {
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
            id: PLAN.to_owned(),
            call: ToolCall::new(PLAN, PLAN, json!({})),
            approval_id: None,
            outcome: Some(Outcome { output: json!({ "text": plan }), status: CallStatus::Done }),
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
    pub(super) async fn reflect(&mut self) -> Result<Option<String>, Stop> {
        let has_acted = self.rounds.iter().flat_map(|round| &round.calls).any(|call| call.tool != PLAN);
        if !has_acted || !self.engine.settings.strategy().reflection || self.log.round_text.trim().is_empty() {
            return Ok(None);
        }
        let mut prompt = self.prompt.clone().without_calls();
        prompt.messages.push(ModelMessage::Assistant { content: self.log.round_text.clone(), tool_calls: Vec::new() });
        prompt.messages.push(ModelMessage::User { content: REFLECTION.to_owned() });
        match self.ask_aside(prompt).await {
            Ok(answer) if answer.is_empty() || answer.trim_end_matches('.').eq_ignore_ascii_case(FINE) => Ok(None),
            Ok(answer) => Ok(Some(answer)),
            Err(Unanswered::Stopped(stop)) => Err(stop),
            Err(Unanswered::Failed(error)) => {
                tracing::debug!(session = %self.session.id, %error, "an answer is given without a second look");
                Ok(None)
            }
        }
    }

    /// How many tokens the prompt may have before its oldest part becomes a summary.
    fn compaction_limit(&self) -> Option<u64> {
        let threshold = self.engine.settings.strategy().compaction_threshold;
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_precision_loss,
            clippy::cast_sign_loss,
            reason = "a share of a number of tokens"
        )]
        self.window.map(|window| (window as f64 * threshold) as u64)
    }

    pub(super) fn must_compact(&self) -> bool {
        self.compaction_limit().is_some_and(|limit| self.prompt.oldest_beyond(limit, limit / 2).is_some())
    }

    /// Puts a summary in the place of the oldest messages, before the window is full.
    pub(super) async fn compact(&mut self) -> Result<Option<Stop>, GivenUp> {
        let (Some(window), Some(limit)) = (self.window, self.compaction_limit()) else { return Ok(None) };
        let Some((old, through)) = self.prompt.oldest_beyond(limit, limit / 2) else { return Ok(None) };
        let mut minutes = in_words(&old, window / 2);
        if let Some(before) = self.prompt.summary() {
            minutes.insert_str(0, &format!("The minutes so far:\n{before}\n\nWhat came after:\n"));
        }
        let prompt = Prompt::alone(SUMMARY.to_owned(), minutes);
        match self.ask_aside(prompt).await {
            Ok(summary) if !summary.is_empty() => {
                self.prompt.put_summary(summary.clone(), through);
                let position = self.keys.get(through).copied();
                if let Err(error) = self.engine.keep_summary(&self.session, summary, position).await {
                    tracing::warn!(session = %self.session.id, %error, "a summary is made again next time");
                }
            }
            Ok(_) => {}
            Err(Unanswered::Stopped(stop)) => return Ok(Some(stop)),
            // The oldest messages are then left out without one.
            Err(Unanswered::Failed(error)) => {
                tracing::warn!(session = %self.session.id, %error, "a conversation could not be summarised");
            }
        }
        self.fit_prompt();
        Ok(None)
    }
}

fn is_worth_a_plan(request: &str) -> bool {
    let sentences = request.split(['.', '!', '?', '\n', ';']).filter(|part| part.trim().len() > 3).count();
    request.chars().count() > LONG_REQUEST_CHARACTERS || sentences >= MANY_SENTENCES
}

/// A conversation as text, the newest part of it where it is too long.
fn in_words(messages: &[ModelMessage], limit: u64) -> String {
    let mut lines = Vec::new();
    let mut tokens = 0;
    for message in messages.iter().rev() {
        let line = match message {
            ModelMessage::User { content } => format!("User: {content}"),
            ModelMessage::Assistant { content, tool_calls } => {
                let tools: Vec<&str> = tool_calls.iter().map(|call| call.name.as_str()).collect();
                let used = if tools.is_empty() { String::new() } else { format!(" [used {}]", tools.join(", ")) };
                format!("Assistant: {content}{used}")
            }
            ModelMessage::Tool { name, content, .. } => {
                format!("{name}: {}", content.chars().take(500).collect::<String>())
            }
        };
        tokens += estimate_tokens(&line);
        if tokens > limit {
            break;
        }
        lines.push(line);
    }
    lines.reverse();
    lines.join("\n\n")
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
    }

    #[test]
    fn minutes_keep_the_newest() {
        let message = |text: &str| ModelMessage::User { content: text.to_owned() };
        let text = in_words(&[message(&"old ".repeat(400)), message("new")], 50);
        assert_eq!(text, "User: new");
    }
}
