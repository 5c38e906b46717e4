//! Backups that the daemon makes by itself.

use std::time::Duration;

use serde_json::json;

use super::*;
use crate::support::TestApp;

const DAY: Duration = Duration::from_secs(86_400);

/// What the worker begins is brought to its end.
async fn pass(app: &TestApp) -> Vec<String> {
    app.run_workers().await;
    let work = ended(|| app.get(WORK)).await;
    assert_ne!(work["state"], "failed", "{work}");
    list(app).await.iter().map(|backup| text(backup, "name")).collect()
}

#[tokio::test]
async fn one_is_made_every_day_and_old_ones_go() {
    let app = TestApp::with_owner().await;
    assert_eq!(pass(&app).await, Vec::<String>::new(), "it is off");
    let by_hand = text(&make(&app, &json!({})).await, "name");
    let settings = json!({"schedule": "daily", "hour": 3, "keep": 2});
    app.put("/api/settings/backup").json(&settings).send().await.expect_status(200);
    let first = pass(&app).await;
    assert_eq!(first.len(), 2);
    assert!(first.iter().any(|name| name.starts_with("daily-2026-01-05T09-00-00-")), "{first:?}");
    assert_eq!(pass(&app).await, first, "the day has one");
    app.clock.advance(Duration::from_secs(17 * 3_600));
    assert_eq!(pass(&app).await, first, "it is two o'clock");
    app.clock.advance(Duration::from_secs(3_600));
    let second = pass(&app).await;
    assert_eq!(second.len(), 3);
    app.clock.advance(DAY);
    let third = pass(&app).await;
    let is_daily = |name: &&String| name.starts_with("daily-");
    assert_eq!(third.iter().filter(is_daily).count(), 2, "{third:?}");
    assert!(third.contains(&by_hand), "what was made by hand stays");
    assert!(!third.iter().any(|name| name.starts_with("daily-2026-01-05")), "the oldest is gone");
    for (change, field) in
        [(json!({"hour": 24}), "hour"), (json!({"keep": 0}), "keep"), (json!({"schedule": "x"}), "schedule")]
    {
        let refused = app.put("/api/settings/backup").json(&change).send().await.expect_status(400);
        assert_eq!(refused.bad_fields(), [field]);
    }
}

#[tokio::test]
async fn the_hour_is_that_of_the_owner() {
    let app = TestApp::with_owner().await;
    app.put("/api/settings/profile").json(&json!({"timezone": "Asia/Tokyo"})).send().await.expect_status(200);
    // It is 18:00 there.
    app.put("/api/settings/backup").json(&json!({"schedule": "daily", "hour": 19})).send().await.expect_status(200);
    let first = pass(&app).await;
    app.clock.advance(Duration::from_secs(3_599));
    assert_eq!(pass(&app).await, first);
    app.clock.advance(Duration::from_secs(1));
    assert_eq!(pass(&app).await.len(), first.len() + 1);
}

#[tokio::test]
async fn what_fails_is_told_and_tried_again_after_an_hour() {
    let app = TestApp::with_owner().await;
    write_noise(app.data_dir(), 11);
    let settings = json!({"schedule": "daily", "hour": 3, "limit_mb": 10});
    app.put("/api/settings/backup").json(&settings).send().await.expect_status(200);
    app.run_workers().await;
    let failed = ended(|| app.get(WORK)).await;
    assert_eq!((&failed["state"], &failed["failure"]["code"]), (&json!("failed"), &json!("backups_full")), "{failed}");
    app.put("/api/settings/backup").json(&json!({"limit_mb": 100})).send().await.expect_status(200);
    app.clock.advance(Duration::from_secs(1_800));
    app.run_workers().await;
    assert_eq!(app.get(WORK).send().await.json()["work"], failed, "not yet");
    app.clock.advance(Duration::from_secs(1_801));
    assert_eq!(pass(&app).await.len(), 1);
}

#[tokio::test]
async fn one_that_cannot_begin_is_told_as_well() {
    let app = TestApp::with_owner().await;
    write_noise(app.data_dir(), 11);
    make(&app, &json!({})).await;
    app.put("/api/settings/backup").json(&json!({"schedule": "daily", "limit_mb": 10})).send().await.expect_status(200);
    app.run_workers().await;
    let failed = ended(|| app.get(WORK)).await;
    assert!(text(&failed, "name").starts_with("daily-"), "{failed}");
    assert_eq!((&failed["state"], &failed["failure"]["code"]), (&json!("failed"), &json!("backups_full")), "{failed}");
    assert_eq!(list(&app).await.len(), 1);
}

#[tokio::test]
async fn a_clock_that_was_ahead_stops_no_backup() {
    let app = TestApp::with_owner().await;
    let right = app.clock.clock().now();
    let settings = json!({"schedule": "daily", "hour": 3, "keep": 1});
    app.put("/api/settings/backup").json(&settings).send().await.expect_status(200);
    app.clock.advance(365 * DAY);
    let ahead = pass(&app).await;
    assert!(ahead.len() == 1 && ahead[0].starts_with("daily-2027-"), "{ahead:?}");
    app.clock.set(right);
    let made = pass(&app).await;
    assert!(made.len() == 1 && made[0].starts_with("daily-2026-"), "what is left is not the one from 2027: {made:?}");
    assert_eq!(pass(&app).await, made);
}

#[tokio::test]
async fn of_several_daemons_one_makes_it() {
    let app = TestApp::with_owner().await;
    app.put("/api/settings/backup").json(&json!({"schedule": "daily"})).send().await.expect_status(200);
    let Some(replica) = app.replica_on_same_data_dir().await else { return };
    tokio::join!(app.run_workers(), replica.run_workers());
    ended(|| app.get(WORK)).await;
    tokio::join!(app.run_workers(), replica.run_workers());
    ended(|| replica.get(WORK)).await;
    assert_eq!(list(&app).await.len(), 1);
}
