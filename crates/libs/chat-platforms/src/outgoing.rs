//! What goes out, and what comes of it.

use std::fmt;
use std::time::Duration;

use agentd_base::Redactor;
use agentd_net::NetError;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::incoming_text::redacted_name;

/// Where a message goes: kept as JSON beside what it answers. Holds no credential but the short-lived ones that a
/// platform hands out for one answer; `Debug` does not show those.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Address {
    /// The chat, as it stands behind the colon of a target: a Telegram chat id, a Slack or Discord channel, a telephone
    /// number, a Teams conversation, a Google Chat space.
    pub channel: String,
    /// The thread or message that is answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    /// What else the platform wants to know, in a form of its own.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub details: Value,
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields = self.details.as_object().map(|details| details.keys().collect::<Vec<_>>()).unwrap_or_default();
        let mut shown = f.debug_struct("Address");
        shown.field("channel", &self.channel).field("thread", &self.thread).field("details", &fields).finish()
    }
}

impl Address {
    #[must_use]
    pub fn of_channel(channel: impl Into<String>) -> Self {
        Self { channel: channel.into(), thread: None, details: Value::Null }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ButtonStyle {
    Primary,
    Danger,
}

/// Something to press under a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Button {
    /// At most 20 characters.
    pub label: String,
    /// Comes back as it is: at most 64 bytes of `[A-Za-z0-9_:.-]`.
    pub data: String,
    pub style: ButtonStyle,
}

/// One message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    /// One of the messages of [`ChatPlatform::render`](crate::ChatPlatform::render) or
    /// [`render_text`](crate::ChatPlatform::render_text): in the platform's markup, and within its limit.
    pub text: String,
    /// Whether the text is one of [`render_text`](crate::ChatPlatform::render_text): platforms that can turn formatting
    /// off do.
    pub is_plain: bool,
    /// At most three; empty for most messages.
    pub buttons: Vec<Button>,
}

impl Outgoing {
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_plain: false, buttons: Vec::new() }
    }
}

/// The platform has it.
#[derive(Debug, Clone, PartialEq)]
pub struct Sent {
    /// What the platform knows the message by.
    pub id: String,
    /// The message itself, for [`ChatPlatform::settle`](crate::ChatPlatform::settle).
    pub message: Address,
}

/// What the platform says of the credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// The bot's own id.
    pub id: String,
    /// Its name, for people.
    pub name: String,
    /// The address that the platform sends to, where it tells.
    pub webhook_url: Option<String>,
    /// What the platform says went wrong when it last sent, where it tells.
    pub last_error: Option<String>,
}

impl Account {
    /// The account without secrets that the platform repeated in a field.
    pub(crate) fn redacted(self, redactor: &Redactor) -> Self {
        let redacted = |text| redacted_name(text, redactor);
        Self {
            id: redacted(self.id),
            name: redacted(self.name),
            webhook_url: self.webhook_url.map(redacted),
            last_error: self.last_error.map(redacted),
        }
    }
}

/// Why something was not sent: a sentence for the owner, without anything secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// What sending takes is not set. A sentence.
    #[error("{0}")]
    NotSetUp(String),
    /// Too much was sent; the platform may have said how long to wait.
    #[error("{message}")]
    RateLimited { message: String, wait: Option<Duration> },
    /// It may come through later: the platform is away, slow or has a fault of its own.
    #[error("{0}")]
    Later(String),
    /// The credentials are refused.
    #[error("{0}")]
    Credentials(String),
    /// The person blocked the bot, or left.
    #[error("{0}")]
    Blocked(String),
    /// The chat, the thread or the channel is gone, or was never there for this bot.
    #[error("{0}")]
    Gone(String),
    /// The platform takes no message of this kind there any more, such as WhatsApp a day after the last one of the
    /// person.
    #[error("{0}")]
    WindowClosed(String),
    /// The platform refuses this message for good.
    #[error("{0}")]
    Refused(String),
}

impl From<NetError> for SendError {
    /// A refusal too may end: the owner may permit the address meanwhile.
    fn from(error: NetError) -> Self {
        Self::Later(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn debug_shows_no_token() {
        let address = Address { details: json!({"interaction_token": "t0ken"}), ..Address::of_channel("1") };
        let shown = "Address { channel: \"1\", thread: None, details: [\"interaction_token\"] }";
        assert_eq!(format!("{address:?}"), shown);
    }
}
