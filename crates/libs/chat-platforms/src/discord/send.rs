//! Sending and editing of messages.

use http::Method;
use serde_json::{Value, json};

use super::Discord;
use super::details::{Details, is_snowflake};
use crate::outgoing::{Address, Button, ButtonStyle, Outgoing, SendError, Sent};

/// Message flag that suppresses link previews.
const SUPPRESS_EMBEDS: u64 = 1 << 2;
const ACTION_ROW: u64 = 1;
/// Component type of a button.
pub(super) const BUTTON: u64 = 2;

impl Discord {
    pub(super) async fn send_message(&self, to: &Address, message: &Outgoing) -> Result<Sent, SendError> {
        let details = Details::of(to);
        let mut body = body(&message.text, &message.buttons);
        body["flags"] = json!(SUPPRESS_EMBEDS);
        if let Some(interaction) = details.open_interaction(self.clock.now())
            && let Some(sent) = self.call_interaction(interaction, Method::POST, &[], &body).await?
        {
            let kept = Details { interaction: Some(interaction.clone()), ..Details::default() };
            return sent_as(to, &sent, kept);
        }
        if let Some(id) = &details.reply_to_message_id {
            body["message_reference"] = json!({"message_id": id, "fail_if_not_exists": false});
        }
        let sent = self.call_as_bot(Method::POST, &["channels", &to.channel, "messages"], Some(&body)).await;
        let sent = sent.map_err(|error| match error {
            SendError::NotSetUp(_) if details.interaction.is_some() => SendError::NotSetUp(
                "the 15 minutes for responding to the command have passed; set channels.discord.bot_token to allow \
                 later responses"
                    .to_owned(),
            ),
            other => other,
        })?;
        sent_as(to, &sent, Details::default())
    }

    pub(super) async fn settle_message(&self, message: &Address, text: &str) -> Result<(), SendError> {
        let details = Details::of(message);
        let id = details.message_id.as_deref();
        let id = id.ok_or_else(|| SendError::Refused("the address contains no Discord message id".to_owned()))?;
        let body = body(text, &[]);
        if let Some(interaction) = details.open_interaction(self.clock.now()) {
            let id = if details.is_original { "@original" } else { id };
            if self.call_interaction(interaction, Method::PATCH, &["messages", id], &body).await?.is_some() {
                return Ok(());
            }
        }
        self.call_as_bot(Method::PATCH, &["channels", &message.channel, "messages", id], Some(&body)).await?;
        Ok(())
    }

    pub(super) async fn send_typing(&self, to: &Address) -> Result<(), SendError> {
        // Discord already shows that a command is pending.
        if Details::of(to).open_interaction(self.clock.now()).is_some() {
            return Ok(());
        }
        self.call_as_bot(Method::POST, &["channels", &to.channel, "typing"], None).await?;
        Ok(())
    }
}

/// Returns the message body. Components are always present, since an edit keeps omitted ones.
fn body(text: &str, buttons: &[Button]) -> Value {
    let buttons: Vec<Value> = buttons.iter().map(component).collect();
    let rows = if buttons.is_empty() { json!([]) } else { json!([{"type": ACTION_ROW, "components": buttons}]) };
    json!({"content": text, "components": rows, "allowed_mentions": {"parse": []}})
}

fn component(button: &Button) -> Value {
    let style = match button.style {
        ButtonStyle::Primary => 1,
        ButtonStyle::Danger => 4,
    };
    json!({"type": BUTTON, "style": style, "label": button.label, "custom_id": button.data})
}

pub(super) fn sent_as(to: &Address, sent: &Value, details: Details) -> Result<Sent, SendError> {
    // Not retried, since the message was sent.
    let missing = || SendError::Refused("Discord accepted the message but returned no id for it".to_owned());
    let id = sent["id"].as_str().filter(|id| is_snowflake(id)).ok_or_else(missing)?.to_owned();
    let channel = sent["channel_id"].as_str().filter(|id| is_snowflake(id)).unwrap_or(&to.channel);
    let details = Details { message_id: Some(id.clone()), ..details };
    Ok(Sent { id, message: Address { details: details.to_value(), ..Address::of_channel(channel) } })
}
