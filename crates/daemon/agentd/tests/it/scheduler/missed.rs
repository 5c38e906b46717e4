//! Several slots that came while nobody was there: one run, not many, and true reasons.

use serde_json::json;

use super::{advance, create, every, id, runs, with};
use crate::support::talk::Talk;

/// The slots of the runs and of those left out, and why, after so many seconds away.
async fn after(seconds_away: u64, interval: i64, fields: &serde_json::Value) -> (Vec<String>, Vec<String>) {
    let talk = Talk::saying(&["Fine."]).await;
    let app = &talk.app;
    let job = id(&create(app, &with(every(interval), fields)).await);
    advance(app, seconds_away);
    app.run_workers().await;
    let mut list = runs(app, &job).await;
    list.sort_by_key(|run| run["scheduled_for"].to_string());
    let text = |value: &serde_json::Value| value.as_str().expect("a text").to_owned();
    let ran = list.iter().filter(|run| run["status"] == "success").map(|run| text(&run["scheduled_for"]));
    let left_out = list.iter().filter(|run| run["status"] == "skipped").map(|run| text(&run["error"]));
    assert_eq!(ran.clone().count() + left_out.clone().count(), list.len());
    (ran.collect(), left_out.collect())
}

#[tokio::test]
async fn short_slots_that_were_missed_have_one_run_the_newest() {
    for overlap in ["skip", "buffer_one", "allow", "cancel_other"] {
        let (ran, left_out) = after(12, 1, &json!({"overlap": overlap})).await;
        assert_eq!(ran, ["2026-01-05T09:00:12.000Z"], "{overlap}");
        assert_eq!(left_out, ["the slot was missed; of missed slots the newest alone counts"; 10], "{overlap}");
    }
}

#[tokio::test]
async fn left_out_means_all_but_the_one_that_is_on_time() {
    let (ran, left_out) = after(97, 5, &json!({"misfire": "skip"})).await;
    assert_eq!(ran, ["2026-01-05T09:01:35.000Z"]);
    assert!(left_out.len() == 10 && left_out.iter().all(|reason| reason.contains("misfire policy")), "{left_out:?}");
}

#[tokio::test]
async fn the_newest_ten_are_made_up_for_whatever_the_overlap_policy() {
    for overlap in ["skip", "buffer_one", "allow", "cancel_other"] {
        let (ran, _) = after(97, 5, &json!({"misfire": "run_all", "overlap": overlap})).await;
        assert_eq!(ran.len(), 10, "{overlap}");
        assert_eq!((ran[0].as_str(), ran[9].as_str()), ("2026-01-05T09:00:50.000Z", "2026-01-05T09:01:35.000Z"));
    }
}
