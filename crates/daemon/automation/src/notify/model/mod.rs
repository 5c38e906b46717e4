//! A message and where it goes.

mod target;

use std::time::Duration;

use agentd_base::{Backoff, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

pub(super) use target::shown_channel;
pub use target::{Target, TargetError};

agentd_base::typed_id!(
    /// The id of a notification.
    NotificationId,
    "ntf"
);
agentd_store::stored_ids!(NotificationId);

/// Longer bodies are refused.
pub const BODY_LIMIT: usize = 256 * 1024;
/// Longer subjects are cut.
const SUBJECT_CHARACTERS: usize = 300;

pub(super) const DEFAULT_ATTEMPTS: u32 = 10;
pub(super) const MOST_ATTEMPTS: u32 = 20;

/// About three hours in all for ten attempts.
pub(super) const BACKOFF: Backoff =
    Backoff { base: Duration::from_secs(30), multiplier: 2.0, cap: Duration::from_secs(3600), jitter: 0.2 };

/// Idempotency keys of what hooks send begin with this, and no others do.
const HOOK_KEY: &str = "hook:";

/// Whether what has this idempotency key is sent for a hook.
pub(super) fn is_hook_key(key: Option<&str>) -> bool {
    key.is_some_and(|key| key.starts_with(HOOK_KEY))
}

/// How long what has ended is kept.
pub(super) const KEPT: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// What a body is written in.
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum NotificationStatus {
    /// Waits for its next attempt, or is being sent.
    Pending,
    Sent,
    /// Given up; the error says why.
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
    /// One line; line breaks become spaces, and what is too long is cut.
    pub subject: String,
    /// At most [`BODY_LIMIT`] bytes.
    pub body: String,
    pub format: MessageFormat,
    /// While a message with this key is kept, another one is not added.
    pub idempotency_key: Option<String>,
    /// The agent whose hooks hear of it, besides the global ones.
    pub agent: Option<String>,
    /// 1 to 20; `None`: 10.
    pub max_attempts: Option<u32>,
    /// What the transport is to know besides, in a form of its own.
    pub details: Option<Value>,
}

impl Notification {
    /// A Markdown message.
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

    /// Sent because of what a hook did, once for each `execution`. `security.private_hook_targets` holds for it.
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

/// One line of at most 300 characters.
pub(super) fn one_line(subject: &str) -> String {
    let words = subject.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    let line = words.collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(SUBJECT_CHARACTERS) {
        None => line,
        Some((end, _)) => format!("{}…", line[..end].trim_end()),
    }
}

/// A message as it is kept.
#[derive(Debug, Clone)]
pub struct StoredNotification {
    pub id: NotificationId,
    pub platform: String,
    /// Credentials in a url lie in the vault; it says `***` there.
    pub channel: String,
    pub agent: Option<String>,
    /// Whether a hook sends it.
    pub is_of_hook: bool,
    pub subject: String,
    pub body: String,
    pub format: MessageFormat,
    /// As [`Notification::details`].
    pub details: Option<Value>,
    pub status: NotificationStatus,
    /// How often it was tried, since the last retry by hand.
    pub attempt_count: u32,
    pub next_attempt_at: Option<Timestamp>,
    /// What the other side knows it by.
    pub reference: Option<String>,
    /// What the last failed attempt said.
    pub error: Option<String>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_subject_is_one_line() {
        assert_eq!(one_line(" a\r\nBcc: x@y.z\t b\u{0} "), "a Bcc: x@y.z b");
        let long = one_line(&"ä".repeat(400));
        assert_eq!((long.chars().count(), long.ends_with('…')), (301, true));
    }

    proptest! {
        #[test]
        fn no_subject_breaks_a_header(text in any::<String>()) {
            let line = one_line(&text);
            prop_assert!(!line.chars().any(char::is_control));
            prop_assert!(line.chars().count() <= SUBJECT_CHARACTERS + 1);
        }
    }
}
