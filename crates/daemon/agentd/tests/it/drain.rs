//! Shutdown: one time limit for all steps.

use std::time::Duration;

use agentd_testing_llm::{Gate, Reply, Script};
use serde_json::json;

use crate::support::chat_fixture::{ChatFixture, TEST_USAGE, read_tokens};

/// A running reply, a connected client, and a database connection in use share one shutdown limit.
#[tokio::test]
async fn shutdown_ends_within_its_limit_whatever_blocks_it() {
    let gate = Gate::new();
    let mut fixture = ChatFixture::with(Script::always(Reply::text(["a", "b"], TEST_USAGE).gated(&gate))).await;
    let mut stream = fixture.send(&json!({"content": "hello"})).stream().await;
    gate.release(1);
    read_tokens(&mut stream, 1).await;
    let connection = fixture.app.running().context().db.read().await.expect("a connection");
    let ended = tokio::time::timeout(Duration::from_secs(60), fixture.app.stop_within(Duration::from_secs(2))).await;
    ended.expect("the daemon stops although a database connection is in use");
    drop(connection);
}
