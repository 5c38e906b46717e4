//! Finish reasons of all formats. They are parsed alike, since gateways pass on the upstream vendor's value: in upper
//! case, or with a prefix.

use crate::FinishReason;
use crate::vendor_error::VendorError;

const REASONS: &[(FinishReason, &[&str])] = &[
    (FinishReason::Stop, &["stop", "end_turn", "stop_sequence", "eos", "eos_token", "end", "complete", "completed"]),
    (
        FinishReason::Length,
        &[
            "length",
            "max_tokens",
            "max_output_tokens",
            "max_completion_tokens",
            "model_length",
            "model_context_window_exceeded",
        ],
    ),
    (FinishReason::ToolUse, &["tool_calls", "tool_call", "tool_use", "function_call"]),
    (
        FinishReason::ContentFilter,
        &[
            "content_filter",
            "content_filtered",
            "refusal",
            "safety",
            "recitation",
            "language",
            "blocklist",
            "prohibited_content",
            "spii",
            "image_safety",
            "image_prohibited_content",
            "image_recitation",
            "guardrail_intervened",
            "sensitive",
        ],
    ),
    (
        FinishReason::MalformedCall,
        &[
            "malformed_function_call",
            "malformed_tool_use",
            "malformed_response",
            "malformed_model_output",
            "unexpected_tool_call",
            "too_many_tool_calls",
            "missing_thought_signature",
        ],
    ),
];

/// Values on chunks before the last one, in place of `null`.
const NOT_FINISHED: &[&str] = &["", "null", "none", "finish_reason_unspecified"];

/// Values for a model failure in the middle of an answer. DeepSeek; Mistral and OpenRouter; Z.ai; vLLM.
const FAILURES: &[&str] = &["insufficient_system_resource", "error", "network_error", "abort"];

/// Parses a finish reason; `None` if the answer has not ended.
///
/// # Errors
/// Returns an error if the reason states that the model failed.
pub(super) fn read_finish_reason(word: &str) -> Result<Option<FinishReason>, VendorError> {
    let word = word.trim().to_ascii_lowercase();
    if NOT_FINISHED.contains(&word.as_str()) {
        return Ok(None);
    }
    if FAILURES.contains(&word.as_str()) {
        let message = "the model stopped with an error".to_owned();
        return Err(VendorError { codes: word, message, ..VendorError::default() });
    }
    // `function_call_filter: MALFORMED_FUNCTION_CALL`: the last part is the vendor's own value.
    let parts = word.rsplit(|character: char| !character.is_ascii_alphanumeric() && character != '_');
    let mut known = parts.filter_map(|part| REASONS.iter().find(|(_, words)| words.contains(&part)));
    Ok(Some(known.next().map_or(FinishReason::Other, |(reason, _)| *reason)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_parsed_in_any_case_and_after_a_prefix() {
        for (word, expected) in [
            ("stop", FinishReason::Stop),
            ("STOP", FinishReason::Stop),
            ("end", FinishReason::Stop),
            ("MAX_TOKENS", FinishReason::Length),
            ("content_filter: SAFETY", FinishReason::ContentFilter),
            ("refusal", FinishReason::ContentFilter),
            ("function_call_filter: MALFORMED_FUNCTION_CALL", FinishReason::MalformedCall),
            ("UNEXPECTED_TOOL_CALL", FinishReason::MalformedCall),
            ("something new", FinishReason::Other),
        ] {
            assert_eq!(read_finish_reason(word).unwrap(), Some(expected), "{word}");
        }
        for word in ["", "null", "FINISH_REASON_UNSPECIFIED"] {
            assert_eq!(read_finish_reason(word).unwrap(), None, "{word}");
        }
        assert!(read_finish_reason("error").is_err());
    }
}
