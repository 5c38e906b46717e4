//! What a vendor says when it refuses or breaks off, and what it means.

use std::time::Duration;

use agentd_base::{Redactor, Secret};
use serde_json::Value;

use crate::{ModelError, ModelErrorCode, Vendor};

/// Vendors' own words are quoted up to this many characters.
const MAX_QUOTE_CHARS: usize = 300;

/// A failure in the vendor's words, before it is classified. The shapes of all vendors are read alike,
/// since a proxy may speak in another vendor's stead.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Complaint {
    /// HTTP status; inside a stream what stands in its place, if anything.
    pub(crate) status: Option<u16>,
    /// Machine-readable words: `type`, `code`, `status`, `reason`, joined by blanks.
    pub(crate) words: String,
    pub(crate) message: String,
    pub(crate) retry_after: Option<Duration>,
}

impl Complaint {
    /// A failure that we found ourselves.
    pub(crate) fn broken_format(message: impl Into<String>) -> Self {
        Self { words: "broken_format".to_owned(), message: message.into(), ..Self::default() }
    }

    /// Reads the body of a failed answer. Whatever is not JSON (a proxy's page) says nothing.
    pub(crate) fn from_body(status: u16, body: &[u8]) -> Self {
        let found = serde_json::from_slice(body).ok().and_then(|value| Self::from_value(&value));
        Self { status: Some(status), ..found.unwrap_or_default() }
    }

    /// Reads an error object; `None` if `value` is none.
    pub(crate) fn from_value(value: &Value) -> Option<Self> {
        let value = value.as_array().and_then(|list| list.first()).unwrap_or(value);
        match value.get("error") {
            Some(Value::Object(_)) => Some(Self::from_object(&value["error"])),
            // xAI and Ollama: the sentence itself, with the kind beside it.
            Some(Value::String(message)) => Some(Self { message: message.clone(), ..Self::from_object(value) }),
            _ if value.get("message").is_some_and(Value::is_string) => Some(Self::from_object(value)),
            // Mistral's gateway: `detail` is a sentence or a list of bad fields.
            _ => value.get("detail").map(|detail| Self { message: detail_text(detail), ..Self::default() }),
        }
    }

    fn from_object(object: &Value) -> Self {
        let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
        let mut words = vec![text("type"), text("status"), text("code")];
        let mut retry_after = None;
        for detail in object.get("details").and_then(Value::as_array).into_iter().flatten() {
            words.extend(detail.get("reason").and_then(Value::as_str));
            let delay = detail.get("retryDelay").and_then(Value::as_str);
            retry_after = retry_after.or(delay.and_then(google_duration));
        }
        let numeric = object.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
        // OpenRouter passes on what the provider behind it said.
        let behind = object.pointer("/metadata/raw").and_then(Value::as_str).unwrap_or_default();
        let message = [text("message"), behind].iter().filter(|part| !part.is_empty()).copied().collect::<Vec<_>>();
        if object.pointer("/metadata/reasons").is_some() {
            words.push("moderation");
        }
        Self {
            status: numeric.filter(|code| (400..=599).contains(code)),
            words: words.join(" ").trim().to_owned(),
            message: message.join(": "),
            retry_after,
        }
    }

    /// Turns the complaint into the error that callers see. `key` is cut out of any quote.
    pub(crate) fn classify(self, vendor: Vendor, key: Option<&Secret>) -> ModelError {
        let code = self.code();
        let status = self.status.map(|status| format!(" (HTTP {status})")).unwrap_or_default();
        let sentence = match code {
            ModelErrorCode::RateLimit => format!("{vendor} limits the rate of requests{status}"),
            ModelErrorCode::Auth if self.is_about_credit() => {
                format!("the account at {vendor} has no credit left{status}; top it up or choose another provider")
            }
            // Not quoted: vendors repeat parts of the key here.
            ModelErrorCode::Auth => {
                format!("{vendor} does not accept the API key{status}; check the key and its permissions")
            }
            ModelErrorCode::Overloaded => format!("{vendor} is overloaded{status}; try again in a moment"),
            ModelErrorCode::ContextLength => format!("the conversation is too long for this model of {vendor}{status}"),
            ModelErrorCode::Timeout => format!("{vendor} gave up on the request{status}"),
            ModelErrorCode::ProviderUnavailable if self.words == "broken_format" => {
                format!("{vendor} broke its own format")
            }
            ModelErrorCode::ProviderUnavailable if self.status.is_some_and(|status| status < 400) => {
                format!("{vendor} redirects elsewhere{status}; set base_url to the address it moved to")
            }
            ModelErrorCode::ProviderUnavailable => format!("{vendor} failed{status}"),
            ModelErrorCode::Internal if self.status == Some(404) => {
                format!("{vendor} knows no such model or path{status}; check the model's name and base_url")
            }
            ModelErrorCode::Internal | ModelErrorCode::Cancelled | ModelErrorCode::NoAnswer => {
                format!("{vendor} refused the request{status}")
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
        let words = self.words.to_ascii_lowercase();
        let message = self.message.to_ascii_lowercase();
        let says = |list: &[&str]| list.iter().any(|word| words.contains(word));
        let tells = |list: &[&str]| list.iter().any(|phrase| message.contains(phrase));
        let status = self.status.unwrap_or(0);
        if status == 401 || self.is_about_credit() || says(AUTH_WORDS) {
            return Auth;
        }
        // A key that is refused with 400 (Google, xAI) is known by its sentence alone.
        if matches!(status, 400 | 403) && tells(&["api key not valid", "incorrect api key", "invalid api key"]) {
            return Auth;
        }
        if says(&["moderation"]) {
            return Internal;
        }
        if status == 403 || says(&["permission_error", "permission_denied"]) {
            return Auth;
        }
        // Groq answers 413 `rate_limit_exceeded` where one prompt exceeds the limit by itself.
        if status == 413 || says(LENGTH_WORDS) || (matches!(status, 0 | 400 | 422) && tells(LENGTH_PHRASES)) {
            return ContextLength;
        }
        if matches!(status, 498 | 503 | 529) || says(OVERLOAD_WORDS) || tells(&["currently overloaded"]) {
            return Overloaded;
        }
        if status == 429 || says(&["rate_limit", "resource_exhausted"]) {
            return RateLimit;
        }
        if matches!(status, 408 | 504) || says(&["timeout", "deadline_exceeded"]) {
            return Timeout;
        }
        // A 4xx is about the request; all else, also what has no status, about the provider.
        let is_about_request = says(&["invalid_request", "invalid_argument", "not_found"]);
        if (400..500).contains(&status) || (status == 0 && is_about_request) { Internal } else { ProviderUnavailable }
    }

    fn is_about_credit(&self) -> bool {
        let words = self.words.to_ascii_lowercase();
        self.status == Some(402)
            || words.contains("insufficient_quota")
            || words.contains("billing_error")
            || self.message.contains("credit balance is too low")
    }
}

const AUTH_WORDS: &[&str] = &["authentication_error", "invalid_api_key", "api_key_invalid", "unauthenticated"];
const OVERLOAD_WORDS: &[&str] = &["overloaded", "unavailable", "capacity_exceeded", "insufficient_system_resource"];
const LENGTH_WORDS: &[&str] = &["context_length", "request_too_large", "prompt_too_long"];

/// The documented sentences of vendors that have no word for it: Anthropic (first and second),
/// OpenAI and OpenRouter, Google, Mistral, Groq, xAI.
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

/// `"34s"`, `"1.5s"` (the JSON form of `google.protobuf.Duration`).
fn google_duration(text: &str) -> Option<Duration> {
    let seconds: f64 = text.strip_suffix('s')?.parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// One line of bounded length, without the key.
fn quotable(message: &str, key: Option<&Secret>) -> String {
    let mut text = message.split_whitespace().collect::<Vec<_>>().join(" ");
    text = Redactor::of(key).hide(text);
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
        Complaint::from_body(400, body.as_bytes()).classify(Vendor::Openai, Some(&key))
    }

    #[test]
    fn quotes_are_bounded_and_hold_no_key() {
        let long = format!(r#"{{"error":{{"message":"bad sk-secret\n{}"}}}}"#, "é".repeat(1000));
        let error = classified(&long);
        assert!(error.message.chars().count() < 400 && !error.message.contains("sk-secret"), "{error}");
        assert!(error.message.contains("bad [hidden] é"), "{error}");
    }

    #[test]
    fn a_placeholder_for_a_key_is_left_in_the_words() {
        let body = br#"{"error":{"message":"the kind of model is not known"}}"#;
        let key = Secret::new("k".to_owned());
        let error = Complaint::from_body(400, body).classify(Vendor::Openai, Some(&key));
        assert!(error.message.contains("the kind of model is not known"), "{error}");
    }

    #[test]
    fn a_page_of_a_proxy_is_not_quoted() {
        let error = Complaint::from_body(502, b"<html>Bad gateway</html>").classify(Vendor::Groq, None);
        assert_eq!(error.code, ModelErrorCode::ProviderUnavailable);
        assert_eq!(error.message, "Groq failed (HTTP 502)");
    }

    proptest! {
        #[test]
        fn any_body_is_judged(status in 300u16..600, body in "\\PC{0,80}|\\{\"error\":[\\[\\]{}\":a-z0-9,]{0,40}\\}") {
            let error = Complaint::from_body(status, body.as_bytes()).classify(Vendor::Mistral, None);
            prop_assert!(!error.message.is_empty());
        }
    }
}
