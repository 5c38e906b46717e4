//! Several daemons over one database: one evaluates, and another one when that is gone.

use std::time::Duration;

use serde_json::json;

use super::{NEVER, change, create, firing, firings, state, told};
use crate::hooks::receiver::Receiver;
use crate::support::TestApp;

async fn run(apps: &[TestApp]) {
    for _ in 0..2 {
        futures_util::future::join_all(apps.iter().map(TestApp::run_workers)).await;
    }
}

#[tokio::test]
async fn of_three_daemons_one_tells_and_another_takes_over() {
    let (first, receiver) = (TestApp::with_owner().await, Receiver::start().await);
    let (Some(second), Some(third)) = (first.replica().await, first.replica().await) else { return };
    let mut apps = vec![first, second, third];
    let id = create(&apps[0], &firing(&receiver)).await;
    for _ in 0..5 {
        run(&apps).await;
        apps[0].clock.advance(Duration::from_secs(6));
    }
    assert_eq!((state(&apps[1], &id).await.as_str(), told(&receiver).len()), ("firing", 1));
    // Whoever evaluates is gone without a word: its lease ends, and the others go on.
    let mut read = apps[0].running().context().db.read().await.unwrap();
    let evaluator = read
        .fetch_one("SELECT owner FROM leases WHERE name = 'alerts.evaluation'", agentd_store::args![])
        .await
        .unwrap();
    let evaluator: String = evaluator.get("owner").unwrap();
    drop(read);
    let at =
        apps.iter().position(|app| *app.running().context().instance == *evaluator).expect("one of them evaluates");
    let clock = apps[0].clock.clone();
    let gone = apps.remove(at);
    change(&apps[0], &id, json!({"threshold": NEVER})).await;
    run(&apps).await;
    assert_eq!(state(&apps[0], &id).await, "firing", "nobody else evaluates yet");
    // What the notice says: within 20 seconds.
    clock.advance(Duration::from_secs(15));
    run(&apps).await;
    assert_eq!(state(&apps[0], &id).await, "ok");
    change(&apps[1], &id, json!({"threshold": super::ALWAYS})).await;
    clock.advance(Duration::from_secs(6));
    run(&apps).await;
    assert_eq!((state(&apps[0], &id).await.as_str(), told(&receiver).len()), ("firing", 2));
    assert_eq!(firings(&apps[1], &id).await.len(), 2);
    // It comes back, and finds that somebody else evaluates.
    run(std::slice::from_ref(&gone)).await;
    assert_eq!((state(&gone, &id).await.as_str(), told(&receiver).len()), ("firing", 2));
}
