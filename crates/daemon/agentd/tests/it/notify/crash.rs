//! Messages in progress when the daemon is killed or stopped.

use std::time::Duration;

use agentd_base::{Clock, Secret};
use serde_json::{Value, json};

use super::{enqueue, events, get_notification, mail, use_server};
use crate::support::smtp::{Behaviour, SmtpServer};
use crate::support::{Eventually, TestApp, TestProcess};

/// Starts an in-process daemon on the data of a process.
async fn start_on_data_of(process: &TestProcess) -> TestApp {
    TestApp::start_with(|source| {
        source.data_dir = Some(process.data_dir());
        source.database_url = process.database_url().map(|url| Secret::new(url.to_owned()));
    })
    .await
}

/// The daemon is killed while one mail is sent, one is handed over, and one is started. No mail is lost, and only
/// the
/// unconfirmed one is sent twice with the same message id.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_loses_no_mail_and_repeats_only_unconfirmed_mail() {
    let server = SmtpServer::plain().await;
    let mut process = TestProcess::stopped().await;
    let mut before = start_on_data_of(&process).await;
    before.create_owner().await;
    use_server(&before, &server, json!({})).await;
    let mut ids = Vec::new();
    for number in 0..3 {
        ids.push(enqueue(&before, mail(&format!("m{number}"))).await);
    }
    process.key = before.key.clone().expect("a key");
    before.stop().await;

    server.then([Behaviour::Well, Behaviour::HangAfterData, Behaviour::Hang]);
    process.spawn().await;
    server.wait_for_sessions(3).await;
    server.wait_for(2).await;
    let mut eventually = Eventually::new();
    let sent = loop {
        let sent = process.get("/api/notifications?status=sent").send().await.expect_status(200).json();
        if sent["total"] == 1 {
            break sent["notifications"][0]["id"].clone();
        }
        eventually.retry().await;
    };
    process.kill();
    let unconfirmed: Vec<String> = server.received().iter().map(|mail| mail.header("Message-ID").to_owned()).collect();

    let mut after = start_on_data_of(&process).await;
    after.key = Some(process.key.clone());
    // After the leases of the killed daemon have expired.
    after.clock.set(Clock::system().now() + Duration::from_secs(3600));
    after.run_workers().await;
    for id in &ids {
        assert_eq!(get_notification(&after, id).await["status"], "sent");
    }
    let received: Vec<String> = server.received().iter().map(|mail| mail.header("Message-ID").to_owned()).collect();
    for id in &ids {
        let copies = received.iter().filter(|found| found.contains(id.as_str())).count();
        let is_unconfirmed = unconfirmed.iter().any(|found| found.contains(id.as_str())) && sent != json!(id);
        assert_eq!(copies, if is_unconfirmed { 2 } else { 1 }, "{id} in {received:?}");
    }
    assert_eq!(received.len(), 4);
    assert_eq!(events(&after, "channel.message.sent").await.len(), 3);
    after.stop().await;
}

#[tokio::test]
async fn graceful_shutdown_waits_for_mail_in_progress() {
    let server = SmtpServer::plain().await;
    let mut app = TestApp::with_owner().await;
    use_server(&app, &server, json!({})).await;
    let id = enqueue(&app, mail("last")).await;
    let workers = app.running().daemon.workers.clone();
    let working = tokio::spawn(async move { workers.run_until_idle().await.map_err(|error| error.to_string()) });
    server.wait_for_sessions(1).await;
    // Same as the worker loop when the daemon drains.
    working.abort();
    app.restart().await;
    assert_eq!(get_notification(&app, &id).await["status"], "sent");
    assert_eq!(server.received().len(), 1);
}

/// The daemon is killed during the last attempt, so its result is never recorded.
#[tokio::test]
async fn abandoned_last_attempt_is_dead_lettered() {
    let server = SmtpServer::plain().await;
    let app = TestApp::with_owner().await;
    use_server(&app, &server, json!({})).await;
    let id = enqueue(&app, mail("lost").max_attempts(1)).await;
    let db = &app.running().context().db;
    let held = db.claim("notify", "a daemon that is gone", 1, Duration::from_secs(30)).await.unwrap();
    assert_eq!(held.len(), 1);
    app.run_workers().await;
    assert_eq!(get_notification(&app, &id).await["status"], "pending");
    app.clock.advance(Duration::from_secs(600));
    app.run_workers().await;
    app.run_workers().await;
    let dead = get_notification(&app, &id).await;
    assert_eq!(dead["status"], "dead_letter");
    assert!(dead["error"].as_str().unwrap().contains("may or may not have arrived"), "{dead}");
    assert_eq!(events(&app, "channel.message.failed").await.len(), 1);
    assert_eq!(server.received(), []);
    app.post(&format!("/api/notifications/{id}/retry")).send().await.expect_status(200);
    app.run_workers().await;
    let sent: Value = get_notification(&app, &id).await;
    assert_eq!(sent["status"], "sent");
}
