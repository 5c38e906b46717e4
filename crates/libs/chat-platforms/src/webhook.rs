//! Webhook requests and responses.

use std::fmt;
use std::time::Duration;

use agentd_base::{Secret, Timestamp, sha256};
use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use subtle::ConstantTimeEq;

use crate::message::Incoming;

/// Maximum clock difference of a signed request.
const WINDOW: Duration = Duration::from_secs(300);

/// Unverified request. Headers and query contain tokens, so `Debug` hides them.
#[derive(Clone)]
pub struct WebhookRequest {
    pub method: Method,
    /// Query without the question mark.
    pub query: String,
    pub headers: HeaderMap,
    /// Raw bytes, which signatures cover.
    pub body: Bytes,
}

impl fmt::Debug for WebhookRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.body.len();
        f.debug_struct("WebhookRequest").field("method", &self.method).field("bytes", &bytes).finish_non_exhaustive()
    }
}

impl WebhookRequest {
    /// Returns the value of a header; `None` if it is missing, repeated, or not text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.get_all(name).iter();
        let value = values.next()?.to_str().ok()?;
        values.next().is_none().then_some(value)
    }

    /// Returns the Unix timestamp in a header, verbatim.
    ///
    /// # Errors
    /// `Unverified` if it is missing, not a number, or more than five minutes off.
    pub(crate) fn recent_time(&self, header: &str, now: Timestamp) -> Result<&str, Rejection> {
        let text = self.header(header).ok_or(Rejection::Unverified("the timestamp header is missing"))?;
        let seconds: i64 = text.parse().map_err(|_| Rejection::Unverified("the timestamp is not a number"))?;
        let signed_at = Timestamp::from_micros(seconds.saturating_mul(1_000_000));
        if now.since(signed_at).max(signed_at.since(now)) > WINDOW {
            return Err(Rejection::Unverified("the timestamp differs by more than five minutes"));
        }
        Ok(text)
    }
}

/// Whether the value equals a secret. Compares digests in constant time, which does not reveal the length.
pub(crate) fn is_secret(value: &str, secret: &Secret) -> bool {
    sha256(value.as_bytes()).ct_eq(&secret.sha256()).into()
}

/// Immediate response to a platform.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookAnswer {
    pub status: StatusCode,
    pub content_type: &'static str,
    pub body: Bytes,
}

impl WebhookAnswer {
    /// Returns status 200 without a body.
    #[must_use]
    pub fn empty() -> Self {
        Self::text(String::new())
    }

    #[must_use]
    pub fn text(text: String) -> Self {
        Self { status: StatusCode::OK, content_type: "text/plain; charset=utf-8", body: text.into() }
    }

    #[must_use]
    pub fn json(value: &serde_json::Value) -> Self {
        Self { status: StatusCode::OK, content_type: "application/json", body: value.to_string().into() }
    }
}

/// Verified request with its response, which should be sent after the items are stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Received {
    pub answer: WebhookAnswer,
    /// Items in the order of the request; empty if it contains no message.
    pub incoming: Vec<Incoming>,
}

impl Received {
    /// Returns a result without items.
    #[must_use]
    pub fn nothing(answer: WebhookAnswer) -> Self {
        Self { answer, incoming: Vec::new() }
    }
}

/// Reason for rejecting a request. Nothing of it may be stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// The verification secret is not configured, so the channel does not exist.
    #[error("the channel is not configured")]
    NotSetUp,
    /// The request is not from the platform, or is too old.
    #[error("request verification failed: {0}")]
    Unverified(&'static str),
    /// The request is from the platform but malformed.
    #[error("{0}")]
    Malformed(String),
    /// The platform's keys are temporarily unavailable.
    #[error("{0}")]
    Unavailable(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_hides_tokens() {
        let mut headers = HeaderMap::new();
        headers.insert("authorization", "Bearer t0ken".parse().unwrap());
        let query = "hub.verify_token=t0ken".to_owned();
        let request = WebhookRequest { method: Method::POST, query, headers, body: "t0ken".into() };
        assert_eq!(format!("{request:?}"), "WebhookRequest { method: POST, bytes: 5, .. }");
    }

    #[test]
    fn only_the_complete_secret_matches() {
        let secret = Secret::new("abc".to_owned());
        assert!(is_secret("abc", &secret));
        for other in ["", "ab", "abd", "abcd", "ABC"] {
            assert!(!is_secret(other, &secret), "{other}");
        }
    }
}
