//! Fake Bot Framework on loopback: keys, login service and connector, as strict as Microsoft's.

mod service;

use std::io;

use agentd_base::{Clock, Secret};
use agentd_chat_platforms::WebhookRequest;
use agentd_chat_platforms::teams::TeamsConfig;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method};
use serde_json::{Value, json};
use url::Url;

pub use self::service::check_markdown;
use self::service::{KEYS_PATH, Service};
use crate::keys;
use crate::server::FakeServer;
pub use crate::server::{Behaviour, FakeFile, RecordedRequest};

/// Service URL in requests; replies go to the fake because of the configuration.
const SERVICE_URL: &str = "https://smba.trafficmanager.net/emea/";
const APP_ID: &str = "5f0a5a39-9a3c-4a7e-9a0b-2f5f1d6c0001";
const PASSWORD: &str = "fake-app-password";
const TENANT: &str = "9c1e6a52-0d7e-4c11-8d5f-6e7f8a9b0002";
const BOT: &str = "28:5f0a5a39-9a3c-4a7e-9a0b-2f5f1d6c0001";

/// Running fake, which stops when dropped.
#[derive(Debug)]
pub struct FakeTeams {
    server: FakeServer<Service>,
    clock: Clock,
}

impl FakeTeams {
    /// Starts the fake on a loopback port.
    ///
    /// # Errors
    /// Binding a loopback port fails.
    pub async fn start(clock: Clock) -> io::Result<Self> {
        let server = FakeServer::start(Service::default()).await?;
        *server.vendor().named_keys.lock() = Some(server.url(KEYS_PATH));
        Ok(Self { server, clock })
    }

    /// Returns a configuration for this fake. Login service, keys and connector share one base URL.
    #[must_use]
    pub fn config(&self) -> TeamsConfig {
        let base = self.base_url();
        TeamsConfig {
            keys_url: base.join("/v1/.well-known/openidconfiguration").ok(),
            login_base_url: Some(base.clone()),
            api_base_url: Some(base),
            app_id: Some(APP_ID.to_owned()),
            app_password: Some(Secret::new(PASSWORD.to_owned())),
            tenant_id: Some(TENANT.to_owned()),
        }
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
        self.server.sent(|request| request.method == Method::POST && request.body["type"] == "message")
    }

    /// Signs by another key from now on, and publishes no other.
    pub fn rotate_key(&self) {
        *self.server.vendor().key_changes.lock() += 1;
    }

    /// Sets whether keys are served.
    pub fn set_keys_available(&self, is_available: bool) {
        *self.server.vendor().refuses_keys.lock() = !is_available;
    }

    /// Sets the key set URL in the OpenID document.
    pub fn set_key_set_url(&self, url: Url) {
        *self.server.vendor().named_keys.lock() = Some(url);
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
        self.described(self.activity(id, sender, text))
    }

    /// Returns a channel message that mentions the bot.
    #[must_use]
    pub fn mention(&self, id: &str, sender: &str, text: &str) -> WebhookRequest {
        let mut activity = self.activity(id, sender, &format!("<at>Agent</at> {text}"));
        activity["conversation"] = json!({
            "id": "19:channel@thread.tacv2;messageid=1", "conversationType": "channel", "isGroup": true,
            "tenantId": TENANT,
        });
        activity["entities"] =
            json!([{"type": "mention", "text": "<at>Agent</at>", "mentioned": {"id": BOT, "name": "Agent"}}]);
        self.described(activity)
    }

    /// Returns a button press below the message `message_id`.
    #[must_use]
    pub fn press(&self, id: &str, sender: &str, data: &str, message_id: &str) -> WebhookRequest {
        let mut activity = self.activity(id, sender, "");
        activity["value"] = json!({"decision": data});
        activity["replyToId"] = json!(message_id);
        self.described(activity)
    }

    fn described(&self, activity: Value) -> WebhookRequest {
        self.event(&self.server.event("Activity", activity))
    }

    /// Adds a file, accessible at the connector with a token and in a OneDrive by its URL.
    pub fn put_file(&self, id: &str, file: FakeFile) {
        self.server.vendor().files.put(id, file);
    }

    /// Returns a direct message with a picture at the connector.
    #[must_use]
    pub fn picture(&self, id: &str, sender: &str, text: &str, file_id: &str) -> WebhookRequest {
        let url = self.server.url(&format!("/v3/attachments/{file_id}/views/original"));
        self.with_attachment(id, sender, text, &json!({"contentType": "image/png", "contentUrl": url.as_str()}))
    }

    /// Returns a direct message with a OneDrive file.
    #[must_use]
    pub fn upload(&self, id: &str, sender: &str, text: &str, file_id: &str) -> WebhookRequest {
        let download_url = self.server.url(&format!("/personal/{file_id}?tempauth=t0ken"));
        self.with_attachment(
            id,
            sender,
            text,
            &json!({
                "contentType": "application/vnd.microsoft.teams.file.download.info", "name": "report.pdf",
                "content": {"downloadUrl": download_url.as_str(), "uniqueId": "1", "fileType": "pdf"},
            }),
        )
    }

    fn with_attachment(&self, id: &str, sender: &str, text: &str, attachment: &Value) -> WebhookRequest {
        let mut activity = self.activity(id, sender, text);
        activity["attachments"] = json!([attachment]);
        self.event(&activity)
    }

    /// Returns a direct message as JSON that tests can modify.
    #[must_use]
    pub fn activity(&self, id: &str, sender: &str, text: &str) -> Value {
        json!({
            "type": "message",
            "id": id,
            "timestamp": self.clock.now().to_string(),
            "serviceUrl": SERVICE_URL,
            "channelId": "msteams",
            "from": {"id": sender, "name": "Anna", "aadObjectId": "aad-1"},
            "conversation": {"id": "a:1", "conversationType": "personal", "tenantId": TENANT},
            "recipient": {"id": BOT, "name": "Agent"},
            "channelData": {"tenant": {"id": TENANT}},
            "textFormat": "plain",
            "text": text,
        })
    }

    /// Returns any activity as a signed request.
    #[must_use]
    pub fn event(&self, activity: &Value) -> WebhookRequest {
        self.event_with_claims(activity, &self.claims(&activity["serviceUrl"]))
    }

    /// Returns the token claims for a request with this service URL.
    #[must_use]
    pub fn claims(&self, service_url: &Value) -> Value {
        let now = self.clock.now().as_millis() / 1000;
        json!({
            "serviceurl": service_url, "nbf": now, "exp": now + 3600,
            "iss": "https://api.botframework.com", "aud": APP_ID,
        })
    }

    /// Returns any activity signed with any claims.
    #[must_use]
    pub fn event_with_claims(&self, activity: &Value, claims: &Value) -> WebhookRequest {
        let key = keys::platform_key(*self.server.vendor().key_changes.lock());
        self.event_with_token(activity, &key.sign(claims))
    }

    /// Returns any activity with any token.
    #[must_use]
    pub fn event_with_token(&self, activity: &Value, token: &str) -> WebhookRequest {
        let mut headers = HeaderMap::new();
        if let Ok(value) = HeaderValue::from_str(&format!("Bearer {token}")) {
            headers.insert("authorization", value);
        }
        WebhookRequest { method: Method::POST, query: String::new(), headers, body: Bytes::from(activity.to_string()) }
    }
}
