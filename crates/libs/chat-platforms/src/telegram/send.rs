//! Sending and editing of messages.

use serde_json::{Value, json};

use super::Telegram;
use super::api::{SHORT_TIME_LIMIT, TIME_LIMIT};
use crate::outgoing::{Address, Button, Outgoing, SendError, Sent};

impl Telegram {
    pub(super) async fn send_message(&self, to: &Address, message: &Outgoing) -> Result<Sent, SendError> {
        let mut body = message_body(to, &message.text);
        if let Some(id) = to.details["reply_to_message_id"].as_i64() {
            body["reply_parameters"] = json!({"message_id": id, "allow_sending_without_reply": true});
        }
        if !message.buttons.is_empty() {
            body["reply_markup"] = json!({"inline_keyboard": [keyboard_row(&message.buttons)]});
        }
        let mut channel = to.channel.clone();
        let sent = match self.call("sendMessage", &body, TIME_LIMIT).await {
            Ok(sent) => sent,
            Err(failure) => {
                // The group became a supergroup, which has none of its messages.
                let moved_to = failure.moved_to.ok_or(failure.error)?;
                channel = moved_to.to_string();
                body["chat_id"] = json!(moved_to);
                if let Some(body) = body.as_object_mut() {
                    body.remove("reply_parameters");
                }
                self.call("sendMessage", &body, TIME_LIMIT).await?
            }
        };
        let id = sent["message_id"].as_i64().ok_or_else(|| {
            // Not retried, since the message was sent.
            SendError::Refused("Telegram accepted the message but returned no id for it".to_owned())
        })?;
        let message = Address { channel, thread: to.thread.clone(), details: json!({"message_id": id}) };
        Ok(Sent { id: id.to_string(), message })
    }

    pub(super) async fn settle_message(&self, message: &Address, text: &str) -> Result<(), SendError> {
        let id = message.details["message_id"].as_i64();
        let id = id.ok_or_else(|| SendError::Refused("the address contains no Telegram message id".to_owned()))?;
        if let Some(query) = message.details["callback_query_id"].as_str() {
            // Ends the progress indicator of the button, which disappears by itself if this fails.
            let body = json!({"callback_query_id": query});
            if let Err(failure) = self.call("answerCallbackQuery", &body, SHORT_TIME_LIMIT).await {
                tracing::debug!(error = %failure.error, "failed to answer Telegram callback query");
            }
        }
        let body = json!({
            "chat_id": chat_id(&message.channel),
            "message_id": id,
            "text": text,
            "parse_mode": "HTML",
            "link_preview_options": {"is_disabled": true},
            "reply_markup": {"inline_keyboard": []},
        });
        match self.call("editMessageText", &body, TIME_LIMIT).await {
            Ok(_) => Ok(()),
            // Already settled.
            Err(failure) if failure.error.to_string().contains("message is not modified") => Ok(()),
            Err(failure) => Err(failure.error),
        }
    }

    pub(super) async fn send_typing(&self, to: &Address) -> Result<(), SendError> {
        let mut body = json!({"chat_id": chat_id(&to.channel), "action": "typing"});
        set_thread(&mut body, to);
        self.call("sendChatAction", &body, SHORT_TIME_LIMIT).await?;
        Ok(())
    }
}

fn message_body(to: &Address, text: &str) -> Value {
    let mut body = json!({
        "chat_id": chat_id(&to.channel),
        "text": text,
        "parse_mode": "HTML",
        "link_preview_options": {"is_disabled": true},
    });
    set_thread(&mut body, to);
    body
}

fn set_thread(body: &mut Value, to: &Address) {
    if let Some(thread) = to.thread.as_deref().and_then(|thread| thread.parse::<i64>().ok()) {
        body["message_thread_id"] = json!(thread);
    }
}

/// Returns a chat ID: a number, or the @name of a public chat.
fn chat_id(channel: &str) -> Value {
    channel.parse::<i64>().map_or_else(|_| json!(channel), |id| json!(id))
}

/// Returns the buttons, without styles, which not all Telegram clients support.
fn keyboard_row(buttons: &[Button]) -> Vec<Value> {
    buttons.iter().map(|button| json!({"text": button.label, "callback_data": button.data})).collect()
}
