//! Auxiliary calls of the model, besides those for the reply: a plan before it acts, a review of an answer, and
//! summaries of what no longer fits (`conversation`). Each is one call without tools, counted like any other. One that
//! fails is skipped: the reply matters more.

use std::pin::pin;
use std::sync::Arc;

use agentd_core::settings::Planning;
use agentd_llm::{ModelError, ModelErrorCode, ModelMessage};

use super::context::TurnContext;
use super::log::Log;
use super::usage::UsageLedger;
use crate::engine::call::CallEvent;
use crate::engine::live::Stop;
use crate::engine::model::Purpose;
use crate::engine::prompt::Prompt;
use crate::tools::Offer;

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
pub(super) enum Unanswered {
    Stopped(Stop),
    Failed(ModelError),
}

/// One call without tools, for an answer of at most about `most` tokens.
pub(super) async fn ask(
    context: &TurnContext,
    usage: &mut UsageLedger,
    prompt: Prompt,
    most: Option<u32>,
    purpose: Purpose,
) -> Result<String, Unanswered> {
    let mut options = context.model.options().clone().with_most_output(&context.session.provider, most);
    options.tools = Arc::default();
    options.is_conversation = false;
    options.noted.purpose = purpose;
    let options = usage.reserve(context, options, &prompt).await.map_err(Unanswered::Failed)?;
    context.note_call(Some(purpose));
    let mut call = context.model.call(options, prompt).allowing_silence(true);
    let mut stopped = pin!(context.stopped());
    let mut text = String::new();
    let ended = loop {
        let event = tokio::select! {
            biased;
            stop = &mut stopped => break Err(Unanswered::Stopped(stop)),
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
    context.note_call(None);
    usage.add(context, call.into_parts().1);
    ended.map(|()| text.trim().replace('\0', "\u{fffd}"))
}

pub(super) fn wants_plan(context: &TurnContext, prompt: &Prompt, offer: &Offer) -> bool {
    let is_worth_it = match context.engine.settings.strategy().planning {
        Planning::Off => false,
        Planning::Always => true,
        Planning::Auto => prompt.last_request().is_some_and(is_worth_a_plan),
    };
    is_worth_it && !offer.is_empty()
}

/// Lets the model plan, where that is wanted.
pub(super) async fn plan(
    context: &TurnContext,
    usage: &mut UsageLedger,
    prompt: &Prompt,
    offer: &Offer,
) -> Result<Option<String>, Stop> {
    if !wants_plan(context, prompt, offer) {
        return Ok(None);
    }
    let names: Vec<&str> = offer.iter().map(|tool| tool.description().name.as_str()).collect();
    let mut prompt = prompt.clone();
    prompt.add_note(&format!("{PLANNING} The tools that you can use: {}.", names.join(", ")));
    match ask(context, usage, prompt.without_calls(), Some(PLAN_TOKENS), Purpose::Plan).await {
        Ok(plan) => Ok(Some(plan).filter(|plan| !plan.is_empty())),
        Err(Unanswered::Stopped(stop)) => Err(stop),
        Err(Unanswered::Failed(error)) => {
            tracing::debug!(session = %context.session.id, %error, "a turn goes on without a plan");
            Ok(None)
        }
    }
}

/// Lets the model review an answer for which it used tools, where that is wanted; answers what it should have been if
/// that is something else.
pub(super) async fn reflect(
    context: &TurnContext,
    usage: &mut UsageLedger,
    prompt: &Prompt,
    log: &Log,
) -> Result<Option<String>, Stop> {
    let is_wanted = context.engine.settings.strategy().reflection && log.tool_rounds() > 0;
    if !is_wanted || log.round_text().trim().is_empty() {
        return Ok(None);
    }
    let mut prompt = prompt.clone().without_calls();
    let answer = log.round_text().to_owned();
    prompt.messages.push(ModelMessage::Assistant { content: answer, tool_calls: Vec::new() });
    prompt.messages.push(ModelMessage::User { content: REFLECTION.to_owned() });
    match ask(context, usage, prompt, None, Purpose::Reflection).await {
        Ok(answer) if answer.is_empty() || answer.trim_end_matches('.').eq_ignore_ascii_case(FINE) => Ok(None),
        Ok(answer) => Ok(Some(answer)),
        Err(Unanswered::Stopped(stop)) => Err(stop),
        Err(Unanswered::Failed(error)) => {
            tracing::debug!(session = %context.session.id, %error, "an answer is given without a second look");
            Ok(None)
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
