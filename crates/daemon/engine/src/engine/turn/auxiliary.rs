//! Auxiliary model calls: a plan before acting, a review of an answer, and summaries for compaction (`conversation`).
//! Each is one call without tools, counted like any other. A failed auxiliary call is skipped and the turn continues.

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

/// Maximum length of an auxiliary answer in bytes; the rest is discarded.
const MAX_ANSWER_BYTES: usize = 16_000;
/// A request with more characters than this, or with at least [`PLAN_MIN_SENTENCES`] sentences, is planned.
const PLAN_MIN_CHARACTERS: usize = 240;
const PLAN_MIN_SENTENCES: usize = 3;
const CONFIRMATION: &str = "FINE";
/// Output limit of a plan, enough for six short steps.
const PLAN_TOKENS: u32 = 400;

const PLAN_PROMPT: &str = "Before you act, write down how you will go about the last request: a numbered list of at most \
    six short steps. Write the steps alone.";
const REFLECTION_PROMPT: &str = "Look over your last answer: is it right, complete, and in keeping with what the tools said? \
    If it is, answer with the single word FINE. If not, write the answer as it should be, and nothing else.";

/// Reason why an auxiliary call has no answer.
pub(super) enum AuxiliaryError {
    Stopped(Stop),
    Failed(ModelError),
}

/// Makes one call without tools, with an output of at most about `max_tokens` tokens.
pub(super) async fn call(
    context: &TurnContext,
    usage: &mut UsageLedger,
    prompt: Prompt,
    max_tokens: Option<u32>,
    purpose: Purpose,
) -> Result<String, AuxiliaryError> {
    let mut options = context.model.options().clone().with_max_output(&context.session.provider, max_tokens);
    options.tools = Arc::default();
    options.is_conversation = false;
    options.recording.purpose = purpose;
    let options = usage.reserve(context, options, &prompt).await.map_err(AuxiliaryError::Failed)?;
    context.note_call(Some(purpose));
    let mut call = context.model.call(options, prompt).allowing_empty(true);
    let mut stopped = pin!(context.stopped());
    let mut text = String::new();
    let ended = loop {
        let event = tokio::select! {
            biased;
            stop = &mut stopped => break Err(AuxiliaryError::Stopped(stop)),
            event = call.next() => event,
        };
        match event {
            Some(CallEvent::Text(piece)) if text.len() < MAX_ANSWER_BYTES => text.push_str(&piece),
            // The rest of the answer would be discarded.
            Some(CallEvent::Text(_)) => break Ok(()),
            Some(CallEvent::ToolCall(_)) => {}
            Some(CallEvent::End(Ok(_))) => break Ok(()),
            Some(CallEvent::End(Err(error))) => break Err(AuxiliaryError::Failed(error)),
            None => {
                let error = ModelError::new(ModelErrorCode::ProviderUnavailable, "the answer ended prematurely");
                break Err(AuxiliaryError::Failed(error));
            }
        }
    };
    context.note_call(None);
    usage.add(context, call.into_parts().1);
    ended.map(|()| text.trim().replace('\0', "\u{fffd}"))
}

pub(super) fn wants_plan(context: &TurnContext, prompt: &Prompt, offer: &Offer) -> bool {
    let is_planned = match context.engine.settings.strategy().planning {
        Planning::Off => false,
        Planning::Always => true,
        Planning::Auto => prompt.last_request().is_some_and(is_complex_request),
    };
    is_planned && !offer.is_empty()
}

/// Generates a plan if the settings and the request call for one.
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
    prompt.add_note(&format!("{PLAN_PROMPT} The tools that you can use: {}.", names.join(", ")));
    match call(context, usage, prompt.without_calls(), Some(PLAN_TOKENS), Purpose::Plan).await {
        Ok(plan) => Ok(Some(plan).filter(|plan| !plan.is_empty())),
        Err(AuxiliaryError::Stopped(stop)) => Err(stop),
        Err(AuxiliaryError::Failed(error)) => {
            tracing::debug!(session = %context.session.id, %error, "planning failed; continuing without a plan");
            Ok(None)
        }
    }
}

/// Reviews an answer for which tools were used, if enabled. Returns the corrected answer, or `None` if the model keeps
/// it.
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
    prompt.messages.push(ModelMessage::User { content: REFLECTION_PROMPT.to_owned() });
    match call(context, usage, prompt, None, Purpose::Reflection).await {
        Ok(answer) if answer.is_empty() || answer.trim_end_matches('.').eq_ignore_ascii_case(CONFIRMATION) => Ok(None),
        Ok(answer) => Ok(Some(answer)),
        Err(AuxiliaryError::Stopped(stop)) => Err(stop),
        Err(AuxiliaryError::Failed(error)) => {
            tracing::debug!(session = %context.session.id, %error, "reflection failed; keeping the answer");
            Ok(None)
        }
    }
}

/// Quotes, tables and file names are data and are not counted as part of the request.
fn is_complex_request(request: &str) -> bool {
    let is_user_text = |line: &&str| !line.trim_start().starts_with(['>', '[']) && !line.contains("| ");
    let own: Vec<&str> = request.lines().filter(is_user_text).collect();
    let sentences = own.iter().flat_map(|line| line.split(['.', '!', '?', ';']));
    let sentences = sentences.filter(|part| part.trim().len() > 3).count();
    let characters: usize = own.iter().map(|line| line.chars().count()).sum();
    characters > PLAN_MIN_CHARACTERS || sentences >= PLAN_MIN_SENTENCES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_or_multi_sentence_requests_are_planned() {
        assert!(!is_complex_request("What is the capital of France?"));
        assert!(!is_complex_request("Read notes.txt, please."));
        assert!(is_complex_request("Read all notes. Find the dates. Write them into a table."));
        assert!(is_complex_request(&"and then ".repeat(40)));
        let quote = "> A long message. It has sentences. And more.\n".repeat(20);
        assert!(!is_complex_request(&format!("[In reply to a message from Bob]\n{quote}\ntranslate this")));
        assert!(!is_complex_request(
            "Sum it up.\n| a | b |\nA long cell. | 1.5; yes. | Three four.\n[a file: \"a.b.pdf\"]"
        ));
    }
}
