//! Fake Discord on loopback, as strict as the real one.

mod checks;
mod gateway;

use std::io;

use agentd_base::Timestamp;
use agentd_chat_platforms::WebhookRequest;
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use http::{HeaderMap, HeaderValue, Method};
use parking_lot::Mutex;
use serde_json::{Value, json};
use url::Url;

use self::gateway::Gateway;
pub use self::gateway::GatewayFault;
use crate::api_description::{self, ApiDescription};
use crate::server::{Answer, Call, FakeFiles, FakeServer, Vendor};
pub use crate::server::{Behaviour, FakeFile, RecordedRequest};

/// Application ID, which is also the user ID of the bot.
pub const APPLICATION_ID: &str = "1100000000000000001";
/// Seed of the signing key.
const SEED: [u8; 32] = [7; 32];

/// Running fake, which stops when dropped.
#[derive(Debug)]
pub struct FakeDiscord {
    server: FakeServer<RestApi>,
    key: Ed25519KeyPair,
}

#[derive(Debug)]
struct RestApi {
    token: String,
    gateway: Gateway,
    state: Mutex<State>,
    files: FakeFiles,
}

#[derive(Debug, Default)]
struct State {
    next_message: u64,
    messages: Vec<Stored>,
    /// Interactions that accept messages.
    interactions: Vec<Interaction>,
}

#[derive(Debug)]
struct Stored {
    channel: String,
    id: String,
    /// Token of its interaction.
    token: Option<String>,
}

#[derive(Debug)]
struct Interaction {
    token: String,
    channel: String,
    /// ID of the message with the button.
    original: Option<String>,
    /// Whether it was sent over the Gateway and waits for its initial response.
    is_unanswered: bool,
}

impl FakeDiscord {
    /// Starts the fake on a loopback port.
    ///
    /// # Errors
    /// Binding a loopback port fails.
    pub async fn start(token: &str) -> io::Result<Self> {
        let gateway = Gateway::start(token).await?;
        let (state, files) = (Mutex::default(), FakeFiles::default());
        let vendor = RestApi { token: token.to_owned(), gateway, state, files };
        let key = Ed25519KeyPair::from_seed_unchecked(&SEED).map_err(io::Error::other)?;
        Ok(Self { server: FakeServer::start(vendor).await?, key })
    }

    #[must_use]
    pub fn base_url(&self) -> Url {
        self.server.url("/api/v10")
    }

    /// Returns the public key as shown in the application's settings.
    #[must_use]
    pub fn public_key(&self) -> String {
        hex::encode(self.key.public_key())
    }

    /// Overrides the response to the next request without an override.
    pub fn misbehave(&self, behaviour: Behaviour) {
        self.server.misbehave(behaviour);
    }

    /// Returns all requests, oldest first, without interaction tokens in the paths.
    #[must_use]
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.server.requests()
    }

    /// Returns the bodies of all messages and follow-ups, including rejected ones.
    #[must_use]
    pub fn sent(&self) -> Vec<Value> {
        let is_sent = |request: &RecordedRequest| {
            let is_follow_up = request.path.starts_with("webhooks/") && request.path.ends_with('…');
            request.method == Method::POST && (is_follow_up || request.path.ends_with("/messages"))
        };
        self.server.sent(is_sent)
    }

    /// Expires all interactions.
    pub fn expire_interactions(&self) {
        self.server.vendor().state.lock().interactions.clear();
    }

    /// Returns an `/ask` command in a direct chat.
    #[must_use]
    pub fn message(&self, id: &str, sender: &str, text: &str, now: Timestamp) -> WebhookRequest {
        self.command(id, sender, "ask", Some(text), now)
    }

    /// Returns an `/ask` command in the direct chat with this channel ID.
    #[must_use]
    pub fn message_in(&self, id: &str, sender: &str, channel: &str, text: &str, now: Timestamp) -> WebhookRequest {
        self.interaction(&self.envelope(id, sender, channel, 2, command_data("ask", Some(text)), None), now)
    }

    /// Returns a command in a direct chat.
    #[must_use]
    pub fn command(&self, id: &str, sender: &str, name: &str, text: Option<&str>, now: Timestamp) -> WebhookRequest {
        self.interaction(&self.envelope(id, sender, "1300000000000000001", 2, command_data(name, text), None), now)
    }

    /// Adds a file with a signed URL, valid for a day.
    pub fn put_file(&self, id: &str, file: FakeFile) {
        self.server.vendor().files.put(id, file);
    }

    /// Returns an `/ask` command in a direct chat with a file added before.
    #[must_use]
    pub fn file(&self, id: &str, sender: &str, text: &str, file_id: &str, now: Timestamp) -> WebhookRequest {
        let options = json!([{"type": 3, "name": "text", "value": text}, {"type": 11, "name": "file", "value": "1"}]);
        let url = self.server.url(&format!("/attachments/{file_id}?ex=1&is=2&hm=3"));
        let file = json!({"id": "1", "filename": "notes.txt", "content_type": "text/plain", "url": url.as_str()});
        let data = json!({
            "id": "1200000000000000001", "type": 1, "name": "ask", "options": options,
            "resolved": {"attachments": {"1": file}},
        });
        self.interaction(&self.envelope(id, sender, "1300000000000000001", 2, data, None), now)
    }

    /// Returns a button press below a message of a channel.
    #[must_use]
    pub fn press(
        &self,
        id: &str,
        sender: &str,
        channel: &str,
        message_id: &str,
        data: &str,
        now: Timestamp,
    ) -> WebhookRequest {
        let data = json!({"id": 2, "component_type": 2, "custom_id": data});
        let mut body = self.envelope(id, sender, channel, 3, data, Some(message_id.to_owned()));
        body["message"] = json!({
            "id": message_id, "channel_id": channel, "type": 0, "content": "May I?", "timestamp": now.to_string(),
            "edited_timestamp": null, "tts": false, "mention_everyone": false, "mentions": [], "mention_roles": [],
            "attachments": [], "embeds": [], "pinned": false, "flags": 4, "components": [],
            "author": {"id": APPLICATION_ID, "username": "fake-bot", "discriminator": "0", "avatar": null, "bot": true},
        });
        self.interaction(&body, now)
    }

    fn envelope(
        &self,
        id: &str,
        sender: &str,
        channel: &str,
        kind: u64,
        data: Value,
        original: Option<String>,
    ) -> Value {
        let token = format!("token-of-{id}");
        let interaction =
            Interaction { token: token.clone(), channel: channel.to_owned(), original, is_unanswered: false };
        self.server.vendor().state.lock().interactions.push(interaction);
        json!({
            "id": id, "application_id": APPLICATION_ID, "type": kind, "token": token, "version": 1,
            "channel_id": channel, "channel": {"id": channel, "type": 1, "flags": 0}, "context": 1, "locale": "en-US",
            "user": {
                "id": sender, "username": "ada", "global_name": "Ada L.", "discriminator": "0", "avatar": null,
                "public_flags": 0,
            },
            "data": data, "app_permissions": "2248473465835073", "entitlements": [],
            "authorizing_integration_owners": {"0": "0"}, "attachment_size_limit": 10_485_760,
        })
    }

    /// Returns any interaction as a signed request.
    #[must_use]
    #[allow(clippy::expect_used, reason = "numbers and hex are fit for headers")]
    pub fn interaction(&self, body: &Value, now: Timestamp) -> WebhookRequest {
        let time = (now.as_millis() / 1000).to_string();
        let body = body.to_string();
        let signature = self.key.sign(format!("{time}{body}").as_bytes());
        let value = |text: &str| HeaderValue::from_str(text).expect("ASCII");
        let mut headers = HeaderMap::new();
        headers.insert("content-type", HeaderValue::from_static("application/json"));
        headers.insert("x-signature-timestamp", value(&time));
        headers.insert("x-signature-ed25519", value(&hex::encode(signature)));
        WebhookRequest { method: Method::POST, query: String::new(), headers, body: body.into() }
    }
}

fn command_data(name: &str, text: Option<&str>) -> Value {
    let options: Vec<Value> = text.into_iter().map(|text| json!({"type": 3, "name": "text", "value": text})).collect();
    json!({"id": "1200000000000000001", "type": 1, "name": name, "options": options})
}

fn failed(status: u16, code: u64, message: &str) -> Answer {
    Answer::new(status, json!({"code": code, "message": message}))
}

fn invalid(problem: &str) -> Answer {
    let mut answer = failed(400, 50_035, "Invalid Form Body");
    answer.body["errors"] = json!({"_errors": [{"code": "INVALID", "message": problem}]});
    answer
}

fn unknown() -> Answer {
    failed(404, 0, "404: Not Found")
}

impl Vendor for RestApi {
    fn recorded_path(&self, call: &Call) -> String {
        let mut path = call.path().split_off(call.segments.len().min(2));
        if matches!(path.first(), Some(&("webhooks" | "interactions")))
            && let Some(token) = path.get_mut(2)
        {
            *token = "…";
        }
        path.join("/")
    }

    fn description(&self) -> Option<&'static ApiDescription> {
        Some(&api_description::DISCORD)
    }

    fn misbehave(&self, behaviour: Behaviour) -> Answer {
        match behaviour {
            Behaviour::RateLimited(wait) => Answer::new(
                429,
                json!({"message": "You are being rate limited.", "retry_after": wait.as_secs_f64(), "global": false}),
            ),
            Behaviour::ServerError | Behaviour::Hang => failed(500, 0, "500: Internal Server Error"),
            Behaviour::CredentialsRefused => failed(401, 0, "401: Unauthorized"),
            Behaviour::Blocked | Behaviour::WindowClosed => failed(403, 50_007, "Cannot send messages to this user"),
            Behaviour::Gone => failed(404, 10_003, "Unknown Channel"),
        }
    }

    fn answer(&self, call: &Call) -> Result<Answer, Answer> {
        let segments = call.path();
        if let ["attachments", id] = segments.as_slice() {
            // The URL is signed, and the CDN must not receive a token.
            let file = self.files.get(id).filter(|_| call.query.contains("hm=") && call.authorization.is_none());
            return file.map(Answer::file).ok_or_else(unknown);
        }
        let ["api", "v10", path @ ..] = segments.as_slice() else { return Err(unknown()) };
        let mut state = self.state.lock();
        // Only these need no bot token.
        if let ["webhooks", application, token, rest @ ..] = path {
            return state.answer_interaction(call, application, token, rest);
        }
        if let ["interactions", _, token, "callback"] = path {
            return state.answer_initial(call, token);
        }
        if call.authorization.as_deref() != Some(&format!("Bot {}", self.token)) {
            return Err(failed(401, 0, "401: Unauthorized"));
        }
        match (call.method.as_str(), path) {
            ("GET", ["users", "@me"]) => {
                Ok(Answer::ok(json!({"id": APPLICATION_ID, "username": "fake-bot", "bot": true, "global_name": null})))
            }
            ("GET", ["applications", "@me"]) => Ok(Answer::ok(json!({
                "id": APPLICATION_ID, "name": "Fake", "interactions_endpoint_url": "https://agent.example/discord",
            }))),
            ("GET", ["gateway", "bot"]) => Ok(Answer::ok(self.gateway.description())),
            ("PUT", ["applications", id, "commands"]) if *id == APPLICATION_ID => {
                checks::commands(&call.body).map_err(invalid)?;
                Ok(Answer::ok(call.body.clone()))
            }
            ("POST", ["channels", _, "typing"]) => Ok(Answer::new(204, Value::Null)),
            ("POST", ["channels", channel, "messages"]) => state.create(channel, &call.body, None),
            ("PATCH", ["channels", channel, "messages", id]) => {
                state.edit(&call.body, |stored| stored.channel == *channel && stored.id == *id)
            }
            _ => Err(unknown()),
        }
    }
}

impl State {
    fn answer_initial(&mut self, call: &Call, token: &str) -> Result<Answer, Answer> {
        let interaction = self.interactions.iter_mut().find(|interaction| interaction.token == token);
        let interaction = interaction.ok_or_else(|| failed(404, 10_062, "Unknown interaction"))?;
        if call.method != Method::POST || !call.body["type"].as_u64().is_some_and(|kind| (4..=8).contains(&kind)) {
            return Err(invalid("Value is not a type of an answer."));
        }
        if !std::mem::take(&mut interaction.is_unanswered) {
            return Err(failed(400, 40_060, "Interaction has already been acknowledged."));
        }
        Ok(Answer::new(204, Value::Null))
    }

    fn answer_interaction(
        &mut self,
        call: &Call,
        application: &str,
        token: &str,
        rest: &[&str],
    ) -> Result<Answer, Answer> {
        if application != APPLICATION_ID {
            return Err(failed(404, 10_015, "Unknown Webhook"));
        }
        let interaction = self.interactions.iter().find(|interaction| interaction.token == token);
        let interaction = interaction.ok_or_else(|| failed(401, 50_027, "Invalid Webhook Token"))?;
        if interaction.is_unanswered {
            return Err(failed(404, 10_015, "Unknown Webhook"));
        }
        let (channel, original) = (interaction.channel.clone(), interaction.original.clone());
        match (call.method.as_str(), rest) {
            ("POST", []) => self.create(&channel, &call.body, Some(token)),
            ("PATCH", ["messages", "@original"]) => {
                self.edit(&call.body, |stored| original.as_deref() == Some(stored.id.as_str()))
            }
            ("PATCH", ["messages", id]) => {
                self.edit(&call.body, |stored| stored.token.as_deref() == Some(token) && stored.id == *id)
            }
            _ => Err(unknown()),
        }
    }

    fn create(&mut self, channel: &str, body: &Value, token: Option<&str>) -> Result<Answer, Answer> {
        checks::message(body)?;
        self.next_message += 1;
        let id = format!("{}", 1_400_000_000_000_000_000 + self.next_message);
        self.messages.push(Stored { channel: channel.to_owned(), id: id.clone(), token: token.map(str::to_owned) });
        Ok(Answer::ok(json!({"id": id, "channel_id": channel, "content": body["content"]})))
    }

    fn edit(&self, body: &Value, matches: impl Fn(&Stored) -> bool) -> Result<Answer, Answer> {
        let message = self.messages.iter().find(|stored| matches(stored));
        let message = message.ok_or_else(|| failed(404, 10_008, "Unknown Message"))?;
        checks::message(body)?;
        Ok(Answer::ok(json!({"id": message.id, "channel_id": message.channel, "content": body["content"]})))
    }
}
