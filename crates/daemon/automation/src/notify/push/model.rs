//! Push devices and message content.

use std::time::Duration;

use agentd_base::{Secret, Timestamp, sha256};
use agentd_web_push::MAX_CONTENT_BYTES;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::json;
use url::{Host, Url};

agentd_base::typed_id!(
    /// Id of a push device.
    PushSubscriptionId,
    "push"
);
agentd_store::stored_ids!(PushSubscriptionId);

/// Maximum number of devices.
pub(super) const MAX_DEVICES: u64 = 50;
pub(super) const MAX_ENDPOINT: usize = 2_048;
const MAX_AGENT_CHARACTERS: usize = 300;
/// Maximum size of a message body, in bytes. A lock screen shows far less.
const MAX_BODY_BYTES: usize = 1_500;
/// Default TTL of a message at the push service, for devices that are offline.
pub(super) const DEFAULT_TTL: Duration = Duration::from_secs(24 * 60 * 60);
pub(super) const TEST_TTL: Duration = Duration::from_secs(60);

/// A push device without its address and keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PushSubscription {
    pub id: PushSubscriptionId,
    /// SHA-256 of the endpoint, in hex.
    pub endpoint_sha256: String,
    /// Scheme and host of the push service.
    pub service: String,
    pub user_agent: String,
    pub created_at: Timestamp,
    pub last_success_at: Option<Timestamp>,
    pub last_failure_at: Option<Timestamp>,
    /// Last error; `None` since the last success.
    pub last_error: Option<String>,
}

/// Subscription submitted by a browser.
#[derive(Debug, Clone)]
pub struct NewSubscription {
    pub endpoint: Secret,
    pub p256dh: String,
    pub auth: Secret,
    pub user_agent: String,
}

/// Secret parts of a subscription, as stored in the vault.
#[derive(Serialize, Deserialize)]
pub(super) struct Keys {
    pub(super) endpoint: String,
    pub(super) p256dh: String,
    pub(super) auth: String,
}

impl Keys {
    pub(super) fn endpoint_sha256(&self) -> String {
        hex::encode(sha256(self.endpoint.as_bytes()))
    }
}

/// Additional data of a push message, stored in [`Notification::details`](crate::notify::Notification::details).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PushDetails {
    /// Path of the page that a click opens; empty for the start page.
    pub url: String,
    /// Tag by which a later message replaces an earlier one. Defaults to the message id if empty.
    pub tag: String,
    /// Whether it is delivered immediately, regardless of battery use.
    pub is_urgent: bool,
    /// Whether it is shown without a sound.
    pub is_silent: bool,
    /// Time after which it is neither sent nor stored for an offline device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// Identifier for [`PendingCheck`](super::PendingCheck) of the request it is about. It is not sent once answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// Idempotency key of the message that it withdraws. It is sent only to devices that received that message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub takes_away: Option<String>,
}

/// Message payload for the service worker of the page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Content(Vec<u8>);

impl Content {
    pub(super) fn new(title: &str, body: &str, details: &PushDetails) -> Self {
        let title = if title.is_empty() { "agentd" } else { title };
        let is_path = details.url.starts_with('/') && !details.url.starts_with("//") && !details.url.starts_with("/\\");
        let url = if is_path { details.url.as_str() } else { "/" };
        let mut body = &body[..body.floor_char_boundary(MAX_BODY_BYTES)];
        loop {
            let mut content = json!({"title": title, "body": body, "url": url, "tag": details.tag});
            for (name, is_set) in [("silent", details.is_silent), ("close", details.takes_away.is_some())] {
                if is_set {
                    content[name] = json!(true);
                }
            }
            let content = content.to_string();
            if content.len() <= MAX_CONTENT_BYTES || body.is_empty() {
                return Self(content.into_bytes());
            }
            body = &body[..body.floor_char_boundary(body.len() / 2)];
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Returns the topic by which a push service replaces undelivered messages: 32 base64url characters (RFC 8030, 5.4).
pub(super) fn topic(tag: &str) -> String {
    URL_SAFE_NO_PAD.encode(&sha256(tag.as_bytes())[..24])
}

/// Returns why the endpoint of a subscription is invalid, before the network policy is applied.
pub(super) fn endpoint_fault(url: &Url) -> Option<&'static str> {
    let is_local = match url.host() {
        None => return Some("must have a host"),
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
    };
    match url.scheme() {
        _ if !url.username().is_empty() || url.password().is_some() => Some("must not contain a user name or password"),
        "https" => None,
        "http" if is_local => None,
        _ => Some("must be an https URL"),
    }
}

/// Sanitizes a `User-Agent` for display.
pub(super) fn display_agent(text: &str) -> String {
    text.chars().filter(|character| !character.is_control()).take(MAX_AGENT_CHARACTERS).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    #[test]
    fn endpoints_require_https_except_on_localhost() {
        let fault = |url: &str| endpoint_fault(&Url::parse(url).unwrap());
        for good in ["https://push.example/a", "http://127.0.0.1:1/a", "http://[::1]/a", "http://localhost/a"] {
            assert_eq!(fault(good), None, "{good}");
        }
        for bad in ["http://push.example/a", "http://10.0.0.1/", "ftp://x/", "data:x", "https://a:b@push.example/"] {
            assert!(fault(bad).is_some(), "{bad}");
        }
    }

    #[test]
    fn topic_is_valid_base64url() {
        let topic = topic("approval:appr_01");
        assert_eq!(topic.len(), 32);
        assert!(topic.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_'));
    }

    #[test]
    fn click_url_is_restricted_to_local_paths() {
        for url in ["", "https://evil.example/", "javascript:alert(1)", "approvals"] {
            let details = PushDetails { url: url.to_owned(), ..PushDetails::default() };
            let content: Value = serde_json::from_slice(Content::new("", "b", &details).bytes()).unwrap();
            assert_eq!(content, json!({"title": "agentd", "body": "b", "url": "/", "tag": ""}));
        }
    }

    proptest! {
        #[test]
        fn content_always_fits_the_size_limit(title in ".{0,300}", body in "[\\PC\n\"\\\\]{0,4000}") {
            let content = Content::new(&title, &body, &PushDetails::default());
            prop_assert!(content.bytes().len() <= MAX_CONTENT_BYTES);
            let read: Value = serde_json::from_slice(content.bytes()).unwrap();
            prop_assert!(body.starts_with(read["body"].as_str().unwrap()));
        }
    }
}
