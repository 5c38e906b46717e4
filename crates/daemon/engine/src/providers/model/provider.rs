//! A provider: its configuration and the result of its last call.

use std::time::Duration;

use agentd_base::{Patch, Secret, SecretUpdate, Timestamp};
use agentd_llm::{ModelError, ModelErrorCode, Vendor};
use serde::Serialize;
use url::Url;
use utoipa::ToSchema;

/// Id of the built-in model.
pub const LOCAL: &str = "local";

const MAX_MESSAGE: usize = 500;
const MAX_KEY: usize = 4096;

/// Status of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProviderStatus {
    /// No key and no base URL; for `local`, no model file.
    Unconfigured,
    /// Configured, and not called since.
    Configured,
    /// The last call or test succeeded.
    Ok,
    /// The last call or test failed.
    Failing,
    /// The last call or test was rejected by a rate limit.
    RateLimited,
}

impl ProviderStatus {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Unconfigured => "unconfigured",
            Self::Configured => "configured",
            Self::Ok => "ok",
            Self::Failing => "failing",
            Self::RateLimited => "rate_limited",
        }
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let all = [Self::Unconfigured, Self::Configured, Self::Ok, Self::Failing, Self::RateLimited];
        all.into_iter().find(|status| status.as_str() == text)
    }
}

/// Result of a call or a test of a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) status: ProviderStatus,
    pub(crate) message: Option<String>,
    pub(crate) checked_at: Timestamp,
    /// Model file, for results of the built-in model.
    pub(crate) file: Option<String>,
}

impl Outcome {
    /// Sets the model file of the built-in model.
    pub(crate) fn with_file(self, file: Option<String>) -> Self {
        Self { file, ..self }
    }

    pub(crate) fn ok(now: Timestamp) -> Self {
        Self { status: ProviderStatus::Ok, message: None, checked_at: now, file: None }
    }

    /// Whether the provider caused the failure, not the request or a cancellation.
    pub(crate) fn is_provider_failure(error: &ModelError) -> bool {
        use ModelErrorCode::{Cancelled, ContextLength, Internal, NoAnswer};
        !matches!(error.code, ContextLength | Cancelled | Internal | NoAnswer)
    }

    /// Returns `None` if the request or a cancellation caused the failure: it does not affect the provider's status.
    pub(crate) fn from_call_error(error: &ModelError, now: Timestamp) -> Option<Self> {
        Self::is_provider_failure(error).then(|| Self::from_test_error(error, now))
    }

    pub(crate) fn from_test_error(error: &ModelError, now: Timestamp) -> Self {
        let status = match error.code {
            ModelErrorCode::RateLimit => ProviderStatus::RateLimited,
            _ => ProviderStatus::Failing,
        };
        let message = error.message.chars().take(MAX_MESSAGE).collect();
        Self { status, message: Some(message), checked_at: now, file: None }
    }
}

/// A row of a provider.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ProviderRow {
    pub(crate) id: String,
    pub(crate) base_url: Option<String>,
    pub(crate) default_model: Option<String>,
    pub(crate) outcome: Option<Outcome>,
    /// Time of the last change of key, base URL or model.
    pub(crate) updated_at: Timestamp,
}

/// Changes to one provider.
#[derive(Debug, Clone, Default)]
pub struct ProviderChange {
    pub api_key: Patch<SecretUpdate>,
    /// Base URL as the vendor's SDK accepts it.
    pub base_url: Patch<String>,
    pub default_model: Patch<String>,
}

/// Result of a connectivity test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderReport {
    pub latency: Duration,
    /// Models that it offers, or the reason why it failed.
    pub outcome: Result<Vec<String>, ReportedFailure>,
}

/// Failure of a test, with an error code of the chat stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportedFailure {
    pub code: &'static str,
    pub message: String,
}

impl From<&ModelError> for ReportedFailure {
    fn from(error: &ModelError) -> Self {
        Self { code: error.code.as_str(), message: error.message.clone() }
    }
}

/// Returns all provider ids, for messages.
pub(crate) fn known_ids() -> String {
    let vendors = Vendor::ALL.into_iter().map(Vendor::id);
    vendors.chain([LOCAL]).collect::<Vec<_>>().join(", ")
}

/// Parses a base URL.
pub(crate) fn parse_base_url(text: &str) -> Result<Url, String> {
    let example = "such as http://127.0.0.1:11434/v1";
    let url = Url::parse(text.trim()).map_err(|_| format!("must be a URL, {example}"))?;
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        return Err(format!("must be an http or https URL with a host, {example}"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("must not contain a user name or password; send the key as api_key".to_owned());
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("must not contain a query or fragment".to_owned());
    }
    Ok(url)
}

/// Returns the server that receives a vendor's requests and key: scheme, host and port.
pub(crate) fn server_origin(vendor: Vendor, base_url: Option<&str>) -> Option<String> {
    agentd_core::vault::server_origin(base_url.unwrap_or(vendor.default_base_url()))
}

/// Parses a key; removes white space around it.
pub(crate) fn parse_key(key: &Secret) -> Result<Secret, &'static str> {
    let text = key.expose().trim();
    if text.is_empty() {
        return Err("must not be empty");
    }
    if text.len() > MAX_KEY {
        return Err("must be at most 4096 bytes");
    }
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("contains characters that are not valid in a key; copy it again");
    }
    Ok(Secret::new(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_url_must_be_a_plain_url() {
        assert!(parse_base_url(" http://127.0.0.1:11434/v1 ").is_ok());
        assert!(parse_base_url("https://proxy.example").is_ok());
        for bad in [
            "",
            "x",
            "ftp://x",
            "file:///etc/passwd",
            "http://",
            "http://u:p@x",
            "https://x/?key=1",
            "https://x/#a",
            "javascript:alert(1)",
        ] {
            assert!(parse_base_url(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn server_is_scheme_host_and_port() {
        let server = |url| server_origin(Vendor::Openai, url);
        assert_eq!(server(None), server(Some("https://api.openai.com:443/v2/")));
        assert_eq!(server(Some("http://127.0.0.1:9/a")), server(Some("http://127.0.0.1:9/b")));
        for other in ["http://api.openai.com/v1", "https://api.openai.com:8443/v1", "https://api.openai.com.x.example"]
        {
            assert_ne!(server(None), server(Some(other)), "{other}");
        }
    }

    #[test]
    fn keys_are_trimmed_and_validated() {
        let key = |text: &str| parse_key(&Secret::new(text.to_owned())).map(|key| key.expose().to_owned());
        assert_eq!(key("  sk-123\n"), Ok("sk-123".to_owned()));
        for bad in ["", " \n", "sk 123", "sk-\u{200b}123", "schlüssel"] {
            assert!(key(bad).is_err(), "{bad}");
        }
        assert!(key(&"x".repeat(5000)).is_err());
    }

    #[test]
    fn rejected_request_does_not_affect_the_status() {
        let now = Timestamp::from_micros(1);
        let outcome = |code| Outcome::from_call_error(&ModelError::new(code, "m"), now).map(|outcome| outcome.status);
        assert_eq!(outcome(ModelErrorCode::ContextLength), None);
        assert_eq!(outcome(ModelErrorCode::Cancelled), None);
        assert_eq!(outcome(ModelErrorCode::RateLimit), Some(ProviderStatus::RateLimited));
        assert_eq!(outcome(ModelErrorCode::Auth), Some(ProviderStatus::Failing));
    }
}
