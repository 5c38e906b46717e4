//! Several replicas on one database.

use agentd_testing_llm::{Reply, Script};
use serde_json::json;

use super::{advance, create, every, id, runs, statuses, trigger, with};
use crate::support::chat_fixture::{ChatFixture, TEST_USAGE};

#[tokio::test]
async fn each_slot_runs_once_across_replicas() {
    let fixture = ChatFixture::with(Script::always(Reply::text(["Fine."], TEST_USAGE))).await;
    let Some(other) = fixture.app.replica().await else { return };
    let mut ids = Vec::new();
    for _ in 0..40 {
        ids.push(id(&create(&fixture.app, &every(600)).await));
    }
    for _ in 0..3 {
        advance(&fixture.app, 600);
        tokio::join!(fixture.app.run_workers(), other.run_workers());
    }
    for job in &ids {
        assert_eq!(statuses(&runs(&other, job).await), ["success"; 3]);
    }
    assert_eq!(fixture.vendor.requests().len(), 120);
}

#[tokio::test]
async fn run_triggered_on_one_replica_executes_on_another() {
    let fixture = ChatFixture::with(Script::always(Reply::text(["Fine."], TEST_USAGE))).await;
    let Some(other) = fixture.app.replica().await else { return };
    let job = id(&create(&fixture.app, &with(every(600), &json!({"name": "elsewhere"}))).await);
    trigger(&fixture.app, &job).await;
    other.run_workers().await;
    assert_eq!(statuses(&runs(&fixture.app, &job).await), ["success"]);
}
