//! Conversion of events to messages, decisions and delivery failures.

use agentd_base::Timestamp;
use serde_json::Value;

use super::Whatsapp;
use super::contents::content;
use super::kinds::KINDS;
use super::send::error_for_code;
use crate::content::Parts;
use crate::incoming_text::{button_data, id, name, reason};
use crate::kinds::{Handling, OTHER, handling};
use crate::message::{Chat, Decision, Incoming, IncomingMessage, Sender, Undelivered};
use crate::outgoing::Address;
use crate::webhook::{Received, WebhookAnswer};

impl Whatsapp {
    /// Reads a verified event.
    pub(crate) fn read(&self, event: &Value) -> Received {
        let mut incoming = Vec::new();
        if event["object"] == "whatsapp_business_account" {
            let changes = items(&event["entry"]).iter().flat_map(|entry| items(&entry["changes"]));
            for change in changes.filter(|change| change["field"] == "messages") {
                self.read_change(&change["value"], &mut incoming);
            }
        }
        Received { answer: WebhookAnswer::empty(), incoming }
    }

    fn read_change(&self, value: &Value, incoming: &mut Vec<Incoming>) {
        let number = value["metadata"]["phone_number_id"].as_str();
        if number.is_none() || number != self.config.phone_number_id.as_deref() {
            return;
        }
        for message in items(&value["messages"]) {
            incoming.extend(read_message(message, items(&value["contacts"])));
        }
        let failed = items(&value["statuses"]).iter().filter(|status| status["status"] == "failed");
        incoming.extend(failed.filter_map(|status| self.read_failure(status)).map(Incoming::Undelivered));
    }

    /// Reads the failure of a message that WhatsApp had accepted.
    fn read_failure(&self, status: &Value) -> Option<Undelivered> {
        let error = &status["errors"][0];
        let details = [&error["error_data"]["details"], &error["message"], &error["title"]];
        let detail = details
            .into_iter()
            .map(|detail| reason(detail, &self.config.access_token))
            .find(|detail| !detail.is_empty());
        let reason = match error["code"].as_i64() {
            Some(code) => error_for_code(code, &detail.unwrap_or_default()).to_string(),
            None => "WhatsApp did not deliver the message and gave no reason".to_owned(),
        };
        Some(Undelivered { message_id: id(&status["id"])?, reason })
    }
}

/// Returns `None` for anything but a direct message of a user.
fn read_message(message: &Value, contacts: &[Value]) -> Option<Incoming> {
    let message_id = id(&message["id"])?;
    let from = id(&message["from"]).filter(|from| from.bytes().all(|byte| byte.is_ascii_digit()))?;
    if !message["group_id"].is_null() {
        return None;
    }
    let contact = contacts.iter().find(|contact| contact["wa_id"] == from.as_str());
    let sender = Sender { id: from.clone(), name: contact.map(|of| name(&of["profile"]["name"])).unwrap_or_default() };
    let chat = Chat { id: from.clone(), thread: None, is_group: false };
    let reply_to = Address { thread: Some(message_id.clone()), ..Address::of_channel(from.as_str()) };
    let kind = message["type"].as_str()?;
    if matches!(handling(KINDS, kind), Some(Handling::Ignored(_))) {
        return None;
    }
    let button = match kind {
        "interactive" => {
            (&message["interactive"]["button_reply"]["id"], &message["interactive"]["button_reply"]["title"])
        }
        "button" => (&message["button"]["payload"], &message["button"]["text"]),
        _ => (&Value::Null, &Value::Null),
    };
    if let Some(data) = button_data(button.0) {
        return Some(Incoming::Decision(Decision {
            id: message_id,
            sender,
            chat,
            data,
            message_id: id(&message["context"]["id"]).unwrap_or_default(),
            label: name(button.1),
            message: Address { thread: id(&message["context"]["id"]), ..Address::of_channel(from) },
            reply_to,
        }));
    }
    let content = content(message);
    let unreadable = content.is_empty().then_some(OTHER);
    let Parts { text, context, attachments } = content.into_parts();
    Some(Incoming::Message(IncomingMessage {
        id: message_id,
        sender,
        chat,
        is_addressed: true,
        text,
        context,
        attachments,
        album: None,
        unreadable,
        sent_at: seconds(&message["timestamp"]),
        reply_to,
    }))
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Parses a Unix timestamp from text.
fn seconds(value: &Value) -> Option<Timestamp> {
    let seconds: i64 = value.as_str()?.parse().ok()?;
    seconds.checked_mul(1_000_000).map(Timestamp::from_micros)
}
