//! A message and where it goes.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use agentd_base::{Backoff, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use url::Url;
use utoipa::ToSchema;

use crate::settings::{CHANNEL_PLATFORMS, is_mailbox};

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
const MAX_PLATFORM: usize = 32;
const MAX_CHANNEL: usize = 2048;

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

/// Where a message goes: `email:<address>`, `webhook:<url>` or `<platform>:<channel>`. `email:` alone goes to the
/// address in the profile. Whether the platform is set up is asked when a target is stored
/// ([`super::Notify::fault_of`]), and shows when the message is sent.
#[derive(Clone, PartialEq, Eq)]
pub enum Target {
    Email(String),
    Webhook(Url),
    Channel { platform: String, channel: String },
}

/// What is wrong with a text that should be a target.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("must be email:<address>, webhook:<http(s) url>, or <platform>:<channel>: {problem}")]
pub struct TargetError {
    problem: &'static str,
}

impl Target {
    pub const EMAIL: &'static str = "email";
    pub const WEBHOOK: &'static str = "webhook";

    /// What stands before the colon.
    #[must_use]
    pub fn platform(&self) -> &str {
        match self {
            Self::Email(_) => Self::EMAIL,
            Self::Webhook(_) => Self::WEBHOOK,
            Self::Channel { platform, .. } => platform,
        }
    }

    /// Why nothing will ever be sent there.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        match self {
            Self::Email(_) | Self::Webhook(_) => None,
            Self::Channel { platform, .. } if CHANNEL_PLATFORMS.contains(&platform.as_str()) => None,
            Self::Channel { platform, .. } if ["http", "https"].contains(&platform.as_str()) => {
                Some("is a url; write webhook:<url>".to_owned())
            }
            Self::Channel { platform, .. } => Some(format!(
                "must be email:<address>, webhook:<url>, or <platform>:<channel> with one of {}; there is no `{platform}`",
                CHANNEL_PLATFORMS.join(", ")
            )),
        }
    }

    /// Without what an address may keep secret: of a url only the scheme and the host.
    #[must_use]
    pub fn shown(&self) -> String {
        format!("{}:{}", self.platform(), shown_channel(self.platform(), self.channel()))
    }

    /// What stands behind the colon.
    #[must_use]
    pub fn channel(&self) -> &str {
        match self {
            Self::Email(address) => address,
            Self::Webhook(url) => url.as_str(),
            Self::Channel { channel, .. } => channel,
        }
    }
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        let problem = |problem| Err(TargetError { problem });
        let Some((platform, channel)) = text.split_once(':') else { return problem("there is no colon in it") };
        // The owner, by the address in the profile.
        if platform == Self::EMAIL && channel.is_empty() {
            return Ok(Self::Email(String::new()));
        }
        if channel.is_empty() || channel.len() > MAX_CHANNEL || channel.chars().any(char::is_control) {
            return problem("what follows the colon is empty, too long, or has control characters");
        }
        match platform {
            Self::EMAIL if is_mailbox(channel) => Ok(Self::Email(channel.to_owned())),
            Self::EMAIL => problem("what follows `email:` is no address"),
            Self::WEBHOOK => match Url::parse(channel) {
                Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => Ok(Self::Webhook(url)),
                _ => problem("what follows `webhook:` is no http(s) url"),
            },
            _ if is_platform(platform) => {
                Ok(Self::Channel { platform: platform.to_owned(), channel: channel.to_owned() })
            }
            _ => problem("a platform has a lower-case letter, then letters, digits and `_`, at most 32"),
        }
    }
}

fn is_platform(text: &str) -> bool {
    text.len() <= MAX_PLATFORM
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

/// With the whole address: what [`FromStr`] reads again.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.platform(), self.channel())
    }
}

/// Without what an address may keep secret.
impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown())
    }
}

/// A channel as it may be shown: of a url only the scheme and the host, for user, path and query may hold a
/// token.
pub(super) fn shown_channel(platform: &str, channel: &str) -> String {
    match Url::parse(channel) {
        Ok(url) if matches!(url.scheme(), "http" | "https") => url.origin().ascii_serialization(),
        _ if platform == Target::WEBHOOK => "?".to_owned(),
        _ => channel.to_owned(),
    }
}

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
    fn targets_are_read_and_refused() {
        for good in [
            "email:a@b.co",
            "email:you@localhost",
            "email:",
            "webhook:https://x.example/a?b=c",
            "slack:#general",
            "google_chat:spaces/A:b",
        ] {
            assert_eq!(good.parse::<Target>().map(|target| target.to_string()), Ok(good.to_owned()));
        }
        for bad in ["", "email", "email:x", "webhook:ftp://x", "webhook:x", "Slack:#x", "1x:y", "slack:a\nb", ":x"] {
            assert!(bad.parse::<Target>().is_err(), "{bad}");
        }
    }

    #[test]
    fn the_secret_of_a_webhook_is_not_shown() {
        let target: Target = "webhook:https://user:pass@hooks.example:8443/T0/secret?token=x".parse().unwrap();
        assert_eq!(format!("{target:?}"), "webhook:https://hooks.example:8443");
        for (target, shown) in [
            ("slack:https://hooks.example/services/T0/secret", "slack:https://hooks.example"),
            ("slack:#general", "slack:#general"),
            ("teams:19:abc@thread.v2", "teams:19:abc@thread.v2"),
            ("google_chat:spaces/A:b", "google_chat:spaces/A:b"),
            ("email:a@b.co", "email:a@b.co"),
        ] {
            assert_eq!(target.parse::<Target>().unwrap().shown(), shown);
        }
    }

    #[test]
    fn a_subject_is_one_line() {
        assert_eq!(one_line(" a\r\nBcc: x@y.z\t b\u{0} "), "a Bcc: x@y.z b");
        let long = one_line(&"ä".repeat(400));
        assert_eq!((long.chars().count(), long.ends_with('…')), (301, true));
    }

    proptest! {
        #[test]
        fn whatever_is_read_reads_back(text in "\\PC{0,60}", platform in "(email|webhook|slack|[a-zA-Z0-9_]{0,8})") {
            if let Ok(target) = format!("{platform}:{text}").parse::<Target>() {
                prop_assert_eq!(target.to_string().parse::<Target>(), Ok(target));
            }
        }

        #[test]
        fn no_subject_breaks_a_header(text in any::<String>()) {
            let line = one_line(&text);
            prop_assert!(!line.chars().any(char::is_control));
            prop_assert!(line.chars().count() <= SUBJECT_CHARACTERS + 1);
        }
    }
}
