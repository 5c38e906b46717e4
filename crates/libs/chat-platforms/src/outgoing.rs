//! Outgoing messages and their results.

use std::fmt;
use std::time::Duration;

use agentd_base::Redactor;
use agentd_net::NetError;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::incoming_text::redacted_name;

/// Target of a message, stored as JSON with the message that it answers. It contains no credentials except short-lived
/// reply tokens of a platform, which `Debug` hides.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Address {
    /// Chat, as written after the colon of a target: a Telegram chat ID, a Slack or Discord channel, a telephone
    /// number, a Teams conversation, a Google Chat space.
    pub channel: String,
    /// Thread or message to reply to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    /// Platform-specific details.
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

/// Button below a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Button {
    /// Label, up to 20 characters.
    pub label: String,
    /// Data returned when pressed: up to 64 bytes of `[A-Za-z0-9_:.-]`.
    pub data: String,
    pub style: ButtonStyle,
}

/// Outgoing message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    /// Part returned by [`ChatPlatform::render`](crate::ChatPlatform::render) or
    /// [`render_text`](crate::ChatPlatform::render_text): in the platform's markup and within its limit.
    pub text: String,
    /// Whether the text comes from [`render_text`](crate::ChatPlatform::render_text). Platforms that can disable
    /// formatting then do so.
    pub is_plain: bool,
    /// Buttons, up to three.
    pub buttons: Vec<Button>,
}

impl Outgoing {
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_plain: false, buttons: Vec::new() }
    }
}

/// Message accepted by the platform.
#[derive(Debug, Clone, PartialEq)]
pub struct Sent {
    /// ID of the message on the platform.
    pub id: String,
    /// Address of the message, for [`ChatPlatform::settle`](crate::ChatPlatform::settle).
    pub message: Address,
}

/// Account that the credentials belong to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// ID of the bot.
    pub id: String,
    /// Display name of the bot.
    pub name: String,
    /// Webhook URL registered at the platform, if reported.
    pub webhook_url: Option<String>,
    /// Last delivery error of the platform, if reported.
    pub last_error: Option<String>,
}

impl Account {
    /// Removes secrets that the platform repeated in a field.
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

/// Failure to send, with a message for the owner that contains no secrets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// Required configuration is missing.
    #[error("{0}")]
    NotSetUp(String),
    /// Rate limit reached; the platform may state a delay.
    #[error("{message}")]
    RateLimited { message: String, wait: Option<Duration> },
    /// Temporary failure: the platform is unavailable, slow or has an internal error.
    #[error("{0}")]
    Later(String),
    /// The platform rejected the credentials.
    #[error("{0}")]
    Credentials(String),
    /// The user blocked the bot or left.
    #[error("{0}")]
    Blocked(String),
    /// The chat, thread or channel no longer exists or is not accessible to the bot.
    #[error("{0}")]
    Gone(String),
    /// The messaging window is closed, for example on WhatsApp 24 hours after the last message of the user.
    #[error("{0}")]
    WindowClosed(String),
    /// The platform permanently rejected the message.
    #[error("{0}")]
    Refused(String),
}

impl From<NetError> for SendError {
    /// Maps every network error to a temporary failure, since the owner may permit a refused address later.
    fn from(error: NetError) -> Self {
        Self::Later(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn debug_hides_tokens() {
        let address = Address { details: json!({"interaction_token": "t0ken"}), ..Address::of_channel("1") };
        let shown = "Address { channel: \"1\", thread: None, details: [\"interaction_token\"] }";
        assert_eq!(format!("{address:?}"), shown);
    }
}
