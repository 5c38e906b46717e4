//! Events to messages, decisions, and messages of ours that did not arrive.

use agentd_base::Timestamp;
use serde_json::Value;

use super::Whatsapp;
use super::files::source;
use super::send::meaning_of;
use crate::incoming_text::{button_data, id, name, reason, some_name, text as clean};
use crate::message::{Attachment, Chat, Decision, Incoming, IncomingMessage, Sender, Undelivered};
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

    /// A message that WhatsApp took, and did not deliver after all.
    fn read_failure(&self, status: &Value) -> Option<Undelivered> {
        let error = &status["errors"][0];
        let details = [&error["error_data"]["details"], &error["message"], &error["title"]];
        let said =
            details.into_iter().map(|said| reason(said, &self.config.access_token)).find(|said| !said.is_empty());
        let reason = match error["code"].as_i64() {
            Some(code) => meaning_of(code, &said.unwrap_or_default()).to_string(),
            None => "WhatsApp did not deliver the message, and does not say why".to_owned(),
        };
        Some(Undelivered { message_id: id(&status["id"])?, reason })
    }
}

/// `None` for what is no message of a person to us alone.
fn read_message(message: &Value, contacts: &[Value]) -> Option<Incoming> {
    let message_id = id(&message["id"])?;
    let from = id(&message["from"]).filter(|from| from.bytes().all(|byte| byte.is_ascii_digit()))?;
    if !message["group_id"].is_null() {
        return None;
    }
    let contact = contacts.iter().find(|contact| contact["wa_id"] == from.as_str());
    let name = contact.map(|contact| name(&contact["profile"]["name"])).unwrap_or_default();
    let sender = Sender { id: from.clone(), name };
    let chat = Chat { id: from.clone(), thread: None, is_group: false };
    let reply_to = Address { thread: Some(message_id.clone()), ..Address::of_channel(from.as_str()) };
    let pressed = match message["type"].as_str()? {
        "interactive" => button_data(&message["interactive"]["button_reply"]["id"]),
        "button" => button_data(&message["button"]["payload"]),
        _ => None,
    };
    if let Some(data) = pressed {
        return Some(Incoming::Decision(Decision {
            id: message_id,
            sender,
            chat,
            data,
            message_id: id(&message["context"]["id"]).unwrap_or_default(),
            message: Address { thread: id(&message["context"]["id"]), ..Address::of_channel(from) },
            reply_to,
        }));
    }
    let (text, attachments) = read_content(message)?;
    let text = clean(&text);
    if text.is_empty() && attachments.is_empty() {
        return None;
    }
    Some(Incoming::Message(IncomingMessage {
        id: message_id,
        sender,
        chat,
        is_addressed: true,
        text,
        attachments,
        sent_at: seconds(&message["timestamp"]),
        reply_to,
    }))
}

/// `None` for kinds that say nothing: reactions, changes of numbers, orders, and what Meta cannot show either.
fn read_content(message: &Value) -> Option<(String, Vec<Attachment>)> {
    let kind = message["type"].as_str()?;
    let content = &message[kind];
    let text_of = |value: &Value| value.as_str().map(str::to_owned);
    match kind {
        "text" => Some((text_of(&content["body"])?, Vec::new())),
        "image" | "document" | "audio" | "video" | "sticker" => {
            let attachment = Attachment {
                name: name(&content["filename"]),
                media_type: some_name(&content["mime_type"]),
                bytes: content["file_size"].as_u64(),
                source: source(content),
            };
            Some((text_of(&content["caption"]).unwrap_or_default(), vec![attachment]))
        }
        "location" => Some((location(content)?, Vec::new())),
        "contacts" => Some((items(content).iter().map(contact).collect::<Vec<_>>().join("\n"), Vec::new())),
        // A button that is none of ours.
        "button" => Some((text_of(&content["text"])?, Vec::new())),
        "interactive" => {
            let chosen = ["button_reply", "list_reply"].iter().find_map(|reply| text_of(&content[*reply]["title"]))?;
            Some((chosen, Vec::new()))
        }
        _ => None,
    }
}

fn location(location: &Value) -> Option<String> {
    let (latitude, longitude) = (location["latitude"].as_f64()?, location["longitude"].as_f64()?);
    let place = ["name", "address"].map(|field| name(&location[field]));
    let mut lines: Vec<String> = place.into_iter().filter(|line| !line.is_empty()).collect();
    lines.push(format!("{latitude}, {longitude}"));
    Some(format!("Location: {}", lines.join("\n")))
}

fn contact(contact: &Value) -> String {
    let numbers = items(&contact["phones"]).iter().map(|phone| &phone["phone"]);
    let said = std::iter::once(&contact["name"]["formatted_name"]).chain(numbers).filter_map(some_name);
    format!("Contact: {}", said.collect::<Vec<_>>().join(", "))
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Seconds since 1970, as text.
fn seconds(value: &Value) -> Option<Timestamp> {
    let seconds: i64 = value.as_str()?.parse().ok()?;
    seconds.checked_mul(1_000_000).map(Timestamp::from_micros)
}
