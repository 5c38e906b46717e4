//! Parsing and classification of vendor error responses.

use std::time::Duration;

use agentd_base::{Redactor, Secret};
use serde_json::Value;

use crate::{ModelError, ModelErrorCode, Vendor};

/// Maximum length of a quoted vendor message, in characters.
const MAX_QUOTE_CHARS: usize = 300;

/// Vendor error before classification. The formats of all vendors are parsed alike, since a proxy may answer in another
/// vendor's format.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct VendorError {
    /// HTTP status; within a stream, its equivalent in the error object, if any.
    pub(crate) status: Option<u16>,
    /// Machine-readable codes (`type`, `code`, `status`, `reason`), separated by spaces.
    pub(crate) codes: String,
    pub(crate) message: String,
    pub(crate) retry_after: Option<Duration>,
}

impl VendorError {
    /// Creates an error for a violation of the format that was detected by this crate.
    pub(crate) fn broken_format(message: impl Into<String>) -> Self {
        Self { codes: "broken_format".to_owned(), message: message.into(), ..Self::default() }
    }

    /// Parses the body of a failed response. A body that is not JSON, such as a proxy's HTML page, is ignored.
    pub(crate) fn from_body(status: u16, body: &[u8]) -> Self {
        let found = serde_json::from_slice(body).ok().and_then(|value| Self::from_value(&value));
        Self { status: Some(status), ..found.unwrap_or_default() }
    }

    /// Parses an error object; `None` if `value` is not one.
    pub(crate) fn from_value(value: &Value) -> Option<Self> {
        let value = value.as_array().and_then(|list| list.first()).unwrap_or(value);
        match value.get("error") {
            Some(Value::Object(_)) => Some(Self::from_object(&value["error"])),
            // xAI and Ollama send the message itself, with the code in a sibling field.
            Some(Value::String(message)) => Some(Self { message: message.clone(), ..Self::from_object(value) }),
            _ if value.get("message").is_some_and(Value::is_string) => Some(Self::from_object(value)),
            // Mistral's gateway: `detail` is a message or a list of invalid fields.
            _ => value.get("detail").map(|detail| Self { message: detail_text(detail), ..Self::default() }),
        }
    }

    fn from_object(object: &Value) -> Self {
        let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
        let mut codes = vec![text("type"), text("status"), text("code")];
        let mut retry_after = None;
        for detail in object.get("details").and_then(Value::as_array).into_iter().flatten() {
            codes.extend(detail.get("reason").and_then(Value::as_str));
            let delay = detail.get("retryDelay").and_then(Value::as_str);
            retry_after = retry_after.or(delay.and_then(google_duration));
        }
        let numeric = object.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
        // OpenRouter includes the message of the upstream provider.
        let upstream = object.pointer("/metadata/raw").and_then(Value::as_str).unwrap_or_default();
        let message = [text("message"), upstream].iter().filter(|part| !part.is_empty()).copied().collect::<Vec<_>>();
        if object.pointer("/metadata/reasons").is_some() {
            codes.push("moderation");
        }
        Self {
            status: numeric.filter(|code| (400..=599).contains(code)),
            codes: codes.join(" ").trim().to_owned(),
            message: message.join(": "),
            retry_after,
        }
    }

    /// Converts the vendor error into the error returned to callers. `key` is redacted from the quoted message.
    pub(crate) fn classify(self, vendor: Vendor, key: Option<&Secret>) -> ModelError {
        let code = self.code();
        let status = self.status.map(|status| format!(" (HTTP {status})")).unwrap_or_default();
        let sentence = match code {
            ModelErrorCode::RateLimit => format!("{vendor} rejected the request because of a rate limit{status}"),
            ModelErrorCode::Auth if self.is_about_credit() => {
                format!("the account at {vendor} has no credit left{status}; add credit or choose another provider")
            }
            // Not quoted: vendors repeat parts of the key here.
            ModelErrorCode::Auth => {
                format!("{vendor} rejected the API key{status}; check the key and its permissions")
            }
            ModelErrorCode::Overloaded => format!("{vendor} is overloaded{status}; retry later"),
            ModelErrorCode::ContextLength => format!("the conversation is too long for this model of {vendor}{status}"),
            ModelErrorCode::Timeout => format!("{vendor} did not complete the request in time{status}"),
            ModelErrorCode::ProviderUnavailable if self.codes == "broken_format" => {
                format!("{vendor} sent an invalid response")
            }
            ModelErrorCode::ProviderUnavailable if self.status.is_some_and(|status| status < 400) => {
                format!("{vendor} returned a redirect{status}; set base_url to its new URL")
            }
            ModelErrorCode::ProviderUnavailable => format!("{vendor} failed{status}"),
            ModelErrorCode::Internal if self.status == Some(404) => {
                format!("{vendor} did not find the model or path{status}; check the model name and base_url")
            }
            ModelErrorCode::Internal | ModelErrorCode::Cancelled | ModelErrorCode::NoAnswer => {
                format!("{vendor} rejected the request{status}")
            }
        };
        let quote = quotable(&self.message, key);
        let message = match code {
            ModelErrorCode::Auth => sentence,
            _ if quote.is_empty() => sentence,
            _ => format!("{sentence}: {quote}"),
        };
        ModelError::new(code, message).with_retry_after(self.retry_after)
    }

    fn code(&self) -> ModelErrorCode {
        use ModelErrorCode::{Auth, ContextLength, Internal, Overloaded, ProviderUnavailable, RateLimit, Timeout};
        let codes = self.codes.to_ascii_lowercase();
        let message = self.message.to_ascii_lowercase();
        let has_code = |list: &[&str]| list.iter().any(|word| codes.contains(word));
        let message_contains = |list: &[&str]| list.iter().any(|phrase| message.contains(phrase));
        let status = self.status.unwrap_or(0);
        if status == 401 || self.is_about_credit() || has_code(AUTH_WORDS) {
            return Auth;
        }
        // Google and xAI reject a key with 400; only the message identifies the cause.
        if matches!(status, 400 | 403)
            && message_contains(&["api key not valid", "incorrect api key", "invalid api key"])
        {
            return Auth;
        }
        if has_code(&["moderation"]) {
            return Internal;
        }
        if status == 403 || has_code(&["permission_error", "permission_denied"]) {
            return Auth;
        }
        // Groq answers 413 `rate_limit_exceeded` if a single prompt exceeds the limit.
        if status == 413
            || has_code(LENGTH_WORDS)
            || (matches!(status, 0 | 400 | 422) && message_contains(LENGTH_PHRASES))
        {
            return ContextLength;
        }
        if matches!(status, 498 | 503 | 529) || has_code(OVERLOAD_WORDS) || message_contains(&["currently overloaded"])
        {
            return Overloaded;
        }
        if status == 429 || has_code(&["rate_limit", "resource_exhausted"]) {
            return RateLimit;
        }
        if matches!(status, 408 | 504) || has_code(&["timeout", "deadline_exceeded"]) {
            return Timeout;
        }
        // A 4xx concerns the request; everything else, including errors without a status, concerns the provider.
        let is_about_request = has_code(&["invalid_request", "invalid_argument", "not_found"]);
        if (400..500).contains(&status) || (status == 0 && is_about_request) { Internal } else { ProviderUnavailable }
    }

    fn is_about_credit(&self) -> bool {
        let codes = self.codes.to_ascii_lowercase();
        self.status == Some(402)
            || codes.contains("insufficient_quota")
            || codes.contains("billing_error")
            || self.message.contains("credit balance is too low")
    }
}

const AUTH_WORDS: &[&str] = &["authentication_error", "invalid_api_key", "api_key_invalid", "unauthenticated"];
const OVERLOAD_WORDS: &[&str] = &["overloaded", "unavailable", "capacity_exceeded", "insufficient_system_resource"];
const LENGTH_WORDS: &[&str] = &["context_length", "request_too_large", "prompt_too_long"];

/// Documented messages of vendors without a code for it: Anthropic (first and second), OpenAI and OpenRouter, Google,
/// Mistral, Groq, xAI.
const LENGTH_PHRASES: &[&str] = &[
    "prompt is too long",
    "exceed context limit",
    "maximum context length",
    "exceeds the maximum number of tokens",
    "too large for model with",
    "reduce the length of the messages",
    "maximum prompt length",
    "context window",
];

fn detail_text(detail: &Value) -> String {
    match detail {
        Value::String(text) => text.clone(),
        Value::Array(problems) => {
            let texts = problems.iter().filter_map(|problem| problem.get("msg").and_then(Value::as_str));
            texts.take(3).collect::<Vec<_>>().join("; ")
        }
        _ => String::new(),
    }
}

/// Parses the JSON form of `google.protobuf.Duration`, such as `"34s"` or `"1.5s"`.
fn google_duration(text: &str) -> Option<Duration> {
    let seconds: f64 = text.strip_suffix('s')?.parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// Reduces a message to one line of bounded length, without the key.
fn quotable(message: &str, key: Option<&Secret>) -> String {
    let mut text = message.split_whitespace().collect::<Vec<_>>().join(" ");
    text = Redactor::from_secrets(key).redact(text);
    let text: String = text.chars().filter(|c| !c.is_control()).collect();
    match text.char_indices().nth(MAX_QUOTE_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn classified(body: &str) -> ModelError {
        let key = Secret::new("sk-secret".to_owned());
        VendorError::from_body(400, body.as_bytes()).classify(Vendor::Openai, Some(&key))
    }

    #[test]
    fn quoted_messages_are_bounded_and_redacted() {
        let long = format!(r#"{{"error":{{"message":"bad sk-secret\n{}"}}}}"#, "é".repeat(1000));
        let error = classified(&long);
        assert!(error.message.chars().count() < 400 && !error.message.contains("sk-secret"), "{error}");
        assert!(error.message.contains("bad [hidden] é"), "{error}");
    }

    #[test]
    fn short_placeholder_keys_are_not_redacted() {
        let body = br#"{"error":{"message":"the kind of model is not known"}}"#;
        let key = Secret::new("k".to_owned());
        let error = VendorError::from_body(400, body).classify(Vendor::Openai, Some(&key));
        assert!(error.message.contains("the kind of model is not known"), "{error}");
    }

    #[test]
    fn html_page_of_a_proxy_is_not_quoted() {
        let error = VendorError::from_body(502, b"<html>Bad gateway</html>").classify(Vendor::Groq, None);
        assert_eq!(error.code, ModelErrorCode::ProviderUnavailable);
        assert_eq!(error.message, "Groq failed (HTTP 502)");
    }

    proptest! {
        #[test]
        fn any_body_is_classified(status in 300u16..600, body in "\\PC{0,80}|\\{\"error\":[\\[\\]{}\":a-z0-9,]{0,40}\\}") {
            let error = VendorError::from_body(status, body.as_bytes()).classify(Vendor::Mistral, None);
            prop_assert!(!error.message.is_empty());
        }
    }
}
