//! Fake Slack on loopback, as strict as the real one except for invalid markup, which it rejects whereas Slack shows it
//! literally.

mod blocks;
mod socket;

use std::io;

use agentd_base::{Secret, Timestamp};
use agentd_chat_platforms::WebhookRequest;
use aws_lc_rs::hmac::{self, HMAC_SHA256};
use http::{HeaderMap, HeaderValue, Method};
use parking_lot::Mutex;
use serde_json::{Value, json};
use url::Url;

pub use self::blocks::check_mrkdwn;
pub use self::socket::SocketFault;
use self::socket::Sockets;
use crate::api_description::{self, ApiDescription};
use crate::server::{Answer, Call, FakeFiles, FakeServer, Vendor};
pub use crate::server::{Behaviour, FakeFile, RecordedRequest};

/// User ID of the bot.
pub const BOT_USER: &str = "U0FAKEBOT";
const FORM: &str = "application/x-www-form-urlencoded";
const MAX_TEXT: usize = 40_000;

/// Running fake, which stops when dropped.
#[derive(Debug)]
pub struct FakeSlack {
    server: FakeServer<WebApi>,
    signing_secret: Secret,
}

#[derive(Debug)]
struct WebApi {
    token: String,
    app_token: String,
    sockets: Sockets,
    messages: Mutex<Vec<Stored>>,
    files: FakeFiles,
}

#[derive(Debug)]
struct Stored {
    channel: String,
    ts: String,
}

impl FakeSlack {
    /// Starts a fake. `app_token` is the token for Socket Mode.
    ///
    /// # Errors
    /// Binding a loopback port fails.
    pub async fn start(token: &str, app_token: &str, signing_secret: &str) -> io::Result<Self> {
        let vendor = WebApi {
            token: token.to_owned(),
            app_token: app_token.to_owned(),
            sockets: Sockets::start().await?,
            messages: Mutex::default(),
            files: FakeFiles::default(),
        };
        let signing_secret = Secret::new(signing_secret.to_owned());
        Ok(Self { server: FakeServer::start(vendor).await?, signing_secret })
    }

    #[must_use]
    pub fn base_url(&self) -> Url {
        self.server.url("/api")
    }

    /// Overrides the response to the next request without an override.
    pub fn misbehave(&self, behaviour: Behaviour) {
        self.server.misbehave(behaviour);
    }

    /// Returns all requests, oldest first; the path is the method.
    #[must_use]
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.server.requests()
    }

    /// Returns the bodies of all messages, including rejected ones.
    #[must_use]
    pub fn sent(&self) -> Vec<Value> {
        self.server.sent(|request| request.path == "chat.postMessage")
    }

    /// Sends the payload of a request over a socket, now or when one is opened, until it is acknowledged.
    #[allow(clippy::expect_used, reason = "for tests, which give what this fake made")]
    pub fn push(&self, request: &WebhookRequest) {
        let payload = payload_of(request).expect("a payload");
        let kind = if payload["type"] == "event_callback" { "events_api" } else { "interactive" };
        self.sockets().push(kind, &payload);
    }

    /// Injects a fault into the open sockets.
    pub fn socket_fault(&self, fault: SocketFault) {
        self.sockets().fault(fault);
    }

    /// Returns the acknowledged envelope IDs in order; `envelope-1` is the first one pushed.
    #[must_use]
    pub fn acknowledged(&self) -> Vec<String> {
        self.sockets().acknowledged()
    }

    /// Returns the number of open sockets and its maximum so far.
    #[must_use]
    pub fn open_sockets(&self) -> (usize, usize) {
        self.sockets().open()
    }

    /// Returns the number of answered pings.
    #[must_use]
    pub fn pongs(&self) -> usize {
        self.sockets().pongs()
    }

    /// Returns protocol violations of clients.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        self.sockets().problems()
    }

    fn sockets(&self) -> &Sockets {
        &self.server.vendor().sockets
    }

    /// Adds a file that the bot may read.
    pub fn put_file(&self, id: &str, file: FakeFile) {
        self.server.vendor().files.put(id, file);
    }

    /// Returns a direct message with a file; `url` is the file URL reported by Slack.
    #[must_use]
    pub fn shared_file(&self, ts: &str, sender: &str, url: &Url, name: &str, now: Timestamp) -> WebhookRequest {
        let file = json!({
            "id": "F1", "name": name, "mimetype": "application/pdf", "url_private": url.as_str(), "url_private_download": url.as_str(),
        });
        let event = json!({
            "type": "message", "subtype": "file_share", "channel": "D0DIRECT", "channel_type": "im", "user": sender,
            "text": "", "ts": ts, "files": [file],
        });
        self.event(&event, now)
    }

    /// Returns the URL of a file added before.
    #[must_use]
    pub fn file_url(&self, id: &str) -> Url {
        self.server.url(&format!("/files-pri/{id}"))
    }

    /// Returns a direct message. `ts` is its ID, such as `1795600000.000100`.
    #[must_use]
    pub fn message(&self, ts: &str, sender: &str, text: &str, now: Timestamp) -> WebhookRequest {
        let event = json!({
            "type": "message", "channel": "D0DIRECT", "channel_type": "im", "user": sender, "text": text, "ts": ts,
            "event_ts": ts, "team": "T1", "client_msg_id": format!("message-{ts}"),
        });
        self.event(&event, now)
    }

    /// Returns a channel message, in a thread if one is given.
    #[must_use]
    pub fn channel_message(
        &self,
        ts: &str,
        sender: &str,
        text: &str,
        thread: Option<&str>,
        now: Timestamp,
    ) -> WebhookRequest {
        let mut event = json!({
            "type": "message", "channel": "C0CHANNEL", "channel_type": "channel", "user": sender, "text": text,
            "ts": ts, "event_ts": ts, "team": "T1", "client_msg_id": format!("message-{ts}"),
        });
        if let Some(thread) = thread {
            event["thread_ts"] = json!(thread);
        }
        self.event(&event, now)
    }

    /// Returns the second event of a channel message that mentions the bot.
    #[must_use]
    pub fn mention(&self, ts: &str, sender: &str, text: &str, now: Timestamp) -> WebhookRequest {
        let event = json!({
            "type": "app_mention", "channel": "C0CHANNEL", "user": sender, "text": text, "ts": ts, "event_ts": ts,
            "team": "T1", "client_msg_id": format!("message-{ts}"),
        });
        self.event(&event, now)
    }

    /// Returns any event in its envelope.
    #[must_use]
    pub fn event(&self, event: &Value, now: Timestamp) -> WebhookRequest {
        let kind = event["type"].as_str().unwrap_or_default();
        let ts = event["ts"].as_str().unwrap_or_default();
        self.request(
            &json!({
                "type": "event_callback", "team_id": "T1", "api_app_id": "A1", "event_id": format!("Ev{kind}{ts}"),
                "event_time": now.as_millis() / 1000, "event": event, "token": "deprecated", "event_context": "4-e",
                "is_ext_shared_channel": false,
                "authorizations": [{
                    "enterprise_id": null, "team_id": "T1", "user_id": BOT_USER, "is_bot": true,
                    "is_enterprise_install": false,
                }],
            }),
            now,
        )
    }

    /// Returns a button press.
    #[must_use]
    pub fn press(&self, ts: &str, sender: &str, channel: &str, data: &str, now: Timestamp) -> WebhookRequest {
        let payload = json!({
            "type": "block_actions", "user": {"id": sender, "username": "ada", "name": "ada", "team_id": "T1"},
            "api_app_id": "A1", "token": "deprecated", "team": {"id": "T1", "domain": "fake"}, "enterprise": null,
            "is_enterprise_install": false, "state": {"values": {}}, "response_url": "https://hooks.slack.com/actions/1",
            "channel": {"id": channel, "name": "somewhere"}, "trigger_id": "1.2.3",
            "container": {"type": "message", "message_ts": ts, "channel_id": channel},
            "message": {"type": "message", "user": BOT_USER, "ts": ts},
            "actions": [{
                "type": "button", "action_id": "button_0", "block_id": "b", "value": data,
                "action_ts": format!("{}.000001", now.as_millis() / 1000),
            }],
        });
        let form =
            form_urlencoded::Serializer::new(String::new()).append_pair("payload", &payload.to_string()).finish();
        self.signed(FORM, form.into_bytes(), now)
    }

    /// Returns any JSON as a signed request.
    #[must_use]
    pub fn request(&self, body: &Value, now: Timestamp) -> WebhookRequest {
        self.signed("application/json", body.to_string().into_bytes(), now)
    }

    #[allow(clippy::expect_used, reason = "numbers and hex are fit for headers")]
    fn signed(&self, content_type: &'static str, body: Vec<u8>, now: Timestamp) -> WebhookRequest {
        let time = (now.as_millis() / 1000).to_string();
        let digest = mac(&self.signing_secret, &time, &body);
        let value = |text: &str| HeaderValue::from_str(text).expect("ASCII");
        let mut headers = HeaderMap::new();
        headers.insert("content-type", HeaderValue::from_static(content_type));
        headers.insert("x-slack-request-timestamp", value(&time));
        headers.insert("x-slack-signature", value(&format!("v0={}", hex::encode(digest))));
        WebhookRequest { method: Method::POST, query: String::new(), headers, body: body.into() }
    }
}

/// Returns the JSON of an event, or of the form that holds an interactive message.
fn payload_of(request: &WebhookRequest) -> Option<Value> {
    if request.headers.get("content-type").is_some_and(|kind| kind == FORM) {
        let (_, payload) = form_urlencoded::parse(&request.body).find(|(name, _)| name == "payload")?;
        return serde_json::from_str(&payload).ok();
    }
    serde_json::from_slice(&request.body).ok()
}

/// Signs the version of the scheme, the time as the header has it, and the body.
fn mac(secret: &Secret, time: &str, body: &[u8]) -> hmac::Tag {
    let mut mac = hmac::Context::with_key(&hmac::Key::new(HMAC_SHA256, secret.expose().as_bytes()));
    [&b"v0:"[..], time.as_bytes(), b":", body].into_iter().for_each(|part| mac.update(part));
    mac.sign()
}

fn failed(error: &str) -> Answer {
    Answer::ok(json!({"ok": false, "error": error}))
}

impl Vendor for WebApi {
    fn recorded_path(&self, call: &Call) -> String {
        call.segments.last().cloned().unwrap_or_default()
    }

    fn description(&self) -> Option<&'static ApiDescription> {
        Some(&api_description::SLACK)
    }

    fn misbehave(&self, behaviour: Behaviour) -> Answer {
        match behaviour {
            Behaviour::RateLimited(wait) => {
                Answer::new(429, json!({"ok": false, "error": "ratelimited"})).retry_after(wait)
            }
            Behaviour::ServerError | Behaviour::Hang => {
                Answer::new(500, json!({"ok": false, "error": "internal_error"}))
            }
            Behaviour::CredentialsRefused => failed("token_revoked"),
            Behaviour::Blocked | Behaviour::WindowClosed => failed("messages_tab_disabled"),
            Behaviour::Gone => failed("channel_not_found"),
        }
    }

    fn answer(&self, call: &Call) -> Result<Answer, Answer> {
        if let ["files-pri", id] = call.path().as_slice() {
            // Without access, Slack returns a sign-in page.
            let may_read = call.bearer() == Some(&self.token);
            let file = if may_read { self.files.get(id) } else { Some(FakeFile::Page) };
            return file.map(Answer::file).ok_or_else(|| Answer::new(404, Value::Null));
        }
        let [api, method] = call.segments.as_slice() else { return Err(failed("unknown_method")) };
        if api != "api" || call.method != Method::POST {
            return Err(failed("unknown_method"));
        }
        let token = if method == "apps.connections.open" { &self.app_token } else { &self.token };
        match call.authorization.as_deref().and_then(|value| value.strip_prefix("Bearer ")) {
            None => return Err(failed("not_authed")),
            Some(given) if given == token => {}
            Some(given) if given == self.token || given == self.app_token => {
                return Err(failed("not_allowed_token_type"));
            }
            Some(_) => return Err(failed("invalid_auth")),
        }
        match method.as_str() {
            "auth.test" => Ok(Answer::ok(json!({
                "ok": true, "url": "https://fake.slack.com/", "team": "Fake", "user": "fakebot", "team_id": "T1",
                "user_id": BOT_USER, "bot_id": "B1",
            }))),
            "apps.connections.open" => Ok(Answer::ok(json!({"ok": true, "url": self.sockets.address()}))),
            "chat.postMessage" => self.post(&call.body).map_err(failed),
            "chat.update" => self.update(&call.body).map_err(failed),
            _ => Err(failed("unknown_method")),
        }
    }
}

impl WebApi {
    fn post(&self, body: &Value) -> Result<Answer, &'static str> {
        let channel = body["channel"].as_str().ok_or("channel_not_found")?;
        check(body)?;
        let is_ts = |ts: &str| ts.split_once('.').is_some_and(|(_, micros)| micros.len() == 6);
        if !body["thread_ts"].is_null() && !body["thread_ts"].as_str().is_some_and(is_ts) {
            return Err("invalid_arguments");
        }
        // A message to a user goes to the direct chat.
        let channel = channel.strip_prefix('U').map_or_else(|| channel.to_owned(), |user| format!("D{user}"));
        let mut messages = self.messages.lock();
        let ts = format!("1795600000.{:06}", messages.len() + 1);
        messages.push(Stored { channel: channel.clone(), ts: ts.clone() });
        Ok(Answer::ok(json!({"ok": true, "channel": channel, "ts": ts, "message": {"text": body["text"]}})))
    }

    fn update(&self, body: &Value) -> Result<Answer, &'static str> {
        check(body)?;
        // By default Slack would detect names and URLs in the text here.
        if body["parse"] != "none" {
            return Err("invalid_arguments");
        }
        let messages = self.messages.lock();
        let is_it = |stored: &&Stored| body["channel"] == *stored.channel && body["ts"] == *stored.ts;
        let message = messages.iter().find(is_it).ok_or("message_not_found")?;
        Ok(Answer::ok(json!({"ok": true, "channel": message.channel, "ts": message.ts, "text": body["text"]})))
    }
}

fn check(body: &Value) -> Result<(), &'static str> {
    let text = body["text"].as_str().unwrap_or_default();
    let has_blocks = body["blocks"].as_array().is_some_and(|blocks| !blocks.is_empty());
    if text.is_empty() && !has_blocks {
        return Err("no_text");
    }
    if text.chars().count() > MAX_TEXT {
        return Err("msg_too_long");
    }
    blocks::check_mrkdwn(text)?;
    blocks::check(&body["blocks"])
}
