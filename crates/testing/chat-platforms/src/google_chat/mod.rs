//! Google Chat on loopback: its keys, its token service and its API, as strict as Google's.

mod service;

use std::io;

use agentd_base::{Clock, Secret};
use agentd_chat_platforms::WebhookRequest;
use agentd_chat_platforms::google_chat::GoogleChatConfig;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method};
use serde_json::{Value, json};
use url::Url;

pub use self::service::check_markup;
use self::service::{EMAIL, Service, TOKEN_URI};
use crate::keys;
use crate::server::FakeServer;
pub use crate::server::{Behaviour, FakeFile, RecordedRequest};

const PROJECT: &str = "1234567890";
const ADDRESS: &str = "https://agent.example/hooks/google_chat";
const CHAT: &str = "chat@system.gserviceaccount.com";
const SPACE: &str = "spaces/AAAAMpdlehY";

/// A running fake; it stops when dropped.
#[derive(Debug)]
pub struct FakeGoogleChat {
    server: FakeServer<Service>,
    clock: Clock,
}

/// The event in the form that add-ons get.
fn as_add_on(event: &Value) -> Value {
    let payload = if event["type"] == "CARD_CLICKED" { "buttonClickedPayload" } else { "messagePayload" };
    json!({
        "commonEventObject": {"hostApp": "CHAT", "platform": "WEB", "parameters": event["common"]["parameters"]},
        "authorizationEventObject": {"systemIdToken": "x"},
        "chat": {
            "user": event["user"], "eventTime": event["eventTime"],
            payload: {"message": event["message"], "space": event["space"]},
        },
    })
}

impl FakeGoogleChat {
    /// # Errors
    /// When no port on loopback can be had.
    pub async fn start(clock: Clock) -> io::Result<Self> {
        Ok(Self { server: FakeServer::start(Service::new(clock.clone())).await?, clock })
    }

    /// What reaches this fake, and is known to it. The audience is a project's number.
    #[must_use]
    pub fn config(&self) -> GoogleChatConfig {
        let base = self.base_url();
        GoogleChatConfig {
            token_url: base.join("/token").ok(),
            keys_url: base.join("/certificates").ok(),
            api_base_url: Some(base),
            audience: Some(PROJECT.to_owned()),
            service_account: Some(Secret::new(self.service_account().to_string())),
            endpoint: Some(ADDRESS.to_owned()),
        }
    }

    /// As [`Self::config`], where the audience is an address.
    #[must_use]
    pub fn config_for_address(&self) -> GoogleChatConfig {
        let keys_url = self.base_url().join("/keys").ok();
        GoogleChatConfig { keys_url, audience: Some(ADDRESS.to_owned()), ..self.config() }
    }

    /// The key file, to change.
    #[must_use]
    pub fn service_account(&self) -> Value {
        let key = keys::service_account_key();
        json!({
            "type": "service_account",
            "project_id": "fake-project",
            "private_key_id": key.id,
            "private_key": key.private_pem,
            "client_email": EMAIL,
            "token_uri": TOKEN_URI,
        })
    }

    /// Where everything is.
    #[must_use]
    pub fn base_url(&self) -> Url {
        self.server.url("/")
    }

    /// What the next request to the API that is not yet spoken for is answered.
    pub fn misbehave(&self, behaviour: Behaviour) {
        self.server.misbehave(behaviour);
    }

    /// Every request to the API so far, oldest first.
    #[must_use]
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.server.requests()
    }

    /// The bodies of messages so far, those that were refused included.
    #[must_use]
    pub fn sent(&self) -> Vec<Value> {
        self.server.sent(|request| request.method == Method::POST)
    }

    /// A file that somebody uploaded.
    pub fn put_file(&self, name: &str, file: FakeFile) {
        self.server.vendor().files.put(name, file);
    }

    /// A direct message with a file that was put here.
    #[must_use]
    pub fn upload(&self, id: &str, sender: &str, text: &str, name: &str) -> WebhookRequest {
        let mut event = self.message_event(id, sender, text);
        event["message"]["attachment"] = json!([{
            "name": format!("{SPACE}/messages/{id}/attachments/1"), "contentName": "report.pdf",
            "contentType": "application/pdf", "source": "UPLOADED_CONTENT",
            "attachmentDataRef": {"resourceName": name},
        }]);
        self.event(&event)
    }

    /// Signs by another key from now on, and publishes no other.
    pub fn change_key(&self) {
        *self.server.vendor().key_changes.lock() += 1;
    }

    /// How often the keys were fetched.
    #[must_use]
    pub fn key_fetches(&self) -> usize {
        *self.server.vendor().key_fetches.lock()
    }

    /// Takes no token any more that was given so far.
    pub fn end_tokens(&self) {
        self.server.vendor().tokens.lock().clear();
    }

    /// How many tokens were given.
    #[must_use]
    pub fn tokens_given(&self) -> usize {
        *self.server.vendor().tokens_given.lock()
    }

    /// A direct message.
    #[must_use]
    pub fn message(&self, id: &str, sender: &str, text: &str) -> WebhookRequest {
        self.described(self.message_event(id, sender, text))
    }

    /// A message in a space that mentions the app.
    #[must_use]
    pub fn mention(&self, id: &str, sender: &str, text: &str) -> WebhookRequest {
        let mut event = self.message_event(id, sender, &format!("@Agent {text}"));
        event["message"]["argumentText"] = json!(format!(" {text}"));
        event["space"] = json!({"name": SPACE, "type": "ROOM", "spaceType": "SPACE"});
        self.described(event)
    }

    /// Somebody presses a button of the message with this name.
    #[must_use]
    pub fn press(&self, sender: &str, data: &str, message: &str) -> WebhookRequest {
        self.described(json!({
            "type": "CARD_CLICKED",
            "eventTime": self.clock.now().to_string(),
            "user": {"name": sender, "displayName": "Anna", "type": "HUMAN"},
            "space": {"name": SPACE, "type": "DM", "spaceType": "DIRECT_MESSAGE"},
            "message": {"name": message, "sender": {"name": "users/7", "type": "BOT"}},
            "action": {"actionMethodName": "decide", "parameters": [{"key": "decision", "value": data}]},
            "common": {"invokedFunction": "decide", "parameters": {"decision": data}},
        }))
    }

    fn described(&self, event: Value) -> WebhookRequest {
        self.event(&self.server.event("Event", event))
    }

    /// A direct message as JSON, to change.
    #[must_use]
    pub fn message_event(&self, id: &str, sender: &str, text: &str) -> Value {
        let now = self.clock.now().to_string();
        json!({
            "type": "MESSAGE",
            "eventTime": now,
            "space": {"name": SPACE, "type": "DM", "spaceType": "DIRECT_MESSAGE"},
            "user": {"name": sender, "displayName": "Anna", "type": "HUMAN"},
            "message": {
                "name": format!("{SPACE}/messages/{id}"),
                "sender": {"name": sender, "displayName": "Anna", "type": "HUMAN"},
                "createTime": now,
                "text": text,
                "argumentText": text,
                "thread": {"name": format!("{SPACE}/threads/{id}")},
            },
        })
    }

    /// Any event, with a token for the project's number.
    #[must_use]
    pub fn event(&self, event: &Value) -> WebhookRequest {
        self.event_with_claims(event, &self.claims())
    }

    /// Any event, with a token for the address.
    #[must_use]
    pub fn event_for_address(&self, event: &Value) -> WebhookRequest {
        self.event_with_claims(event, &self.claims_for_address())
    }

    /// An event as a Workspace add-on gets it at this address, with a token of the project's add-on account.
    #[must_use]
    pub fn add_on_event(&self, event: &Value, address: &str) -> WebhookRequest {
        let mut claims = self.claims_of_add_on(PROJECT);
        claims["aud"] = json!(address);
        self.event_with_claims(&as_add_on(event), &claims)
    }

    /// What a token of the add-on account of a project says.
    #[must_use]
    pub fn claims_of_add_on(&self, project: &str) -> Value {
        let mut claims = self.claims_for_address();
        claims["email"] = json!(format!("service-{project}@gcp-sa-gsuiteaddons.iam.gserviceaccount.com"));
        claims
    }

    /// What a token for the project's number says.
    #[must_use]
    pub fn claims(&self) -> Value {
        let now = self.clock.now().as_millis() / 1000;
        json!({"iss": CHAT, "aud": PROJECT, "iat": now, "exp": now + 3600})
    }

    /// What a token for the address says.
    #[must_use]
    pub fn claims_for_address(&self) -> Value {
        let now = self.clock.now().as_millis() / 1000;
        json!({
            "iss": "https://accounts.google.com", "aud": ADDRESS, "azp": "1", "sub": "1", "email": CHAT,
            "email_verified": true, "iat": now, "exp": now + 3600,
        })
    }

    /// Any event with any claims, signed.
    #[must_use]
    pub fn event_with_claims(&self, event: &Value, claims: &Value) -> WebhookRequest {
        let key = keys::platform_key(*self.server.vendor().key_changes.lock());
        let mut headers = HeaderMap::new();
        let token = key.sign(claims);
        if let Ok(value) = HeaderValue::from_str(&format!("Bearer {token}")) {
            headers.insert("authorization", value);
        }
        WebhookRequest { method: Method::POST, query: String::new(), headers, body: Bytes::from(event.to_string()) }
    }
}
