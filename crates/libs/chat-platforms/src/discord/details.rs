//! What Discord wants to know of an address besides its channel.

use agentd_base::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::outgoing::Address;

/// Stands in [`Address::details`]. Without `Debug`: it may hold a token.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Details {
    #[serde(flatten)]
    pub(super) interaction: Option<Interaction>,
    /// The message itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) message_id: Option<String>,
    /// The interaction came of a button of the message, which is then its original one.
    #[serde(skip_serializing_if = "is_false")]
    pub(super) is_original: bool,
    /// The message that is answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reply_to_message_id: Option<String>,
}

/// Takes messages of the application for some minutes.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Interaction {
    pub(super) interaction_token: String,
    pub(super) application_id: String,
    pub(super) expires_at: Timestamp,
}

/// Numbers of Discord, in decimal.
pub(super) fn is_snowflake(text: &str) -> bool {
    (1..=20).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_false(value: &bool) -> bool {
    !value
}

impl Details {
    /// None where they are of another form.
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

    /// The interaction, as long as it takes messages.
    pub(super) fn open_interaction(&self, now: Timestamp) -> Option<&Interaction> {
        self.interaction.as_ref().filter(|interaction| now < interaction.expires_at)
    }
}
