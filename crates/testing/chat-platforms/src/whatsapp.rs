//! Fake Cloud API on loopback, as strict as Meta's.

use std::collections::BTreeSet;
use std::io;

use agentd_base::Secret;
use agentd_chat_platforms::WebhookRequest;
use agentd_chat_platforms::whatsapp::WhatsappConfig;
use aws_lc_rs::hmac::{self, HMAC_SHA256};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method};
use parking_lot::Mutex;
use serde_json::{Value, json};
use url::Url;

use crate::server::{Answer, Call, FakeFiles, FakeServer, Vendor};
pub use crate::server::{Behaviour, FakeFile, RecordedRequest};

const TOKEN: &str = "EAAfake-access-token";
const APP_SECRET: &str = "fake-app-secret";
const VERIFY_TOKEN: &str = "fake-verify-token";
const NUMBER_ID: &str = "106540352242922";

/// Running fake, which stops when dropped.
#[derive(Debug)]
pub struct FakeWhatsapp(FakeServer<Graph>);

impl FakeWhatsapp {
    /// Starts the fake on a loopback port.
    ///
    /// # Errors
    /// Binding a loopback port fails.
    pub async fn start() -> io::Result<Self> {
        let server = FakeServer::start(Graph::default()).await?;
        *server.vendor().media.lock() = Some(server.url("/whatsapp_business/attachments/"));
        Ok(Self(server))
    }

    /// Adds media sent to the number.
    pub fn put_file(&self, id: &str, file: FakeFile) {
        self.0.vendor().files.put(id, file);
    }

    /// Sets the base URL of media, which are addressed by ID.
    pub fn set_media_url(&self, url: Url) {
        *self.0.vendor().media.lock() = Some(url);
    }

    /// Returns a document with these media.
    #[must_use]
    pub fn document(&self, id: &str, sender: &str, caption: &str, media_id: &str) -> WebhookRequest {
        let document =
            json!({"id": media_id, "mime_type": "application/pdf", "filename": "report.pdf", "caption": caption});
        self.messages(&[json!({
            "from": sender, "id": id, "timestamp": "1795600000", "type": "document", "document": document,
        })])
    }

    /// Returns the delivery failure of an accepted message.
    #[must_use]
    pub fn failed(&self, message_id: &str, code: u32, title: &str) -> WebhookRequest {
        let error = json!({"code": code, "title": title, "message": title, "error_data": {"details": title}});
        self.change(&json!({"statuses": [{
            "id": message_id, "status": "failed", "timestamp": "1795600000", "recipient_id": "491701234567",
            "errors": [error],
        }]}))
    }

    /// Returns a configuration for this fake.
    #[must_use]
    pub fn config(&self) -> WhatsappConfig {
        WhatsappConfig {
            api_base_url: Some(self.0.url("/")),
            app_secret: Some(Secret::new(APP_SECRET.to_owned())),
            verify_token: Some(Secret::new(VERIFY_TOKEN.to_owned())),
            access_token: Some(Secret::new(TOKEN.to_owned())),
            phone_number_id: Some(NUMBER_ID.to_owned()),
        }
    }

    /// Overrides the response to the next request without an override.
    pub fn misbehave(&self, behaviour: Behaviour) {
        self.0.misbehave(behaviour);
    }

    /// Returns all requests, oldest first.
    #[must_use]
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.0.requests()
    }

    /// Returns the bodies of all messages, including rejected ones.
    #[must_use]
    pub fn sent(&self) -> Vec<Value> {
        self.0.sent(|request| request.path.ends_with("/messages") && request.body["status"].is_null())
    }

    /// Returns a text message.
    #[must_use]
    pub fn message(&self, id: &str, sender: &str, text: &str) -> WebhookRequest {
        let message = json!({
            "from": sender, "id": id, "timestamp": "1795600000", "type": "text", "text": {"body": text},
        });
        self.messages(&[message])
    }

    /// Returns a button press below the message `message_id`.
    #[must_use]
    pub fn press(&self, id: &str, sender: &str, data: &str, message_id: &str) -> WebhookRequest {
        self.messages(&[json!({
            "from": sender, "id": id, "timestamp": "1795600000", "type": "interactive",
            "context": {"from": "15550783881", "id": message_id},
            "interactive": {"type": "button_reply", "button_reply": {"id": data, "title": "Yes"}},
        })])
    }

    /// Returns messages of any kind in one request.
    #[must_use]
    pub fn messages(&self, messages: &[Value]) -> WebhookRequest {
        let senders: BTreeSet<&str> = messages.iter().filter_map(|message| message["from"].as_str()).collect();
        let contacts: Vec<Value> =
            senders.iter().map(|sender| json!({"wa_id": sender, "profile": {"name": "Anna"}})).collect();
        self.change(&json!({"contacts": contacts, "messages": messages}))
    }

    fn change(&self, fields: &Value) -> WebhookRequest {
        let mut value = json!({
            "messaging_product": "whatsapp",
            "metadata": {"display_phone_number": "15550783881", "phone_number_id": NUMBER_ID},
        });
        for (name, field) in fields.as_object().into_iter().flatten() {
            value[name] = field.clone();
        }
        self.event(&json!({"object": "whatsapp_business_account", "entry": [{"id": "102290129340398", "changes": [{
            "field": "messages", "value": value,
        }]}]}))
    }

    /// Returns any event as a signed request.
    #[must_use]
    pub fn event(&self, event: &Value) -> WebhookRequest {
        let body = Bytes::from(event.to_string());
        let mut headers = HeaderMap::new();
        if let Ok(signature) = HeaderValue::from_str(&sign(APP_SECRET, &body)) {
            headers.insert("x-hub-signature-256", signature);
        }
        WebhookRequest { method: Method::POST, query: String::new(), headers, body }
    }

    /// Returns the webhook handshake.
    #[must_use]
    pub fn handshake(&self, challenge: &str) -> WebhookRequest {
        let query = form_urlencoded::Serializer::new(String::new())
            .append_pair("hub.mode", "subscribe")
            .append_pair("hub.challenge", challenge)
            .append_pair("hub.verify_token", VERIFY_TOKEN)
            .finish();
        WebhookRequest { method: Method::GET, query, headers: HeaderMap::new(), body: Bytes::new() }
    }
}

fn sign(secret: &str, body: &[u8]) -> String {
    let key = hmac::Key::new(HMAC_SHA256, secret.as_bytes());
    format!("sha256={}", hex::encode(hmac::sign(&key, body)))
}

#[derive(Debug, Default)]
struct Graph {
    count: Mutex<u64>,
    files: FakeFiles,
    /// Base URL of media.
    media: Mutex<Option<Url>>,
}

impl Graph {
    fn media(&self, call: &Call, id: &str) -> Result<Answer, Answer> {
        if call.query != format!("phone_number_id={NUMBER_ID}") || self.files.get(id).is_none() {
            return Err(unknown_number());
        }
        let url = self.media.lock().as_ref().and_then(|media| media.join(id).ok());
        Ok(Answer::ok(
            json!({"messaging_product": "whatsapp", "id": id, "url": url.map(String::from), "mime_type": "application/pdf"}),
        ))
    }
}

impl Vendor for Graph {
    fn misbehave(&self, behaviour: Behaviour) -> Answer {
        match behaviour {
            Behaviour::RateLimited(wait) => error(429, 130_429, None, "(#130429) Rate limit hit").retry_after(wait),
            Behaviour::ServerError | Behaviour::Hang => error(500, 131_000, None, "(#131000) Something went wrong"),
            Behaviour::Blocked => error(400, 131_026, None, "(#131026) Message undeliverable"),
            Behaviour::Gone => unknown_number(),
            Behaviour::WindowClosed => error(400, 131_047, None, "(#131047) Re-engagement message"),
            Behaviour::CredentialsRefused => wrong_token(),
        }
    }

    fn answer(&self, call: &Call) -> Result<Answer, Answer> {
        if call.bearer() != Some(TOKEN) {
            return Err(wrong_token());
        }
        match (&call.method, call.path().as_slice()) {
            (&Method::GET, [NUMBER_ID]) => Ok(Answer::ok(json!({
                "verified_name": "Fake", "display_phone_number": "+1 555-078-3881", "id": NUMBER_ID,
            }))),
            (&Method::POST, [NUMBER_ID, "messages"]) => {
                let body = &call.body;
                if body["status"] == "read" {
                    check_typing(body).map_err(invalid)?;
                    return Ok(Answer::ok(json!({"success": true})));
                }
                check_message(body).map_err(invalid)?;
                let mut count = self.count.lock();
                *count += 1;
                let to = &body["to"];
                Ok(Answer::ok(json!({
                    "messaging_product": "whatsapp",
                    "contacts": [{"input": to, "wa_id": to}],
                    "messages": [{"id": format!("wamid.sent{count}")}],
                })))
            }
            (&Method::GET, ["whatsapp_business", "attachments", id]) => {
                self.files.get(id).map(Answer::file).ok_or_else(|| Answer::new(404, Value::Null))
            }
            (&Method::GET, [media]) => self.media(call, media),
            _ => Err(unknown_number()),
        }
    }
}

fn error(status: u16, code: u32, subcode: Option<u32>, message: &str) -> Answer {
    let mut error = json!({"message": message, "type": "OAuthException", "code": code, "fbtrace_id": "AbCd"});
    if let Some(subcode) = subcode {
        error["error_subcode"] = json!(subcode);
    }
    Answer::new(status, json!({"error": error}))
}

fn invalid(problem: &'static str) -> Answer {
    error(400, 100, None, &format!("(#100) Invalid parameter: {problem}"))
}

/// Returns the error for an invalid token, which Meta repeats in the message.
fn wrong_token() -> Answer {
    error(401, 190, None, &format!("Malformed access token {TOKEN}"))
}

fn unknown_number() -> Answer {
    error(400, 100, Some(33), "Unsupported post request. Object does not exist or cannot be loaded")
}

fn check(condition: bool, problem: &'static str) -> Result<(), &'static str> {
    if condition { Ok(()) } else { Err(problem) }
}

fn has_only(value: &Value, fields: &[&str]) -> bool {
    value.as_object().is_some_and(|object| object.keys().all(|field| fields.contains(&field.as_str())))
}

fn is_text(value: &Value, max_chars: usize) -> bool {
    value.as_str().is_some_and(|text| !text.trim().is_empty() && text.chars().count() <= max_chars)
}

fn is_message_id(value: &Value) -> bool {
    value.as_str().is_some_and(|id| id.starts_with("wamid."))
}

fn check_typing(body: &Value) -> Result<(), &'static str> {
    check(has_only(body, &["messaging_product", "status", "message_id", "typing_indicator"]), "unknown field")?;
    check(body["messaging_product"] == "whatsapp", "messaging_product")?;
    check(is_message_id(&body["message_id"]), "message_id")?;
    check(body["typing_indicator"] == json!({"type": "text"}), "typing_indicator")
}

fn check_message(body: &Value) -> Result<(), &'static str> {
    let fields = ["messaging_product", "recipient_type", "to", "type", "context", "text", "interactive"];
    check(has_only(body, &fields), "unknown field")?;
    check(body["messaging_product"] == "whatsapp", "messaging_product")?;
    check(body["recipient_type"] == "individual", "recipient_type")?;
    let is_number = |to: &str| (5..=15).contains(&to.len()) && to.bytes().all(|byte| byte.is_ascii_digit());
    check(body["to"].as_str().is_some_and(is_number), "to")?;
    check(body["context"].is_null() || is_message_id(&body["context"]["message_id"]), "context.message_id")?;
    match body["type"].as_str() {
        Some("text") => {
            check(body["interactive"].is_null(), "interactive")?;
            check(has_only(&body["text"], &["preview_url", "body"]), "unknown field in text")?;
            check(body["text"]["preview_url"].is_boolean(), "text.preview_url")?;
            check(is_text(&body["text"]["body"], 4096), "text.body")?;
            check_markup(body["text"]["body"].as_str().unwrap_or_default())
        }
        Some("interactive") => {
            check(body["text"].is_null(), "text")?;
            check_buttons(&body["interactive"])
        }
        _ => Err("type"),
    }
}

fn check_buttons(interactive: &Value) -> Result<(), &'static str> {
    check(has_only(interactive, &["type", "body", "action"]), "unknown field in interactive")?;
    check(interactive["type"] == "button", "interactive.type")?;
    check(is_text(&interactive["body"]["text"], 1024), "interactive.body.text")?;
    check_markup(interactive["body"]["text"].as_str().unwrap_or_default())?;
    let buttons = interactive["action"]["buttons"].as_array().ok_or("interactive.action.buttons")?;
    check((1..=3).contains(&buttons.len()), "the number of buttons")?;
    let (mut ids, mut titles) = (BTreeSet::new(), BTreeSet::new());
    for button in buttons {
        let reply = &button["reply"];
        check(button["type"] == "reply" && has_only(reply, &["id", "title"]), "the type of a button")?;
        check(is_text(&reply["title"], 20) && titles.insert(reply["title"].to_string()), "the title of a button")?;
        let is_trimmed = reply["id"].as_str().is_some_and(|id| id.trim() == id);
        check(is_text(&reply["id"], 256) && is_trimmed && ids.insert(reply["id"].to_string()), "the id of a button")?;
    }
    Ok(())
}

/// Checks that blocks of code are closed.
///
/// # Errors
/// Returns the reason.
pub fn check_markup(text: &str) -> Result<(), &'static str> {
    check(text.matches("```").count().is_multiple_of(2), "a block of code is left open")
}
