//! Several daemons over one database: one evaluates, and another takes over if it is lost.

use std::time::Duration;

use serde_json::json;

use super::{NEVER, change, create, firing, firings, received_notices, state};
use crate::hooks::receiver::Receiver;
use crate::support::TestApp;

async fn run_all_workers(apps: &[TestApp]) {
    for _ in 0..2 {
        futures_util::future::join_all(apps.iter().map(TestApp::run_workers)).await;
    }
}

#[tokio::test]
async fn alert_is_evaluated_by_one_of_three_daemons_and_taken_over() {
    let (first, receiver) = (TestApp::with_owner().await, Receiver::start().await);
    let (Some(second), Some(third)) = (first.replica().await, first.replica().await) else { return };
    let mut apps = vec![first, second, third];
    let id = create(&apps[0], &firing(&receiver)).await;
    for _ in 0..5 {
        run_all_workers(&apps).await;
        apps[0].clock.advance(Duration::from_secs(6));
    }
    assert_eq!((state(&apps[1], &id).await.as_str(), received_notices(&receiver).len()), ("firing", 1));
    // The evaluating daemon stops without releasing its lease; the lease expires and another daemon takes over.
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
    run_all_workers(&apps).await;
    assert_eq!(state(&apps[0], &id).await, "firing", "the lease has not expired");
    // The lease expires within 20 seconds.
    clock.advance(Duration::from_secs(15));
    run_all_workers(&apps).await;
    assert_eq!(state(&apps[0], &id).await, "ok");
    change(&apps[1], &id, json!({"threshold": super::ALWAYS})).await;
    clock.advance(Duration::from_secs(6));
    run_all_workers(&apps).await;
    assert_eq!((state(&apps[0], &id).await.as_str(), received_notices(&receiver).len()), ("firing", 2));
    assert_eq!(firings(&apps[1], &id).await.len(), 2);
    // The first daemon returns and does not evaluate: another one holds the lease.
    run_all_workers(std::slice::from_ref(&gone)).await;
    assert_eq!((state(&gone, &id).await.as_str(), received_notices(&receiver).len()), ("firing", 2));
}
