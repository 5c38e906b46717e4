//! Slack Socket Mode connections.

use agentd_llm::ToolCall;
use agentd_testing_chat_platforms::slack::{FakeSlack, SocketFault};
use agentd_testing_llm::{Reply, Script};
use serde_json::{Value, json};

use super::{hello, is_status, set, status, work_until};
use crate::support::TestApp;
use crate::support::chat_fixture::{ChatFixture, TEST_USAGE};

struct Daemon {
    fixture: ChatFixture,
    slack: FakeSlack,
}

impl Daemon {
    async fn with(script: Script) -> Self {
        let daemon = Self {
            fixture: ChatFixture::with(script).await,
            slack: FakeSlack::start("xoxb-1", "xapp-1", "signing").await.expect("a fake platform"),
        };
        daemon.set(daemon.settings()).await;
        daemon
    }

    fn settings(&self) -> Value {
        json!({
            "enabled": true, "mode": "connect", "agent_id": "scout", "api_base_url": self.slack.base_url().as_str(),
            "bot_token": "xoxb-1", "app_token": "xapp-1", "sender_policy": "open",
        })
    }

    async fn set(&self, fields: Value) {
        set(&self.fixture.app, "slack", fields).await;
    }

    fn push(&self, number: usize) {
        let now = self.fixture.app.clock.clock().now();
        let ts = format!("1795600000.{number:06}");
        self.slack.push(&self.slack.message(&ts, "U7", &format!("Number {number}."), now));
    }

    async fn work_until(&self, what: &str, is_done: impl Fn(&FakeSlack) -> bool) {
        work_until(&self.fixture.app, what, async || is_done(&self.slack)).await;
    }
}

async fn pending(app: &TestApp) -> Vec<Value> {
    let all = app.get("/api/chat/approvals?status=pending").send().await.expect_status(200).json();
    all["approvals"].as_array().unwrap().clone()
}

#[tokio::test]
async fn message_is_answered_once_despite_socket_faults() {
    let mut daemon = Daemon::with(hello()).await;
    daemon.push(1);
    daemon.work_until("an answer", |slack| slack.sent().len() == 1).await;
    assert!(is_status(&daemon.fixture.app, "slack", "connected").await);
    daemon.work_until("the acknowledgement", |slack| slack.acknowledged().len() == 1).await;
    // The socket closes after the message was sent and before it is stored.
    daemon.push(2);
    daemon.slack.socket_fault(SocketFault::Repeat);
    daemon.slack.socket_fault(SocketFault::Drop);
    daemon.work_until("another answer", |slack| slack.sent().len() == 2 && slack.acknowledged().len() == 2).await;
    // A new socket opens before the first one closes.
    daemon.slack.socket_fault(SocketFault::Leave);
    daemon.work_until("another socket", |slack| slack.open_sockets() == (1, 2)).await;
    daemon.push(3);
    daemon.work_until("the third answer", |slack| slack.sent().len() == 3).await;
    daemon.fixture.app.stop().await;
    daemon.push(4);
    daemon.fixture.app.try_start().await.expect("the daemon starts");
    daemon.work_until("the fourth answer", |slack| slack.sent().len() == 4).await;
    assert_eq!((daemon.fixture.vendor.requests().len(), daemon.slack.problems()), (4, Vec::new()));
}

#[tokio::test]
async fn button_decides_over_the_socket() {
    let call = ToolCall::new("v1", "write_file", json!({"path": "a.txt", "content": "x"}));
    let daemon =
        Daemon::with(Script::queue([Reply::tool_calls(vec![call], TEST_USAGE), Reply::text(["Done."], TEST_USAGE)]))
            .await;
    daemon.set(json!({"tools": ["write_file"], "sender_policy": "pairing"})).await;
    let app = &daemon.fixture.app;
    daemon.push(1);
    daemon.work_until("a code", |slack| slack.sent().len() == 1).await;
    let open = app.get("/api/channels/pairings").send().await.expect_status(200).json();
    let code = open["pairings"][0]["code"].as_str().unwrap().to_owned();
    app.post(&format!("/api/channels/slack/pairings/{code}/approve")).send().await.expect_status(200);
    daemon.push(2);
    work_until(app, "an approval", async || !pending(app).await.is_empty()).await;
    daemon
        .work_until("a question", |slack| slack.sent().iter().any(|sent| sent.to_string().contains("approve:")))
        .await;
    let question = daemon.slack.sent().iter().position(|sent| sent.to_string().contains("approve:")).unwrap();
    let id = pending(app).await[0]["id"].as_str().unwrap().to_owned();
    let ts = format!("1795600000.{:06}", question + 1);
    let now = app.clock.clock().now();
    daemon.slack.push(&daemon.slack.press(&ts, "U7", "D0DIRECT", &format!("approve:{id}"), now));
    daemon.work_until("the end", |slack| slack.sent().iter().any(|sent| sent.to_string().contains("Done."))).await;
    assert_eq!(pending(app).await.len(), 0);
}

#[tokio::test]
async fn wrong_token_is_reported() {
    let daemon = Daemon::with(hello()).await;
    daemon.set(json!({"app_token": "xapp-2"})).await;
    let app = &daemon.fixture.app;
    work_until(app, "an error", async || is_status(app, "slack", "error").await).await;
    let error = status(app, "slack").await.1;
    assert!(error.contains("check channels.slack.app_token") && !error.contains("xapp-2"), "{error}");
    daemon.set(json!({"app_token": "xapp-1"})).await;
    work_until(app, "a connection", async || is_status(app, "slack", "connected").await).await;
    daemon.set(json!({"enabled": false})).await;
    daemon.work_until("the end", |slack| slack.open_sockets().0 == 0).await;
}

#[tokio::test]
async fn another_replica_takes_over() {
    let mut daemon = Daemon::with(hello()).await;
    let Some(replica) = daemon.fixture.app.replica().await else { return };
    let app = &daemon.fixture.app;
    work_until(app, "a connection", async || is_status(app, "slack", "connected").await).await;
    replica.run_workers().await;
    replica.run_workers().await;
    assert_eq!(daemon.slack.open_sockets(), (1, 1), "one daemon connects");
    assert!(is_status(&replica, "slack", "connected").await, "both report the connection");
    daemon.fixture.app.stop().await;
    daemon.push(1);
    work_until(&replica, "an answer", async || {
        replica.clock.advance(std::time::Duration::from_millis(100));
        daemon.slack.sent().len() == 1
    })
    .await;
    assert_eq!(daemon.fixture.vendor.requests().len(), 1);
}
