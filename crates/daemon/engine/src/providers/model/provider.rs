//! One provider: what was set up, and what its last call said.

use std::time::Duration;

use agentd_base::{Patch, Secret, SecretUpdate, Timestamp};
use agentd_llm::{ModelError, ModelErrorCode, Vendor};
use serde::Serialize;
use url::Url;
use utoipa::ToSchema;

/// The id of the model inside the daemon.
pub const LOCAL: &str = "local";

const MAX_MESSAGE: usize = 500;
const MAX_KEY: usize = 4096;

/// What is known of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProviderStatus {
    /// No key and no base URL; or no model file.
    Unconfigured,
    /// Set up, and not called since.
    Configured,
    Ok,
    Failing,
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

/// What a call or a test said of a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) status: ProviderStatus,
    pub(crate) message: Option<String>,
    pub(crate) checked_at: Timestamp,
    /// The file of the model inside that was asked.
    pub(crate) file: Option<String>,
}

impl Outcome {
    /// The same, of one file of the model inside.
    pub(crate) fn of_file(self, file: Option<String>) -> Self {
        Self { file, ..self }
    }

    pub(crate) fn good(now: Timestamp) -> Self {
        Self { status: ProviderStatus::Ok, message: None, checked_at: now, file: None }
    }

    /// Whether a failure is the provider's, and not the request's or that of whoever stopped it.
    pub(crate) fn is_of_provider(error: &ModelError) -> bool {
        use ModelErrorCode::{Cancelled, ContextLength, Internal, NoAnswer};
        !matches!(error.code, ContextLength | Cancelled | Internal | NoAnswer)
    }

    /// `None` when the failure is the request's, or somebody stopped it: it says nothing of the
    /// provider.
    pub(crate) fn of_call(error: &ModelError, now: Timestamp) -> Option<Self> {
        Self::is_of_provider(error).then(|| Self::of_test(error, now))
    }

    pub(crate) fn of_test(error: &ModelError, now: Timestamp) -> Self {
        let status = match error.code {
            ModelErrorCode::RateLimit => ProviderStatus::RateLimited,
            _ => ProviderStatus::Failing,
        };
        let message = error.message.chars().take(MAX_MESSAGE).collect();
        Self { status, message: Some(message), checked_at: now, file: None }
    }
}

/// A provider's row.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ProviderRow {
    pub(crate) id: String,
    pub(crate) base_url: Option<String>,
    pub(crate) default_model: Option<String>,
    pub(crate) outcome: Option<Outcome>,
    /// When key, base URL or model were last set.
    pub(crate) updated_at: Timestamp,
}

/// A change of one provider: what is kept, cleared, or set.
#[derive(Debug, Clone, Default)]
pub struct ProviderChange {
    pub api_key: Patch<SecretUpdate>,
    /// As the vendor's own SDK takes it.
    pub base_url: Patch<String>,
    pub default_model: Patch<String>,
}

/// What a connectivity test found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderReport {
    pub latency: Duration,
    /// The models that it offers, or why it does not answer.
    pub outcome: Result<Vec<String>, ReportedFailure>,
}

/// Why a test failed, in the codes of the chat stream.
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

/// Every id, for people.
pub(crate) fn known_ids() -> String {
    let vendors = Vendor::ALL.into_iter().map(Vendor::id);
    vendors.chain([LOCAL]).collect::<Vec<_>>().join(", ")
}

/// A base URL as it was typed.
pub(crate) fn parse_base_url(text: &str) -> Result<Url, String> {
    let example = "such as http://127.0.0.1:11434/v1";
    let url = Url::parse(text.trim()).map_err(|_| format!("must be an address, {example}"))?;
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        return Err(format!("must begin with http:// or https:// and name a host, {example}"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("must not hold a user name or a password; the key goes into api_key".to_owned());
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("must end with its path, without `?` or `#`".to_owned());
    }
    Ok(url)
}

/// The server that a vendor's requests, and with them its key, go to: scheme, host and port.
pub(crate) fn server_of(vendor: Vendor, base_url: Option<&str>) -> Option<String> {
    agentd_core::vault::server_of(base_url.unwrap_or(vendor.default_base_url()))
}

/// A key as it was pasted: blanks and line ends around it are no part of it.
pub(crate) fn parse_key(key: &Secret) -> Result<Secret, &'static str> {
    let text = key.expose().trim();
    if text.is_empty() {
        return Err("must not be empty");
    }
    if text.len() > MAX_KEY {
        return Err("is longer than any provider's key");
    }
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("holds characters that no key has; copy it anew");
    }
    Ok(Secret::new(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_urls_are_addresses_and_nothing_more() {
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
    fn a_server_is_a_scheme_a_host_and_a_port() {
        let server = |url| server_of(Vendor::Openai, url);
        assert_eq!(server(None), server(Some("https://api.openai.com:443/v2/")));
        assert_eq!(server(Some("http://127.0.0.1:9/a")), server(Some("http://127.0.0.1:9/b")));
        for other in ["http://api.openai.com/v1", "https://api.openai.com:8443/v1", "https://api.openai.com.x.example"]
        {
            assert_ne!(server(None), server(Some(other)), "{other}");
        }
    }

    #[test]
    fn keys_lose_what_pasting_adds() {
        let key = |text: &str| parse_key(&Secret::new(text.to_owned())).map(|key| key.expose().to_owned());
        assert_eq!(key("  sk-123\n"), Ok("sk-123".to_owned()));
        for bad in ["", " \n", "sk 123", "sk-\u{200b}123", "schlüssel"] {
            assert!(key(bad).is_err(), "{bad}");
        }
        assert!(key(&"x".repeat(5000)).is_err());
    }

    #[test]
    fn a_refused_request_says_nothing_of_the_provider() {
        let now = Timestamp::from_micros(1);
        let outcome = |code| Outcome::of_call(&ModelError::new(code, "m"), now).map(|outcome| outcome.status);
        assert_eq!(outcome(ModelErrorCode::ContextLength), None);
        assert_eq!(outcome(ModelErrorCode::Cancelled), None);
        assert_eq!(outcome(ModelErrorCode::RateLimit), Some(ProviderStatus::RateLimited));
        assert_eq!(outcome(ModelErrorCode::Auth), Some(ProviderStatus::Failing));
    }
}
