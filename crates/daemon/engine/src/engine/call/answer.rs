//! Whether what a model ended with is an answer.

use agentd_llm::{FinishReason, ModelError, ModelErrorCode};

/// Why an answer that came to its proper end is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Defect {
    /// Neither text nor tool calls.
    Empty,
    /// The vendor could not read the tool call of its model.
    MalformedCall,
    /// The model, or a filter of its vendor, refused.
    Refused,
    /// A refusal in the middle of the text.
    RefusedToGoOn,
    /// The output limit was reached before the first word.
    OutOfTokens,
}

/// Judges an answer; `None` if it is one. `may_be_empty` is set where enough was said before, or where the caller
/// takes silence for an answer.
pub(super) fn find_defect(
    reason: FinishReason,
    has_words: bool,
    has_calls: bool,
    may_be_empty: bool,
) -> Option<Defect> {
    let says_nothing = !has_words && !has_calls;
    match reason {
        // The calls of an answer that was refused are not run either.
        FinishReason::ContentFilter if has_words => Some(Defect::RefusedToGoOn),
        FinishReason::ContentFilter => Some(Defect::Refused),
        FinishReason::MalformedCall if !has_calls => Some(Defect::MalformedCall),
        FinishReason::Length if says_nothing => Some(Defect::OutOfTokens),
        _ if says_nothing && !may_be_empty => Some(Defect::Empty),
        _ => None,
    }
}

impl Defect {
    /// Whether another attempt may end otherwise.
    pub(super) fn is_worth_a_retry(self) -> bool {
        matches!(self, Self::Empty | Self::MalformedCall)
    }

    pub(super) fn into_error(self, model: &str) -> ModelError {
        let (code, message) = match self {
            Self::Empty => (
                ModelErrorCode::ProviderUnavailable,
                format!("model `{model}` returned an empty answer; send the message again or choose another model"),
            ),
            Self::MalformedCall => (
                ModelErrorCode::ProviderUnavailable,
                format!(
                    "model `{model}` wrote a tool call that its provider could not read; send the message again or \
                     choose another model"
                ),
            ),
            Self::Refused => (
                ModelErrorCode::NoAnswer,
                format!(
                    "model `{model}` or the content filter of its provider refused to answer; rephrase the request or \
                     choose another model"
                ),
            ),
            Self::RefusedToGoOn => (
                ModelErrorCode::NoAnswer,
                format!(
                    "model `{model}` or the content filter of its provider stopped the answer before its end; rephrase \
                     the request or choose another model"
                ),
            ),
            Self::OutOfTokens => (
                ModelErrorCode::NoAnswer,
                format!(
                    "model `{model}` reached its output limit before it wrote an answer; raise max_output_tokens of \
                     PUT /api/settings/agent or choose another model"
                ),
            ),
        };
        ModelError::new(code, message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_told_from_what_is_none() {
        const NOTHING: (bool, bool) = (false, false);
        const WORDS: (bool, bool) = (true, false);
        const CALLS: (bool, bool) = (false, true);
        for (reason, (has_words, has_calls), expected) in [
            (FinishReason::Stop, WORDS, None),
            (FinishReason::Stop, NOTHING, Some(Defect::Empty)),
            (FinishReason::Other, NOTHING, Some(Defect::Empty)),
            (FinishReason::ToolUse, NOTHING, Some(Defect::Empty)),
            (FinishReason::ToolUse, CALLS, None),
            (FinishReason::Length, WORDS, None),
            (FinishReason::Length, CALLS, None),
            (FinishReason::Length, NOTHING, Some(Defect::OutOfTokens)),
            (FinishReason::MalformedCall, NOTHING, Some(Defect::MalformedCall)),
            (FinishReason::MalformedCall, WORDS, Some(Defect::MalformedCall)),
            (FinishReason::MalformedCall, CALLS, None),
            (FinishReason::ContentFilter, NOTHING, Some(Defect::Refused)),
            (FinishReason::ContentFilter, WORDS, Some(Defect::RefusedToGoOn)),
            (FinishReason::ContentFilter, CALLS, Some(Defect::Refused)),
        ] {
            let found = find_defect(reason, has_words, has_calls, false);
            assert_eq!(found, expected, "{reason:?} {has_words} {has_calls}");
            let silent = find_defect(reason, has_words, has_calls, true);
            assert_eq!(silent, expected.filter(|defect| *defect != Defect::Empty), "{reason:?}");
        }
    }
}
