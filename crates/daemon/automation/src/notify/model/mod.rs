//! Notifications and their targets.

mod target;

use std::time::Duration;

use agentd_base::{Backoff, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

pub(super) use target::redact_channel;
pub use target::{Target, TargetError};

agentd_base::typed_id!(
    /// Id of a notification.
    NotificationId,
    "ntf"
);
agentd_store::stored_ids!(NotificationId);

/// Maximum size of a body, in bytes. Larger bodies are rejected.
pub const MAX_BODY_BYTES: usize = 256 * 1024;
/// Maximum length of a subject, in characters. Longer subjects are truncated.
const MAX_SUBJECT_CHARACTERS: usize = 300;

pub(super) const DEFAULT_ATTEMPTS: u32 = 10;
pub(super) const MAX_ATTEMPTS: u32 = 20;

/// Delays between attempts; ten attempts take about three hours.
pub(super) const BACKOFF: Backoff =
    Backoff { base: Duration::from_secs(30), multiplier: 2.0, cap: Duration::from_secs(3600), jitter: 0.2 };

/// Prefix reserved for the idempotency keys of messages sent by hooks.
const HOOK_KEY: &str = "hook:";

/// Whether a message with this idempotency key was sent by a hook.
pub(super) fn is_hook_key(key: Option<&str>) -> bool {
    key.is_some_and(|key| key.starts_with(HOOK_KEY))
}

/// Retention of messages after their end.
pub(super) const RETENTION_PERIOD: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Format of a message body: `markdown`, `text`, `html` or `json`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum MessageFormat {
    #[default]
    Markdown,
    Text,
    Html,
    Json,
}

impl MessageFormat {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Markdown => "markdown",
            Self::Text => "text",
            Self::Html => "html",
            Self::Json => "json",
        }
    }

    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Markdown, Self::Text, Self::Html, Self::Json].into_iter().find(|format| format.as_str() == text)
    }
}

/// Status of a notification: `pending` (waiting for an attempt, or being sent), `sent` or `dead_letter` (no further
/// attempts; the error contains the reason).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum NotificationStatus {
    /// Waiting for the next attempt, or being sent.
    Pending,
    Sent,
    /// Dead-lettered; the error contains the reason.
    DeadLetter,
}

impl NotificationStatus {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Sent => "sent",
            Self::DeadLetter => "dead_letter",
        }
    }

    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Pending, Self::Sent, Self::DeadLetter].into_iter().find(|status| status.as_str() == text)
    }
}

/// A message to be sent.
#[derive(Debug, Clone)]
pub struct Notification {
    pub target: Target,
    /// Single line. Line breaks become spaces, and an overlong subject is truncated.
    pub subject: String,
    /// At most [`MAX_BODY_BYTES`] bytes.
    pub body: String,
    pub format: MessageFormat,
    /// While a message with this key exists, no further one is added.
    pub idempotency_key: Option<String>,
    /// Agent whose hooks receive the events of the message, in addition to global hooks.
    pub agent: Option<String>,
    /// Maximum number of attempts, from 1 to 20; default 10.
    pub max_attempts: Option<u32>,
    /// Additional data in a format defined by the transport.
    pub details: Option<Value>,
}

impl Notification {
    /// Creates a Markdown message.
    #[must_use]
    pub fn new(target: Target, subject: impl Into<String>, body: impl Into<String>) -> Self {
        Self {
            target,
            subject: subject.into(),
            body: body.into(),
            format: MessageFormat::default(),
            idempotency_key: None,
            agent: None,
            max_attempts: None,
            details: None,
        }
    }

    #[must_use]
    pub fn format(mut self, format: MessageFormat) -> Self {
        self.format = format;
        self
    }

    #[must_use]
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.idempotency_key = Some(key.into());
        self
    }

    /// Marks the message as sent by a hook, once per `execution`. `security.private_hook_targets` applies to it.
    #[must_use]
    pub fn of_hook(self, execution: &str) -> Self {
        self.idempotency_key(format!("{HOOK_KEY}{execution}"))
    }

    #[must_use]
    pub fn agent(mut self, agent: impl Into<String>) -> Self {
        self.agent = Some(agent.into());
        self
    }

    #[must_use]
    pub fn details(mut self, details: Value) -> Self {
        self.details = Some(details);
        self
    }

    #[must_use]
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = Some(attempts);
        self
    }
}

/// Collapses a subject to a single line of at most 300 characters.
pub(super) fn one_line(subject: &str) -> String {
    let words = subject.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    let line = words.collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MAX_SUBJECT_CHARACTERS) {
        None => line,
        Some((end, _)) => format!("{}…", line[..end].trim_end()),
    }
}

/// A stored message.
#[derive(Debug, Clone)]
pub struct StoredNotification {
    pub id: NotificationId,
    pub platform: String,
    /// Credentials in a URL are replaced by `***` and stored in the vault.
    pub channel: String,
    pub agent: Option<String>,
    /// Whether a hook sent the message.
    pub is_of_hook: bool,
    pub subject: String,
    pub body: String,
    pub format: MessageFormat,
    /// See [`Notification::details`].
    pub details: Option<Value>,
    pub status: NotificationStatus,
    /// Number of attempts since the last manual retry.
    pub attempt_count: u32,
    pub next_attempt_at: Option<Timestamp>,
    /// Identifier of the message at the recipient.
    pub reference: Option<String>,
    /// Error of the last failed attempt.
    pub error: Option<String>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn subject_is_collapsed_to_one_line() {
        assert_eq!(one_line(" a\r\nBcc: x@y.z\t b\u{0} "), "a Bcc: x@y.z b");
        let long = one_line(&"ä".repeat(400));
        assert_eq!((long.chars().count(), long.ends_with('…')), (301, true));
    }

    proptest! {
        #[test]
        fn subject_never_breaks_a_header(text in any::<String>()) {
            let line = one_line(&text);
            prop_assert!(!line.chars().any(char::is_control));
            prop_assert!(line.chars().count() <= MAX_SUBJECT_CHARACTERS + 1);
        }
    }
}
