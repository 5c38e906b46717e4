//! Going down: one limit for all of it.

use std::time::Duration;

use agentd_testing_llm::{Gate, Reply, Script};
use serde_json::json;

use crate::support::talk::{COUNTED, Talk, read_tokens};

/// A reply that goes on, a client that listens, and somebody who never gives a connection to the
/// database back: each had time of its own, and the last one for ever.
#[tokio::test]
async fn whatever_hangs_the_daemon_ends_within_its_limit() {
    let gate = Gate::new();
    let mut talk = Talk::with(Script::always(Reply::text(["a", "b"], COUNTED).gated(&gate))).await;
    let mut stream = talk.send(&json!({"content": "hello"})).stream().await;
    gate.release(1);
    read_tokens(&mut stream, 1).await;
    let held = talk.app.running().context().db.read().await.expect("a connection");
    let ended = tokio::time::timeout(Duration::from_secs(60), talk.app.stop_within(Duration::from_secs(2))).await;
    ended.expect("the daemon ends although its database is in use");
    drop(held);
}
