//! Restart or kill of a daemon while an alert fires.

use agentd_base::{Clock, Secret};
use serde_json::json;

use super::{ALERTS, act, evaluate, firing, firings, received_notices, state};
use crate::hooks::receiver::Receiver;
use crate::support::{Eventually, TestApp, TestProcess};

#[tokio::test]
async fn restart_neither_loses_a_firing_nor_repeats_its_notice() {
    let (mut app, receiver) = (TestApp::with_owner().await, Receiver::start().await);
    let id = super::create(&app, &firing(&receiver)).await;
    // The alert fires before the restart.
    evaluate(&app).await;
    app.restart().await;
    evaluate(&app).await;
    assert_eq!((state(&app, &id).await.as_str(), received_notices(&receiver).len()), ("firing", 1));
    act(&app, &id, "acknowledge").await;
    app.restart().await;
    evaluate(&app).await;
    assert_eq!((state(&app, &id).await.as_str(), firings(&app, &id).await.len()), ("acknowledged", 1));
}

/// Runs the real workers in a separate process, which is killed after the notice was sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_neither_loses_a_firing_nor_repeats_its_notice() {
    let receiver = Receiver::start().await;
    let mut process = TestProcess::with_owner().await;
    let made = process.post(ALERTS).json(&firing(&receiver)).send().await.expect_status(201).json();
    let id = made["id"].as_str().unwrap().to_owned();
    receiver.wait_for(1).await;
    let mut eventually = Eventually::new();
    let history = format!("{ALERTS}/{id}/history");
    loop {
        let history = process.get(&history).send().await.expect_status(200).json();
        if history["firings"][0]["notices"][0]["status"] == "sent" {
            break;
        }
        eventually.retry_with(&history).await;
    }
    process.kill();
    let mut app = TestApp::start_with(|source| {
        source.data_dir = Some(process.data_dir());
        source.database_url = process.database_url().map(|url| Secret::new(url.to_owned()));
    })
    .await;
    app.key = Some(process.key.clone());
    app.clock.set(Clock::system().now() + std::time::Duration::from_secs(30));
    evaluate(&app).await;
    let firings = firings(&app, &id).await;
    assert_eq!((firings.len(), &firings[0]["ended_at"]), (1, &json!(null)), "{firings:?}");
    assert_eq!((state(&app, &id).await.as_str(), received_notices(&receiver).len()), ("firing", 1));
}
