//! Sending and editing of messages.

use serde_json::{Value, json};

use super::Slack;
use super::api::ts_of;
use crate::incoming_text::id;
use crate::outgoing::{Address, Button, ButtonStyle, Outgoing, SendError, Sent};

impl Slack {
    pub(super) async fn post_message(&self, to: &Address, message: &Outgoing) -> Result<Sent, SendError> {
        let mut body = body(&to.channel, &message.text);
        body["mrkdwn"] = json!(!message.is_plain);
        body["unfurl_links"] = json!(false);
        body["unfurl_media"] = json!(false);
        if let Some(thread) = &to.thread {
            body["thread_ts"] = json!(thread);
        }
        if !message.buttons.is_empty() {
            body["blocks"] = blocks(message);
        }
        let answer = self.call("chat.postMessage", &body).await?;
        let ts = ts_of(&answer)?;
        let message = Address {
            // For a user this is the direct chat.
            channel: id(&answer["channel"]).unwrap_or_else(|| to.channel.clone()),
            thread: to.thread.clone(),
            details: json!({"ts": ts}),
        };
        let id = id(&Value::String(format!("{}:{ts}", message.channel)));
        let missing =
            || SendError::Refused("Slack accepted the message but returned an id that is too long".to_owned());
        Ok(Sent { id: id.ok_or_else(missing)?, message })
    }

    pub(super) async fn update_message(&self, message: &Address, text: &str) -> Result<(), SendError> {
        let ts = message.details["ts"].as_str();
        let ts = ts.ok_or_else(|| SendError::Refused("the address contains no Slack message id".to_owned()))?;
        let mut body = body(&message.channel, text);
        body["ts"] = json!(ts);
        // Omitted blocks would be kept.
        body["blocks"] = json!([]);
        self.call("chat.update", &body).await?;
        Ok(())
    }
}

/// Returns the message body. `parse` disables automatic mentions and links; it must be set explicitly for edits, where
/// it is not the default.
fn body(channel: &str, text: &str) -> Value {
    json!({"channel": channel, "text": text, "parse": "none"})
}

fn blocks(message: &Outgoing) -> Value {
    let buttons: Vec<Value> = message.buttons.iter().enumerate().map(|(number, of)| button(number, of)).collect();
    json!([
        {"type": "section", "text": {"type": "mrkdwn", "text": message.text, "verbatim": true}},
        {"type": "actions", "elements": buttons},
    ])
}

fn button(number: usize, button: &Button) -> Value {
    json!({
        "type": "button",
        "action_id": format!("button_{number}"),
        "text": {"type": "plain_text", "text": button.label, "emoji": false},
        "value": button.data,
        "style": match button.style {
            ButtonStyle::Primary => "primary",
            ButtonStyle::Danger => "danger",
        },
    })
}
