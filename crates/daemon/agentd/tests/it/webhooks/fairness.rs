//! Webhooks share the capacity for waiting turns.

use agentd_llm::Vendor;
use agentd_testing_llm::{FakeVendor, Gate, Reply, Script};
use serde_json::json;

use super::Sender;
use crate::scheduler::BackgroundWorkers;
use crate::support::Eventually;
use crate::support::chat_fixture::{ChatFixture, TEST_USAGE, create_agent};

#[tokio::test]
async fn busy_webhook_leaves_capacity_for_others() {
    let gate = Gate::new();
    let fixture = ChatFixture::with(Script::always(Reply::text(["Late."], TEST_USAGE).gated(&gate))).await;
    let app = &fixture.app;
    let other = FakeVendor::start(Vendor::Anthropic, Script::always(Reply::text(["Soon."], TEST_USAGE))).await;
    let other = other.expect("a fake vendor");
    let key = json!({"api_key": "k", "base_url": other.base_url().as_str()});
    app.put("/api/providers/anthropic/key").json(&key).send().await.expect_status(200);
    create_agent(app, "ada").await;
    let profile = json!({"provider": "anthropic", "model": "fake"});
    app.patch("/api/agents/ada").json(&json!({"profile": profile})).send().await.expect_status(200);
    // Set explicitly, because the default is the first provider.
    let profile = json!({"provider": "openai", "model": "fake"});
    app.patch("/api/agents/scout").json(&json!({"profile": profile})).send().await.expect_status(200);
    let busy = Sender::create(app, json!({"name": "busy", "agent_id": "scout"})).await;
    let calm = Sender::create(app, json!({"name": "calm", "agent_id": "ada"})).await;
    // More than the number of turns that wait for a permit in this process.
    for _ in 0..160 {
        busy.send(app, &json!({"status": "green"})).await;
    }
    let _workers = BackgroundWorkers::start(app);
    let mut eventually = Eventually::new();
    while busy.deliveries(app, "?status=running").await["total"] != 8 {
        eventually.retry().await;
    }
    let delivery = calm.send(app, &json!({"status": "green"})).await;
    let mut eventually = Eventually::new();
    while calm.delivery(app, &delivery).await["status"] != "success" {
        eventually.retry().await;
    }
    assert_eq!(busy.deliveries(app, "?status=success").await["total"], 0);
    gate.open();
    let mut eventually = Eventually::new();
    while busy.deliveries(app, "?status=success").await["total"] != 160 {
        eventually.retry().await;
    }
}
