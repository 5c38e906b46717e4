//! Several slots missed while the daemon was stopped: one run with the correct reasons.

use serde_json::json;

use super::{advance, create, every, id, runs, with};
use crate::support::chat_fixture::ChatFixture;

/// Returns the slots of the runs and the reasons of the skipped slots after a downtime.
async fn after(downtime_seconds: u64, interval: i64, fields: &serde_json::Value) -> (Vec<String>, Vec<String>) {
    let fixture = ChatFixture::saying(&["Fine."]).await;
    let app = &fixture.app;
    let job = id(&create(app, &with(every(interval), fields)).await);
    advance(app, downtime_seconds);
    app.run_workers().await;
    let mut list = runs(app, &job).await;
    list.sort_by_key(|run| run["scheduled_for"].to_string());
    let text = |value: &serde_json::Value| value.as_str().expect("a text").to_owned();
    let ran = list.iter().filter(|run| run["status"] == "success").map(|run| text(&run["scheduled_for"]));
    let skipped = list.iter().filter(|run| run["status"] == "skipped").map(|run| text(&run["error"]));
    assert_eq!(ran.clone().count() + skipped.clone().count(), list.len());
    (ran.collect(), skipped.collect())
}

#[tokio::test]
async fn missed_slots_cause_one_run_for_the_newest() {
    for overlap in ["skip", "buffer_one", "allow", "cancel_other"] {
        let (ran, skipped) = after(12, 1, &json!({"overlap": overlap})).await;
        assert_eq!(ran, ["2026-01-05T09:00:12.000Z"], "{overlap}");
        assert_eq!(skipped, ["the slot was missed; only the newest missed slot is run"; 10], "{overlap}");
    }
}

#[tokio::test]
async fn misfire_skip_runs_only_the_slot_on_time() {
    let (ran, skipped) = after(97, 5, &json!({"misfire": "skip"})).await;
    assert_eq!(ran, ["2026-01-05T09:01:35.000Z"]);
    assert!(skipped.len() == 10 && skipped.iter().all(|reason| reason.contains("misfire policy")), "{skipped:?}");
}

#[tokio::test]
async fn run_all_makes_up_for_the_newest_ten_slots() {
    for overlap in ["skip", "buffer_one", "allow", "cancel_other"] {
        let (ran, _) = after(97, 5, &json!({"misfire": "run_all", "overlap": overlap})).await;
        assert_eq!(ran.len(), 10, "{overlap}");
        assert_eq!((ran[0].as_str(), ran[9].as_str()), ("2026-01-05T09:00:50.000Z", "2026-01-05T09:01:35.000Z"));
    }
}
