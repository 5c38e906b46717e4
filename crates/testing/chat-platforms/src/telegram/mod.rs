//! Fake Bot API on loopback, as strict as Telegram's. Chats are created when first written to.

mod checks;
pub mod html;

use std::io;
use std::time::Duration;

use agentd_chat_platforms::WebhookRequest;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderValue, Method};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Notify;
use url::Url;

use self::checks::{check_buttons, check_text};
use crate::api_description::{self, ApiDescription};
use crate::server::{Answer, Call, FakeFiles, FakeServer, Vendor};
pub use crate::server::{Behaviour, FakeFile, RecordedRequest};

const BOT_NAME: &str = "Fake_Bot";

/// Running fake, which stops when dropped.
#[derive(Debug)]
pub struct FakeTelegram {
    server: FakeServer<BotApi>,
    secret_token: String,
}

#[derive(Debug)]
struct BotApi {
    token: String,
    state: Mutex<State>,
    /// Notified of new updates.
    updated: Notify,
    files: FakeFiles,
}

#[derive(Debug, Default)]
struct State {
    next_message: i64,
    messages: Vec<Stored>,
    updates: Vec<Value>,
    webhook: String,
    /// Old and new ID of a migrated group.
    moved: Option<(i64, i64)>,
}

#[derive(Debug)]
struct Stored {
    chat: Value,
    id: i64,
    text: String,
    has_buttons: bool,
}

impl FakeTelegram {
    /// Starts the fake on a loopback port.
    ///
    /// # Errors
    /// Binding a loopback port fails.
    pub async fn start(token: &str, secret_token: &str) -> io::Result<Self> {
        let (state, files) = (Mutex::default(), FakeFiles::default());
        let vendor = BotApi { token: token.to_owned(), state, updated: Notify::new(), files };
        Ok(Self { server: FakeServer::start(vendor).await?, secret_token: secret_token.to_owned() })
    }

    #[must_use]
    pub fn base_url(&self) -> Url {
        self.server.url("/")
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
        self.server.sent(|request| request.path == "sendMessage")
    }

    /// Migrates a group to another ID.
    pub fn move_group(&self, from: i64, to: i64) {
        self.server.vendor().state.lock().moved = Some((from, to));
    }

    /// Adds a file for `getFile`.
    pub fn put_file(&self, id: &str, file: FakeFile) {
        self.server.vendor().files.put(id, file);
    }

    /// Returns a document in a private chat.
    #[must_use]
    pub fn document(&self, update_id: i64, sender: i64, caption: &str, file_id: &str, name: &str) -> WebhookRequest {
        let mut update = message_update(update_id, sender, &json!({"id": sender, "type": "private"}), "");
        if let Some(message) = update["message"].as_object_mut() {
            message.remove("text");
            message.insert("caption".to_owned(), json!(caption));
            message.insert("document".to_owned(), json!({"file_id": file_id, "file_name": name}));
        }
        self.request(&update)
    }

    /// Queues an update for `getUpdates`.
    pub fn queue_update(&self, update: Value) {
        self.server.vendor().state.lock().updates.push(update);
        self.server.vendor().updated.notify_waiters();
    }

    /// Returns a message in a private chat.
    #[must_use]
    pub fn message(&self, update_id: i64, sender: i64, text: &str) -> WebhookRequest {
        self.update(message_update(update_id, sender, &json!({"id": sender, "type": "private"}), text))
    }

    /// Returns a message in a group.
    #[must_use]
    pub fn group_message(&self, update_id: i64, sender: i64, chat: i64, text: &str) -> WebhookRequest {
        let chat = json!({"id": chat, "type": "supergroup", "title": "A group"});
        self.update(message_update(update_id, sender, &chat, text))
    }

    /// Returns a button press.
    #[must_use]
    pub fn press(&self, update_id: i64, sender: i64, chat: i64, message_id: i64, data: &str) -> WebhookRequest {
        let kind = if chat > 0 { "private" } else { "supergroup" };
        self.update(json!({"update_id": update_id, "callback_query": {
            "id": format!("query{update_id}"), "from": person(sender), "chat_instance": "1", "data": data,
            "message": {"message_id": message_id, "date": 1_795_600_000, "chat": {"id": chat, "type": kind}},
        }}))
    }

    fn update(&self, update: Value) -> WebhookRequest {
        self.request(&self.server.event("Update", update))
    }

    /// Returns any JSON as a request.
    #[must_use]
    #[allow(clippy::expect_used, reason = "for tests, whose tokens are constants")]
    pub fn request(&self, update: &Value) -> WebhookRequest {
        let mut headers = HeaderMap::new();
        headers.insert("content-type", HeaderValue::from_static("application/json"));
        let token = HeaderValue::from_str(&self.secret_token).expect("a secret token that a header takes");
        headers.insert("x-telegram-bot-api-secret-token", token);
        WebhookRequest { method: Method::POST, query: String::new(), headers, body: update.to_string().into() }
    }
}

/// Returns a user message with the entities that Telegram detects in it.
fn message_update(update_id: i64, sender: i64, chat: &Value, text: &str) -> Value {
    json!({"update_id": update_id, "message": {
        "message_id": update_id + 1000, "date": 1_795_600_000, "from": person(sender), "chat": chat, "text": text,
        "entities": entities(text),
    }})
}

fn person(id: i64) -> Value {
    json!({"id": id, "is_bot": false, "first_name": "Ada", "last_name": "L.", "language_code": "en"})
}

fn entities(text: &str) -> Vec<Value> {
    let mut entities = Vec::new();
    let mut offset = 0;
    for word in text.split_inclusive(char::is_whitespace) {
        let name = word.trim_end();
        let kind = match name.chars().next() {
            Some('@') => Some("mention"),
            Some('/') => Some("bot_command"),
            _ => None,
        };
        if let Some(kind) = kind {
            entities.push(json!({"type": kind, "offset": offset, "length": name.encode_utf16().count()}));
        }
        offset += word.encode_utf16().count();
    }
    entities
}

fn failed(code: u16, description: &str) -> Answer {
    Answer::new(code, json!({"ok": false, "error_code": code, "description": description}))
}

fn bad(description: &str) -> Answer {
    failed(400, &format!("Bad Request: {description}"))
}

fn done(result: &Value) -> Answer {
    Answer::ok(json!({"ok": true, "result": result}))
}

impl Vendor for BotApi {
    fn recorded_path(&self, call: &Call) -> String {
        match call.path().as_slice() {
            ["file", _, rest @ ..] => format!("file/{}", rest.join("/")),
            [_, method] => (*method).to_owned(),
            _ => String::new(),
        }
    }

    fn description(&self) -> Option<&'static ApiDescription> {
        Some(&api_description::TELEGRAM)
    }

    fn misbehave(&self, behaviour: Behaviour) -> Answer {
        match behaviour {
            Behaviour::RateLimited(wait) => {
                let seconds = wait.as_secs();
                let mut answer = failed(429, &format!("Too Many Requests: retry after {seconds}"));
                answer.body["parameters"] = json!({"retry_after": seconds});
                answer
            }
            Behaviour::ServerError | Behaviour::Hang => failed(502, "Bad Gateway"),
            Behaviour::CredentialsRefused => failed(401, "Unauthorized"),
            Behaviour::Blocked | Behaviour::WindowClosed => failed(403, "Forbidden: bot was blocked by the user"),
            Behaviour::Gone => bad("chat not found"),
        }
    }

    /// Holds a poll until an update arrives or its timeout ends.
    fn hold<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, ()> {
        let is_poll = call.segments.last().is_some_and(|method| method == "getUpdates");
        let offset = call.body["offset"].as_i64();
        let has_news = move || {
            let state = self.state.lock();
            !state.webhook.is_empty() || state.updates.iter().any(|update| update["update_id"].as_i64() >= offset)
        };
        let limit = Duration::from_secs(call.body["timeout"].as_u64().unwrap_or_default());
        async move {
            let news = async {
                loop {
                    let updated = self.updated.notified();
                    if !is_poll || has_news() {
                        return;
                    }
                    updated.await;
                }
            };
            let _ = tokio::time::timeout(limit.max(Duration::from_millis(1)), news).await;
        }
        .boxed()
    }

    fn answer(&self, call: &Call) -> Result<Answer, Answer> {
        if let ["file", bot, "documents", id] = call.path().as_slice() {
            let file = self.files.get(id).filter(|_| bot.strip_prefix("bot") == Some(&self.token));
            return file.map(Answer::file).ok_or_else(|| failed(404, "Not Found"));
        }
        let [bot, method] = call.segments.as_slice() else { return Err(failed(404, "Not Found")) };
        let Some(token) = bot.strip_prefix("bot").filter(|token| token.contains(':')) else {
            return Err(failed(404, "Not Found"));
        };
        if token != self.token {
            return Err(failed(401, "Unauthorized"));
        }
        let mut state = self.state.lock();
        match method.as_str() {
            "getMe" => Ok(done(&json!({
                "id": token.split(':').next().and_then(|id| id.parse::<i64>().ok()),
                "is_bot": true, "first_name": "Fake", "username": BOT_NAME,
            }))),
            "getFile" => self.get_file(&call.body),
            "getWebhookInfo" => Ok(done(&json!({"url": state.webhook, "pending_update_count": 0}))),
            "setWebhook" => state.set_webhook(&call.body),
            "deleteWebhook" => {
                state.webhook.clear();
                Ok(done(&json!(true)))
            }
            "getUpdates" => state.get_updates(&call.body),
            "sendMessage" => state.send_message(&call.body),
            "editMessageText" => state.edit_message(&call.body),
            "answerCallbackQuery" if call.body["callback_query_id"].is_string() => Ok(done(&json!(true))),
            "answerCallbackQuery" => Err(bad("query is too old and response timeout expired or query ID is invalid")),
            "sendChatAction" if call.body["chat_id"].is_null() => Err(bad("chat_id is empty")),
            "sendChatAction" if call.body["action"] == "typing" => Ok(done(&json!(true))),
            "sendChatAction" => Err(bad("wrong parameter action in request")),
            _ => Err(failed(404, "Not Found")),
        }
    }
}

impl BotApi {
    /// Returns a file path; only files up to 20 MB can be downloaded.
    fn get_file(&self, body: &Value) -> Result<Answer, Answer> {
        let id = body["file_id"].as_str().unwrap_or_default();
        match self.files.get(id) {
            None => Err(bad("invalid file_id")),
            Some(FakeFile::Bytes(bytes)) if bytes.len() > 20 << 20 => Err(bad("file is too big")),
            Some(_) => Ok(done(&json!({"file_id": id, "file_unique_id": "u", "file_path": format!("documents/{id}")}))),
        }
    }
}

impl State {
    fn set_webhook(&mut self, body: &Value) -> Result<Answer, Answer> {
        let url = body["url"].as_str().unwrap_or_default();
        if !url.starts_with("https://") {
            return Err(bad("bad webhook: An HTTPS URL must be provided for webhook"));
        }
        let is_token = |token: &str| {
            (1..=256).contains(&token.len())
                && token.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
        };
        if !body["secret_token"].as_str().is_some_and(is_token) {
            return Err(bad("secret token contains unallowed characters"));
        }
        url.clone_into(&mut self.webhook);
        Ok(done(&json!(true)))
    }

    fn get_updates(&mut self, body: &Value) -> Result<Answer, Answer> {
        if !self.webhook.is_empty() {
            return Err(failed(
                409,
                "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete the \
                 webhook first",
            ));
        }
        let offset = body["offset"].as_i64().unwrap_or_default();
        self.updates.retain(|update| update["update_id"].as_i64() >= Some(offset));
        let limit = body["limit"].as_u64().and_then(|limit| usize::try_from(limit).ok()).unwrap_or(100);
        Ok(done(&self.updates.iter().take(limit).cloned().collect()))
    }

    fn send_message(&mut self, body: &Value) -> Result<Answer, Answer> {
        let chat = &body["chat_id"];
        if !(chat.is_i64() || chat.as_str().is_some_and(|name| name.starts_with('@'))) {
            return Err(bad("chat_id is empty"));
        }
        if let Some((from, to)) = self.moved
            && chat.as_i64() == Some(from)
        {
            let mut answer = bad("group chat was upgraded to a supergroup chat");
            answer.body["parameters"] = json!({"migrate_to_chat_id": to});
            return Err(answer);
        }
        check_text(body)?;
        let has_buttons = check_buttons(&body["reply_markup"])? > 0;
        self.next_message += 1;
        let text = body["text"].as_str().unwrap_or_default().to_owned();
        self.messages.push(Stored { chat: chat.clone(), id: self.next_message, text, has_buttons });
        Ok(done(&json!({"message_id": self.next_message, "date": 1_795_600_000, "chat": {"id": chat}})))
    }

    fn edit_message(&mut self, body: &Value) -> Result<Answer, Answer> {
        check_text(body)?;
        let has_buttons = check_buttons(&body["reply_markup"])? > 0;
        let is_it =
            |stored: &&mut Stored| stored.chat == body["chat_id"] && Some(stored.id) == body["message_id"].as_i64();
        let message = self.messages.iter_mut().find(is_it).ok_or_else(|| bad("message to edit not found"))?;
        let text = body["text"].as_str().unwrap_or_default();
        if message.text == text && message.has_buttons == has_buttons {
            return Err(bad(
                "message is not modified: specified new message content and reply markup are exactly the same as a \
                 current content and reply markup of the message",
            ));
        }
        text.clone_into(&mut message.text);
        message.has_buttons = has_buttons;
        Ok(done(&json!({"message_id": message.id, "chat": {"id": message.chat}})))
    }
}
