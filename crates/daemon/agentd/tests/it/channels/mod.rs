//! Chat platforms: pairing, answers, and settings.

mod albums;
mod approvals;
mod attachments;
mod bounds;
mod chaos;
mod connect;
mod contents;
mod guide;
mod pairing;
mod platforms;
mod progress;
mod settings;
mod slow_answers;
mod turns;

use agentd_chat_platforms::WebhookRequest;
use agentd_store::{StoreError, Tx, args};
use agentd_testing_chat_platforms::telegram::FakeTelegram;
use agentd_testing_llm::Script;
use serde_json::{Value, json};

use crate::support::chat_fixture::ChatFixture;
use crate::support::{TestApp, TestRequest, TestResponse};

const TOKEN: &str = "123456:bot-token-of-the-test";
const SECRET: &str = "secret-token-of-the-test";
/// Sender approved by the owner.
pub const ADA: i64 = 7;
pub const UNKNOWN_SENDER: i64 = 8;

/// A daemon with an agent, a model provider, and Telegram.
pub struct Channel {
    pub fixture: ChatFixture,
    pub telegram: FakeTelegram,
}

/// Returns the webhook request as the platform sends it.
pub fn hook(app: &TestApp, platform: &str, request: &WebhookRequest) -> TestRequest {
    let mut hook = app.post(&format!("/api/channels/{platform}/webhook")).anonymous();
    for (name, value) in &request.headers {
        if name != "content-type" {
            hook = hook.header(name.as_str(), value.to_str().expect("a text"));
        }
    }
    let content_type = request.headers.get("content-type").map_or("application/json", |value| value.to_str().unwrap());
    hook.body(content_type, request.body.to_vec())
}

/// Runs the workers and waits for turns until the daemon is idle.
pub async fn settle(app: &TestApp) {
    for _ in 0..3 {
        app.run_workers().await;
        wait_for_turns(app).await;
    }
}

async fn wait_for_turns(app: &TestApp) {
    let mut eventually = crate::support::Eventually::new();
    while app.running().daemon.running_turns() > 0 {
        eventually.retry().await;
    }
}

impl Channel {
    /// Starts with [`ADA`] as an allowed sender.
    pub async fn with(script: Script) -> Self {
        let channel = Self::closed(script).await;
        channel.set(json!({"allowed_senders": [ADA.to_string()]})).await;
        channel
    }

    /// Starts without allowed senders.
    pub async fn closed(script: Script) -> Self {
        let telegram = FakeTelegram::start(TOKEN, SECRET).await.expect("a fake platform");
        let channel = Self { fixture: ChatFixture::with(script).await, telegram };
        channel
            .set(json!({
                "enabled": true, "agent_id": "scout", "api_base_url": channel.telegram.base_url().as_str(),
                "bot_token": TOKEN, "secret_token": SECRET,
            }))
            .await;
        channel
    }

    pub fn app(&self) -> &TestApp {
        &self.fixture.app
    }

    pub async fn set(&self, fields: Value) {
        self.app().put("/api/channels/settings").json(&json!({"telegram": fields})).send().await.expect_status(200);
    }

    pub async fn post(&self, request: &WebhookRequest) -> TestResponse {
        hook(self.app(), "telegram", request).send().await
    }

    /// Sends a message and waits until the daemon is idle.
    pub async fn say(&self, id: i64, sender: i64, text: &str) {
        self.post(&self.telegram.message(id, sender, text)).await.expect_status(200);
        self.settle().await;
    }

    /// Runs the workers and waits for turns until the daemon is idle.
    pub async fn settle(&self) {
        settle(self.app()).await;
    }

    async fn wait_for_turns(&self) {
        wait_for_turns(self.app()).await;
    }

    /// Makes storing messages with this content fail until [`restore_inserts`](Self::restore_inserts).
    async fn fail_inserts(&self, content: &str) {
        self.alter(match self.app().database_url() {
            Some(_) => {
                format!("ALTER TABLE channel_messages ADD CONSTRAINT refused CHECK (content <> '{content}') NOT VALID")
            }
            None => format!(
                "CREATE TRIGGER refused BEFORE INSERT ON channel_messages WHEN NEW.content = '{content}' \
                 BEGIN SELECT RAISE(ABORT, 'refused'); END"
            ),
        })
        .await;
    }

    async fn restore_inserts(&self) {
        let is_server = self.app().database_url().is_some();
        let sql =
            if is_server { "ALTER TABLE channel_messages DROP CONSTRAINT refused" } else { "DROP TRIGGER refused" };
        self.alter(sql.to_owned()).await;
    }

    async fn alter(&self, sql: String) {
        let alter = async move |tx: &mut Tx| tx.execute(sql.clone(), args![]).await;
        self.app().running().context().db.write::<_, StoreError, _>(alter).await.expect("altered");
    }

    /// Returns the texts of the messages sent to the platform.
    pub fn sent(&self) -> Vec<String> {
        let text = |message: &Value| message["text"].as_str().expect("a text").to_owned();
        self.telegram.sent().iter().map(text).collect()
    }

    /// Returns the requests to the model, each as JSON text.
    pub fn model_requests(&self) -> Vec<String> {
        self.fixture.vendor.requests().iter().map(|request| request.body.to_string()).collect()
    }

    pub async fn conversations(&self) -> Vec<Value> {
        let all = self.app().get("/api/chat/conversations").send().await.expect_status(200).json();
        all["conversations"].as_array().expect("conversations").clone()
    }
}
