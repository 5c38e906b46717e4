//! Scheduled daily backups.

use std::time::Duration;

use serde_json::json;

use super::*;
use crate::support::TestApp;

const DAY: Duration = Duration::from_secs(86_400);

/// Runs the worker, waits for the backup, and returns the names of all backups.
async fn run_schedule(app: &TestApp) -> Vec<String> {
    app.run_workers().await;
    let work = wait_until_ended(|| app.get(WORK)).await;
    assert_ne!(work["state"], "failed", "{work}");
    list(app).await.iter().map(|backup| text(backup, "name")).collect()
}

#[tokio::test]
async fn daily_backup_is_created_once_a_day_and_old_ones_are_deleted() {
    let app = TestApp::with_owner().await;
    assert_eq!(run_schedule(&app).await, Vec::<String>::new(), "the schedule is disabled");
    let by_hand = text(&create(&app, &json!({})).await, "name");
    let settings = json!({"schedule": "daily", "hour": 3, "keep": 2});
    app.put("/api/settings/backup").json(&settings).send().await.expect_status(200);
    let first = run_schedule(&app).await;
    assert_eq!(first.len(), 2);
    assert!(first.iter().any(|name| name.starts_with("daily-2026-01-05T09-00-00-")), "{first:?}");
    assert_eq!(run_schedule(&app).await, first, "one backup a day");
    app.clock.advance(Duration::from_secs(17 * 3_600));
    assert_eq!(run_schedule(&app).await, first, "the hour has not come");
    app.clock.advance(Duration::from_secs(3_600));
    let second = run_schedule(&app).await;
    assert_eq!(second.len(), 3);
    app.clock.advance(DAY);
    let third = run_schedule(&app).await;
    let is_daily = |name: &&String| name.starts_with("daily-");
    assert_eq!(third.iter().filter(is_daily).count(), 2, "{third:?}");
    assert!(third.contains(&by_hand), "manual backups are retained");
    assert!(!third.iter().any(|name| name.starts_with("daily-2026-01-05")), "the oldest daily backup is deleted");
    for (change, field) in
        [(json!({"hour": 24}), "hour"), (json!({"keep": 0}), "keep"), (json!({"schedule": "x"}), "schedule")]
    {
        let refused = app.put("/api/settings/backup").json(&change).send().await.expect_status(400);
        assert_eq!(refused.bad_fields(), [field]);
    }
}

#[tokio::test]
async fn backup_hour_uses_the_timezone_of_the_owner() {
    let app = TestApp::with_owner().await;
    app.put("/api/settings/profile").json(&json!({"timezone": "Asia/Tokyo"})).send().await.expect_status(200);
    // 18:00 in Tokyo.
    app.put("/api/settings/backup").json(&json!({"schedule": "daily", "hour": 19})).send().await.expect_status(200);
    let first = run_schedule(&app).await;
    app.clock.advance(Duration::from_secs(3_599));
    assert_eq!(run_schedule(&app).await, first);
    app.clock.advance(Duration::from_secs(1));
    assert_eq!(run_schedule(&app).await.len(), first.len() + 1);
}

#[tokio::test]
async fn failed_backup_is_reported_and_retried_after_an_hour() {
    let app = TestApp::with_owner().await;
    write_noise(app.data_dir(), 11);
    let settings = json!({"schedule": "daily", "hour": 3, "limit_mb": 10});
    app.put("/api/settings/backup").json(&settings).send().await.expect_status(200);
    app.run_workers().await;
    let failed = wait_until_ended(|| app.get(WORK)).await;
    assert_eq!((&failed["state"], &failed["failure"]["code"]), (&json!("failed"), &json!("backups_full")), "{failed}");
    app.put("/api/settings/backup").json(&json!({"limit_mb": 100})).send().await.expect_status(200);
    app.clock.advance(Duration::from_secs(1_800));
    app.run_workers().await;
    assert_eq!(app.get(WORK).send().await.json()["work"], failed, "not yet");
    app.clock.advance(Duration::from_secs(1_801));
    assert_eq!(run_schedule(&app).await.len(), 1);
}

#[tokio::test]
async fn backup_that_cannot_start_is_reported() {
    let app = TestApp::with_owner().await;
    write_noise(app.data_dir(), 11);
    create(&app, &json!({})).await;
    app.put("/api/settings/backup").json(&json!({"schedule": "daily", "limit_mb": 10})).send().await.expect_status(200);
    app.run_workers().await;
    let failed = wait_until_ended(|| app.get(WORK)).await;
    assert!(text(&failed, "name").starts_with("daily-"), "{failed}");
    assert_eq!((&failed["state"], &failed["failure"]["code"]), (&json!("failed"), &json!("backups_full")), "{failed}");
    assert_eq!(list(&app).await.len(), 1);
}

#[tokio::test]
async fn clock_that_was_ahead_does_not_prevent_backups() {
    let app = TestApp::with_owner().await;
    let right = app.clock.clock().now();
    let settings = json!({"schedule": "daily", "hour": 3, "keep": 1});
    app.put("/api/settings/backup").json(&settings).send().await.expect_status(200);
    app.clock.advance(365 * DAY);
    let ahead = run_schedule(&app).await;
    assert!(ahead.len() == 1 && ahead[0].starts_with("daily-2027-"), "{ahead:?}");
    app.clock.set(right);
    let made = run_schedule(&app).await;
    assert!(made.len() == 1 && made[0].starts_with("daily-2026-"), "the backup from 2027 is replaced: {made:?}");
    assert_eq!(run_schedule(&app).await, made);
}

#[tokio::test]
async fn one_of_several_daemons_creates_the_daily_backup() {
    let app = TestApp::with_owner().await;
    app.put("/api/settings/backup").json(&json!({"schedule": "daily"})).send().await.expect_status(200);
    let Some(replica) = app.replica_on_same_data_dir().await else { return };
    tokio::join!(app.run_workers(), replica.run_workers());
    wait_until_ended(|| app.get(WORK)).await;
    tokio::join!(app.run_workers(), replica.run_workers());
    wait_until_ended(|| replica.get(WORK)).await;
    assert_eq!(list(&app).await.len(), 1);
}
