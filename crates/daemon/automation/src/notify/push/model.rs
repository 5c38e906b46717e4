//! Devices, and what is sent to them.

use std::time::Duration;

use agentd_base::{Secret, Timestamp, sha256};
use agentd_web_push::MAX_CONTENT;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::json;
use url::{Host, Url};

agentd_base::typed_id!(
    /// The id of a device that is woken.
    PushSubscriptionId,
    "push"
);
agentd_store::stored_ids!(PushSubscriptionId);

pub(super) const MOST_DEVICES: u64 = 50;
pub(super) const MAX_ENDPOINT: usize = 2_048;
const MAX_AGENT_CHARACTERS: usize = 300;
/// What a lock screen shows of a text is far less.
const BODY_BYTES: usize = 1_500;
/// A push service keeps a message without a time of its own for a device that is off for so long.
pub(super) const KEPT_FOR: Duration = Duration::from_secs(24 * 60 * 60);
pub(super) const TEST_EXPIRES: Duration = Duration::from_secs(60);

/// A device that is woken, as it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PushSubscription {
    pub id: PushSubscriptionId,
    /// In hex.
    pub endpoint_sha256: String,
    /// Scheme and host of its push service.
    pub service: String,
    pub user_agent: String,
    pub created_at: Timestamp,
    pub last_success_at: Option<Timestamp>,
    pub last_failure_at: Option<Timestamp>,
    /// What the last failure was; none since the last success.
    pub last_error: Option<String>,
}

/// A browser's subscription.
#[derive(Debug, Clone)]
pub struct NewSubscription {
    pub endpoint: Secret,
    pub p256dh: String,
    pub auth: Secret,
    pub user_agent: String,
}

/// What of a subscription is sealed.
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

/// What a push message carries besides its text: [`Notification::details`](crate::notify::Notification::details).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PushDetails {
    /// The path of the page that a click opens; empty: its beginning.
    pub url: String,
    /// A later message with the same one takes the place of an earlier one. Empty: the message's own id.
    pub tag: String,
    /// Whether it is shown at once, whatever it costs a phone's battery.
    pub is_urgent: bool,
    /// Whether it is shown without a sound.
    pub is_silent: bool,
    /// From then on it is not sent, and not kept for a device that is off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// What it asks for, in the words of [`StillWaits`](super::StillWaits); it is not sent once that is answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// The idempotency key of the message that it takes the place of, to go away with it; it is sent only where that is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub takes_away: Option<String>,
}

/// What the service worker of the page reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Content(Vec<u8>);

impl Content {
    pub(super) fn new(title: &str, body: &str, details: &PushDetails) -> Self {
        let title = if title.is_empty() { "agentd" } else { title };
        let is_path = details.url.starts_with('/') && !details.url.starts_with("//") && !details.url.starts_with("/\\");
        let url = if is_path { details.url.as_str() } else { "/" };
        let mut body = &body[..body.floor_char_boundary(BODY_BYTES)];
        loop {
            let mut content = json!({"title": title, "body": body, "url": url, "tag": details.tag});
            for (name, is_so) in [("silent", details.is_silent), ("close", details.takes_away.is_some())] {
                if is_so {
                    content[name] = json!(true);
                }
            }
            let content = content.to_string();
            if content.len() <= MAX_CONTENT || body.is_empty() {
                return Self(content.into_bytes());
            }
            body = &body[..body.floor_char_boundary(body.len() / 2)];
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// A name by which a push service replaces what it has not delivered yet: 32 characters of base64url at most.
pub(super) fn topic(tag: &str) -> String {
    URL_SAFE_NO_PAD.encode(&sha256(tag.as_bytes())[..24])
}

/// What is wrong with the address of a subscription, before the policy is asked.
pub(super) fn endpoint_fault(url: &Url) -> Option<&'static str> {
    let is_here = match url.host() {
        None => return Some("must have a host"),
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
    };
    match url.scheme() {
        _ if !url.username().is_empty() || url.password().is_some() => Some("must hold no user and no password"),
        "https" => None,
        "http" if is_here => None,
        _ => Some("must be an https url"),
    }
}

/// What a browser calls itself, as it may be shown.
pub(super) fn shown_agent(text: &str) -> String {
    text.chars().filter(|character| !character.is_control()).take(MAX_AGENT_CHARACTERS).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    #[test]
    fn addresses_are_https_but_on_this_machine() {
        let fault = |url: &str| endpoint_fault(&Url::parse(url).unwrap());
        for good in ["https://push.example/a", "http://127.0.0.1:1/a", "http://[::1]/a", "http://localhost/a"] {
            assert_eq!(fault(good), None, "{good}");
        }
        for bad in ["http://push.example/a", "http://10.0.0.1/", "ftp://x/", "data:x", "https://a:b@push.example/"] {
            assert!(fault(bad).is_some(), "{bad}");
        }
    }

    #[test]
    fn a_topic_is_what_push_services_take() {
        let topic = topic("approval:appr_01");
        assert_eq!(topic.len(), 32);
        assert!(topic.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_'));
    }

    #[test]
    fn a_click_leads_nowhere_else() {
        for url in ["", "https://evil.example/", "javascript:alert(1)", "approvals"] {
            let details = PushDetails { url: url.to_owned(), ..PushDetails::default() };
            let content: Value = serde_json::from_slice(Content::new("", "b", &details).bytes()).unwrap();
            assert_eq!(content, json!({"title": "agentd", "body": "b", "url": "/", "tag": ""}));
        }
    }

    proptest! {
        #[test]
        fn whatever_is_said_fits(title in ".{0,300}", body in "[\\PC\n\"\\\\]{0,4000}") {
            let content = Content::new(&title, &body, &PushDetails::default());
            prop_assert!(content.bytes().len() <= MAX_CONTENT);
            let read: Value = serde_json::from_slice(content.bytes()).unwrap();
            prop_assert!(body.starts_with(read["body"].as_str().unwrap()));
        }
    }
}
