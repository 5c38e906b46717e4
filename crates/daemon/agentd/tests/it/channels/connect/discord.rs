//! Discord Gateway connections.

use std::time::Duration;

use agentd_testing_chat_platforms::discord::{APPLICATION_ID, FakeDiscord, GatewayFault};
use serde_json::json;

use super::{hello, is_status, set, status, work_until};
use crate::support::chat_fixture::ChatFixture;

const CHANNEL: &str = "1300000000000000002";

struct Daemon {
    fixture: ChatFixture,
    discord: FakeDiscord,
}

impl Daemon {
    async fn start() -> Self {
        let daemon = Self {
            fixture: ChatFixture::with(hello()).await,
            discord: FakeDiscord::start("bot-token").await.expect("a fake platform"),
        };
        let settings = json!({
            "enabled": true, "mode": "connect", "agent_id": "scout", "bot_token": "bot-token", "sender_policy": "open",
            "application_id": APPLICATION_ID, "api_base_url": daemon.discord.base_url().as_str(),
        });
        set(&daemon.fixture.app, "discord", settings).await;
        daemon
    }

    async fn connect(&self) {
        let app = &self.fixture.app;
        work_until(app, "a connection", async || is_status(app, "discord", "connected").await).await;
    }

    fn push(&self, number: u64) {
        let id = format!("{}", 1_500_000_000_000_000_000 + number);
        self.discord.push_message(&id, "7", CHANNEL, None, &format!("Number {number}."));
    }

    async fn work_until(&self, what: &str, is_done: impl Fn(&FakeDiscord) -> bool) {
        work_until(&self.fixture.app, what, async || {
            self.fixture.app.clock.advance(Duration::from_millis(20));
            is_done(&self.discord)
        })
        .await;
    }
}

#[tokio::test]
async fn session_survives_reconnects_and_restarts() {
    let mut daemon = Daemon::start().await;
    daemon.connect().await;
    daemon.push(1);
    daemon.work_until("an answer", |discord| discord.sent().len() == 1).await;
    daemon.push(2);
    daemon.discord.gateway_fault(GatewayFault::Drop);
    daemon.work_until("another answer", |discord| discord.sent().len() == 2).await;
    daemon.work_until("the session", |discord| discord.sessions() == (true, 1, 1)).await;
    daemon.fixture.app.stop().await;
    daemon.push(3);
    daemon.fixture.app.try_start().await.expect("the daemon starts");
    daemon.work_until("the third answer", |discord| discord.sent().len() == 3).await;
    assert_eq!(daemon.discord.sessions(), (true, 1, 2), "the session was resumed");
    // Discord ends the session; a new one starts after a pause.
    daemon.discord.gateway_fault(GatewayFault::InvalidSession { can_resume: false });
    daemon.work_until("another session", |discord| discord.sessions() == (true, 2, 2)).await;
    daemon.connect().await;
    daemon.push(4);
    daemon.work_until("the fourth answer", |discord| discord.sent().len() == 4).await;
    assert_eq!((daemon.fixture.vendor.requests().len(), daemon.discord.problems()), (4, Vec::new()));
}

#[tokio::test]
async fn command_is_answered_in_its_interaction() {
    let daemon = Daemon::start().await;
    daemon.connect().await;
    let now = daemon.fixture.app.clock.clock().now();
    daemon.discord.push(&daemon.discord.message("2001", "7", "How are things?", now));
    daemon.work_until("an answer", |discord| discord.sent().iter().any(|sent| sent["content"] == "Hello.")).await;
    let paths: Vec<String> = daemon.discord.requests().into_iter().map(|request| request.path).collect();
    assert!(paths.contains(&"interactions/2001/…/callback".to_owned()), "{paths:?}");
}

#[tokio::test]
async fn missing_message_content_intent_is_reported() {
    let daemon = Daemon::start().await;
    daemon.discord.set_message_content(false);
    let app = &daemon.fixture.app;
    work_until(app, "an error", async || is_status(app, "discord", "error").await).await;
    let error = status(app, "discord").await.1;
    assert!(error.contains("Message Content Intent"), "{error}");
    daemon.discord.set_message_content(true);
    // Saving the settings triggers an immediate attempt.
    set(app, "discord", json!({"groups": "always"})).await;
    daemon.connect().await;
}

#[tokio::test]
async fn another_replica_resumes_the_session() {
    let mut daemon = Daemon::start().await;
    let Some(replica) = daemon.fixture.app.replica().await else { return };
    daemon.connect().await;
    daemon.push(1);
    daemon.work_until("an answer", |discord| discord.sent().len() == 1).await;
    daemon.fixture.app.stop().await;
    daemon.push(2);
    work_until(&replica, "another answer", async || {
        replica.clock.advance(Duration::from_millis(100));
        daemon.discord.sent().len() == 2
    })
    .await;
    assert_eq!(daemon.discord.sessions(), (true, 1, 1), "the session was resumed");
    assert_eq!(daemon.fixture.vendor.requests().len(), 2);
}
