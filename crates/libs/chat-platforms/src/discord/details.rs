//! Discord-specific details of an address.

use agentd_base::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::outgoing::Address;

/// Value of [`Address::details`]. Has no `Debug` implementation, since it may contain a token.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Details {
    #[serde(flatten)]
    pub(super) interaction: Option<Interaction>,
    /// ID of the message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) message_id: Option<String>,
    /// Whether the interaction came from a button of this message, which makes it the original response.
    #[serde(skip_serializing_if = "is_false")]
    pub(super) is_original: bool,
    /// ID of the message to reply to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reply_to_message_id: Option<String>,
}

/// Interaction that accepts messages of the application for 15 minutes.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Interaction {
    pub(super) interaction_token: String,
    pub(super) application_id: String,
    pub(super) expires_at: Timestamp,
}

/// Whether the text is a Discord ID (snowflake) in decimal.
pub(super) fn is_snowflake(text: &str) -> bool {
    (1..=20).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_false(value: &bool) -> bool {
    !value
}

impl Details {
    /// Reads the details of an address; empty if they have another form.
    pub(super) fn of(address: &Address) -> Self {
        let mut details = Self::deserialize(&address.details).unwrap_or_default();
        let is_sound = |interaction: &Interaction| {
            is_snowflake(&interaction.application_id) && !interaction.interaction_token.is_empty()
        };
        details.interaction = details.interaction.filter(is_sound);
        details
    }

    pub(super) fn to_value(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    /// Returns the interaction if it still accepts messages.
    pub(super) fn open_interaction(&self, now: Timestamp) -> Option<&Interaction> {
        self.interaction.as_ref().filter(|interaction| now < interaction.expires_at)
    }
}
