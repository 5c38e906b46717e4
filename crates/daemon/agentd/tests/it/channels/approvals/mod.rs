//! Approvals in chats: who may decide them, where, and how they are shown.

mod attacks;
mod discord;
mod owner;
mod telegram;

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use agentd_chat_platforms::{Platform, WebhookRequest};
use agentd_llm::ToolCall;
use agentd_testing_chat_platforms::{FakeMessage, FakePlatform, FakePress};
use agentd_testing_llm::{Reply, Script};
use serde_json::{Value, json};

use super::{hook, settle};
use crate::support::chat_fixture::{ChatFixture, TEST_USAGE};
use crate::support::{Eventually, TestApp, TestResponse};

pub use telegram::{approve_sender, pending};

/// Chat ids of direct chats.
const OWNER: u32 = 7;
/// Approved sender who is not the owner.
const MEMBER: u32 = 8;
const UNKNOWN_SENDER: u32 = 9;

/// Maximum number of attempts before a message counts as not sent.
const MAX_ATTEMPTS: usize = 200;
const PUBLIC_URL: &str = "https://agents.example";

/// A daemon with one chat platform and an agent that requires approval to write a file.
struct Bench {
    fixture: ChatFixture,
    fake: FakePlatform,
    messages: AtomicU32,
}

fn writes(content: &str) -> Reply {
    let call = ToolCall::new("v1", "write_file", json!({"path": "a.txt", "content": content}));
    Reply::tool_calls(vec![call], TEST_USAGE)
}

fn says(text: &str) -> Reply {
    Reply::text([text], TEST_USAGE)
}

impl Bench {
    /// Starts the daemon and approves the owner and a member, in this order.
    async fn start(platform: Platform, replies: impl IntoIterator<Item = Reply>) -> Self {
        let bench = Self::unpaired(platform, replies).await;
        for chat in [OWNER, MEMBER] {
            bench.pair(chat).await;
        }
        bench
    }

    async fn unpaired(platform: Platform, replies: impl IntoIterator<Item = Reply>) -> Self {
        let app = TestApp::start_with(|source| source.base_url = Some(PUBLIC_URL.to_owned())).await;
        let fixture = ChatFixture::on(app, Script::queue(replies)).await;
        let fake = FakePlatform::start(platform, fixture.app.clock.clock()).await.unwrap();
        let bench = Self { fixture, fake, messages: AtomicU32::new(1) };
        let mut settings = bench.fake.settings();
        settings["enabled"] = json!(true);
        settings["agent_id"] = json!("scout");
        settings["tools"] = json!(["write_file", "greet"]);
        bench.set(settings).await;
        bench
    }

    fn app(&self) -> &TestApp {
        &self.fixture.app
    }

    fn platform(&self) -> &'static str {
        self.fake.platform().id()
    }

    async fn set(&self, settings: Value) {
        let settings = json!({ self.platform(): settings });
        self.app().put("/api/channels/settings").json(&settings).send().await.expect_status(200);
    }

    fn next_number(&self) -> u32 {
        self.messages.fetch_add(1, Ordering::SeqCst)
    }

    async fn receive(&self, request: &WebhookRequest) {
        hook(self.app(), self.platform(), request).send().await.expect_status(200);
    }

    /// Sends a message to the daemon.
    async fn write(&self, sender: u32, chat: u32, text: &str) {
        let message = FakeMessage { chat, number: self.next_number(), text };
        self.receive(&self.fake.message_by(sender, &message, self.app().clock.clock().now())).await;
    }

    /// Sends a message and waits until the daemon is idle.
    async fn say(&self, sender: u32, chat: u32, text: &str) {
        self.write(sender, chat, text).await;
        settle(self.app()).await;
    }

    async fn press(&self, sender: u32, chat: u32, message_id: &str, data: &str) {
        let press = FakePress { chat, sender, number: self.next_number(), message_id, data };
        self.receive(&self.fake.press(&press, self.app().clock.clock().now())).await;
        settle(self.app()).await;
    }

    async fn pair(&self, chat: u32) {
        self.say(chat, chat, "Let me in.").await;
        let open = self.app().get("/api/channels/pairings").send().await.expect_status(200).json();
        let code = open["pairings"][0]["code"].as_str().unwrap();
        let path = format!("/api/channels/{}/pairings/{code}/approve", self.platform());
        self.app().post(&path).send().await.expect_status(200);
        settle(self.app()).await;
    }

    async fn set_owner(&self, sender: &Value) -> TestResponse {
        let path = format!("/api/channels/{}/owner", self.platform());
        self.app().put(&path).json(&json!({"sender_id": sender})).send().await
    }

    async fn pending(&self) -> Vec<Value> {
        let all = self.app().get("/api/chat/approvals?status=pending").send().await.expect_status(200).json();
        all["approvals"].as_array().unwrap().clone()
    }

    /// Sends a message as the owner that leads to a call requiring approval; returns the question.
    async fn ask(&self) -> Question {
        self.write(OWNER, OWNER, "Write it down.").await;
        let mut eventually = Eventually::new();
        loop {
            self.app().run_workers().await;
            if let Some(question) = self.question().await {
                return question;
            }
            eventually.retry().await;
        }
    }

    /// Returns the newest question that was sent.
    async fn question(&self) -> Option<Question> {
        let path = format!("/api/notifications?status=sent&platform={}", self.platform());
        let sent = self.app().get(&path).send().await.expect_status(200).json();
        for notification in sent["notifications"].as_array().unwrap() {
            let path = format!("/api/notifications/{}", notification["id"].as_str().unwrap());
            let whole = self.app().get(&path).send().await.expect_status(200).json();
            let text = whole["body"].as_str().unwrap().to_owned();
            if text.starts_with("May I use") {
                let message_id = whole["reference"].as_str().unwrap().to_owned();
                let approval_id = self.pending().await[0]["id"].as_str().unwrap().to_owned();
                let (_, rest) = text.split_once("`reject ").unwrap();
                let code = rest[..6].to_owned();
                return Some(Question { approval_id, message_id, code, text });
            }
        }
        None
    }

    /// Returns the messages sent to the platform, each as JSON text.
    fn sent(&self) -> Vec<String> {
        self.fake.sent().iter().map(Value::to_string).collect()
    }

    /// Waits until a message was sent this many times. Deliveries may still be running when the daemon has settled.
    async fn expect_sent(&self, text: &str, times: usize) {
        let count = || self.sent().iter().filter(|sent| sent.contains(text)).count();
        for _ in 0..MAX_ATTEMPTS {
            if count() >= times {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
            settle(self.app()).await;
        }
        if count() != times {
            let notifications = self.app().get("/api/notifications").send().await.json();
            let messages = self.app().get("/api/chat/conversations").send().await.json();
            let (platform, sent) = (self.fake.platform(), self.sent());
            panic!("{platform:?}: not {times} times `{text}` in {sent:#?}\n{notifications:#}\n{messages:#}");
        }
    }

    fn written(&self) -> Option<String> {
        std::fs::read_to_string(self.app().data_dir().join("agents/scout/a.txt")).ok()
    }

    /// Returns the last request to the model as JSON text.
    fn last_model_request(&self) -> String {
        self.fixture.vendor.requests().last().unwrap().body.to_string()
    }
}

/// An approval requested in a chat.
struct Question {
    approval_id: String,
    message_id: String,
    code: String,
    /// Text of the question in Markdown.
    text: String,
}

impl Question {
    fn approve(&self) -> String {
        format!("approve:{}", self.approval_id)
    }

    fn reject(&self) -> String {
        format!("reject:{}", self.approval_id)
    }
}
