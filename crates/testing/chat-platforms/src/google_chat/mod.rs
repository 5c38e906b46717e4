//! Fake Google Chat on loopback: keys, token service and API, as strict as Google's.

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

/// Running fake, which stops when dropped.
#[derive(Debug)]
pub struct FakeGoogleChat {
    server: FakeServer<Service>,
    clock: Clock,
}

/// Converts an event to the format of add-ons.
fn to_add_on_event(event: &Value) -> Value {
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
    /// Starts the fake on a loopback port.
    ///
    /// # Errors
    /// Binding a loopback port fails.
    pub async fn start(clock: Clock) -> io::Result<Self> {
        Ok(Self { server: FakeServer::start(Service::new(clock.clone())).await?, clock })
    }

    /// Returns a configuration for this fake, with a project number as audience.
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

    /// Returns a configuration like [`Self::config`] with a URL as audience.
    #[must_use]
    pub fn config_for_address(&self) -> GoogleChatConfig {
        let keys_url = self.base_url().join("/keys").ok();
        GoogleChatConfig { keys_url, audience: Some(ADDRESS.to_owned()), ..self.config() }
    }

    /// Returns the key file as JSON that tests can modify.
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

    /// Returns the base URL of all services.
    #[must_use]
    pub fn base_url(&self) -> Url {
        self.server.url("/")
    }

    /// Overrides the response to the next API request without an override.
    pub fn misbehave(&self, behaviour: Behaviour) {
        self.server.misbehave(behaviour);
    }

    /// Returns all API requests, oldest first.
    #[must_use]
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.server.requests()
    }

    /// Returns the bodies of all messages, including rejected ones.
    #[must_use]
    pub fn sent(&self) -> Vec<Value> {
        self.server.sent(|request| request.method == Method::POST)
    }

    /// Adds an uploaded file.
    pub fn put_file(&self, name: &str, file: FakeFile) {
        self.server.vendor().files.put(name, file);
    }

    /// Returns a direct message with a file added before.
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

    /// Rotates the signing key and publishes only the new one.
    pub fn rotate_key(&self) {
        *self.server.vendor().key_changes.lock() += 1;
    }

    /// Returns the number of key fetches.
    #[must_use]
    pub fn key_fetches(&self) -> usize {
        *self.server.vendor().key_fetches.lock()
    }

    /// Revokes all tokens.
    pub fn revoke_tokens(&self) {
        self.server.vendor().tokens.lock().clear();
    }

    /// Returns the number of tokens issued.
    #[must_use]
    pub fn tokens_given(&self) -> usize {
        *self.server.vendor().tokens_given.lock()
    }

    /// Returns a direct message.
    #[must_use]
    pub fn message(&self, id: &str, sender: &str, text: &str) -> WebhookRequest {
        self.described(self.message_event(id, sender, text))
    }

    /// Returns a message in a space that mentions the app.
    #[must_use]
    pub fn mention(&self, id: &str, sender: &str, text: &str) -> WebhookRequest {
        let mut event = self.message_event(id, sender, &format!("@Agent {text}"));
        event["message"]["argumentText"] = json!(format!(" {text}"));
        event["space"] = json!({"name": SPACE, "type": "ROOM", "spaceType": "SPACE"});
        self.described(event)
    }

    /// Returns a button press below the message with this name.
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

    /// Returns a direct message as JSON that tests can modify.
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

    /// Returns any event with a token for the project number.
    #[must_use]
    pub fn event(&self, event: &Value) -> WebhookRequest {
        self.event_with_claims(event, &self.claims())
    }

    /// Returns any event with a token for the URL.
    #[must_use]
    pub fn event_for_address(&self, event: &Value) -> WebhookRequest {
        self.event_with_claims(event, &self.claims_for_address())
    }

    /// Returns an event for a Workspace add-on at this URL, with a token of the project's add-on account.
    #[must_use]
    pub fn add_on_event(&self, event: &Value, address: &str) -> WebhookRequest {
        let mut claims = self.claims_of_add_on(PROJECT);
        claims["aud"] = json!(address);
        self.event_with_claims(&to_add_on_event(event), &claims)
    }

    /// Returns the token claims of a project's add-on account.
    #[must_use]
    pub fn claims_of_add_on(&self, project: &str) -> Value {
        let mut claims = self.claims_for_address();
        claims["email"] = json!(format!("service-{project}@gcp-sa-gsuiteaddons.iam.gserviceaccount.com"));
        claims
    }

    /// Returns the claims of a token for the project number.
    #[must_use]
    pub fn claims(&self) -> Value {
        let now = self.clock.now().as_millis() / 1000;
        json!({"iss": CHAT, "aud": PROJECT, "iat": now, "exp": now + 3600})
    }

    /// Returns the claims of a token for the URL.
    #[must_use]
    pub fn claims_for_address(&self) -> Value {
        let now = self.clock.now().as_millis() / 1000;
        json!({
            "iss": "https://accounts.google.com", "aud": ADDRESS, "azp": "1", "sub": "1", "email": CHAT,
            "email_verified": true, "iat": now, "exp": now + 3600,
        })
    }

    /// Returns any event signed with any claims.
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
