//! Requests of platforms, and what they are answered.

use std::fmt;
use std::time::Duration;

use agentd_base::{Secret, Timestamp, sha256};
use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use subtle::ConstantTimeEq;

use crate::message::Incoming;

/// How far the time of a signed request may be from ours.
const WINDOW: Duration = Duration::from_secs(300);

/// A request as it came, before anybody believed it. Its headers and its query hold tokens, so `Debug` shows neither.
#[derive(Clone)]
pub struct WebhookRequest {
    pub method: Method,
    /// Without the question mark.
    pub query: String,
    pub headers: HeaderMap,
    /// The raw bytes: what signatures are made over.
    pub body: Bytes,
}

impl fmt::Debug for WebhookRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.body.len();
        f.debug_struct("WebhookRequest").field("method", &self.method).field("bytes", &bytes).finish_non_exhaustive()
    }
}

impl WebhookRequest {
    /// The one value of a header; `None` where it is missing, there twice, or no text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.get_all(name).iter();
        let value = values.next()?.to_str().ok()?;
        values.next().is_none().then_some(value)
    }

    /// The time that a signed request says in a header, in seconds, as it stands there.
    ///
    /// # Errors
    /// `Unverified` where it is missing, is no number, or is more than five minutes away.
    pub(crate) fn recent_time(&self, header: &str, now: Timestamp) -> Result<&str, Rejection> {
        let text = self.header(header).ok_or(Rejection::Unverified("it has no time"))?;
        let seconds: i64 = text.parse().map_err(|_| Rejection::Unverified("its time is no number"))?;
        let signed_at = Timestamp::from_micros(seconds.saturating_mul(1_000_000));
        if now.since(signed_at).max(signed_at.since(now)) > WINDOW {
            return Err(Rejection::Unverified("its time is more than five minutes away"));
        }
        Ok(text)
    }
}

/// Whether a request says a secret. Digests are compared, in constant time: not even the length is told by the time
/// that it takes.
pub(crate) fn is_secret(said: &str, secret: &Secret) -> bool {
    sha256(said.as_bytes()).ct_eq(&secret.sha256()).into()
}

/// What a platform is answered at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookAnswer {
    pub status: StatusCode,
    pub content_type: &'static str,
    pub body: Bytes,
}

impl WebhookAnswer {
    /// 200 without a body.
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

/// A request that was verified and read. The answer is to be given after what came is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Received {
    pub answer: WebhookAnswer,
    /// In the order in which they stand in the request; empty for what is no message.
    pub incoming: Vec<Incoming>,
}

impl Received {
    /// Something that is no message.
    #[must_use]
    pub fn nothing(answer: WebhookAnswer) -> Self {
        Self { answer, incoming: Vec::new() }
    }
}

/// Why a request is not taken. Nothing of it may be stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// What verifies requests is not set: there is no such channel.
    #[error("the channel is not set up")]
    NotSetUp,
    /// It is not from the platform, or is too old.
    #[error("the request is not verified: {0}")]
    Unverified(&'static str),
    /// It is from the platform, and cannot be read. A sentence.
    #[error("{0}")]
    Malformed(String),
    /// The platform's keys cannot be had just now. A sentence.
    #[error("{0}")]
    Unavailable(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_no_token() {
        let mut headers = HeaderMap::new();
        headers.insert("authorization", "Bearer t0ken".parse().unwrap());
        let query = "hub.verify_token=t0ken".to_owned();
        let request = WebhookRequest { method: Method::POST, query, headers, body: "t0ken".into() };
        assert_eq!(format!("{request:?}"), "WebhookRequest { method: POST, bytes: 5, .. }");
    }

    #[test]
    fn only_the_whole_secret_is_it() {
        let secret = Secret::new("abc".to_owned());
        assert!(is_secret("abc", &secret));
        for other in ["", "ab", "abd", "abcd", "ABC"] {
            assert!(!is_secret(other, &secret), "{other}");
        }
    }
}
