//! Analytics and metrics.

use std::time::Duration;

use serde_json::{Value, json};

use super::receiver::{Answer, Receiver};
use super::{HOOKS, create_hook, emit, queued, settle};
use crate::support::TestApp;

#[tokio::test]
async fn completed_deliveries_are_counted_by_hour_and_day() {
    let (app, receiver) = (TestApp::with_owner().await, Receiver::start().await);
    let mut hook = queued(&receiver);
    hook["max_retries"] = json!(1);
    let id = create_hook(&app, hook).await;
    let mut inline = queued(&receiver);
    inline["config"] = json!({"url": receiver.url()});
    inline["event_type"] = json!("project.created");
    inline["max_retries"] = json!(1);
    create_hook(&app, inline).await;
    receiver.then([Answer::Status(200), Answer::Status(500)]);
    emit(&app, "memory.stored", json!({})).await;
    settle(&app).await;
    emit(&app, "memory.stored", json!({})).await;
    settle(&app).await;
    app.clock.advance(Duration::from_secs(2 * 3600));
    emit(&app, "memory.stored", json!({})).await;
    emit(&app, "project.created", json!({})).await;
    settle(&app).await;

    let analytics = |query: &str| app.get(&format!("{HOOKS}/{id}/analytics{query}"));
    let hourly = analytics("").send().await.expect_status(200).json();
    assert_eq!((&hourly["hook_id"], &hourly["period"]), (&json!(id), &json!("hourly")));
    let totals = &hourly["totals"];
    assert_eq!((&totals["deliveries"], &totals["succeeded"], &totals["failed"]), (&json!(3), &json!(2), &json!(1)));
    let buckets = hourly["buckets"].as_array().unwrap();
    assert_eq!(buckets.len(), 25);
    let full: Vec<_> = buckets.iter().filter(|bucket| bucket["deliveries"] != 0).collect();
    assert_eq!(full.len(), 2);
    assert_eq!((&full[0]["start"], &full[0]["success_rate"]), (&json!("2026-01-05T09:00:00.000Z"), &json!(0.5)));
    assert_eq!((&full[1]["start"], &full[1]["deliveries"]), (&json!("2026-01-05T11:00:00.000Z"), &json!(1)));

    // In Auckland, midnight falls between the two hours.
    app.put("/api/settings/profile").json(&json!({"timezone": "Pacific/Auckland"})).send().await.expect_status(200);
    let daily = analytics("?period=daily").send().await.expect_status(200).json();
    let full: Vec<_> = daily["buckets"].as_array().unwrap().iter().filter(|bucket| bucket["deliveries"] != 0).collect();
    assert_eq!(full.len(), 2, "{daily}");
    assert_eq!(full[0]["start"], "2026-01-04T11:00:00.000Z");
    let part = analytics("?start=2026-01-05T08:00:00Z&end=2026-01-05T10:00:00Z").send().await.expect_status(200).json();
    assert_eq!((part["buckets"].as_array().unwrap().len(), &part["totals"]["deliveries"]), (2, &json!(2)));
    for bad in [
        "?period=weekly",
        "?start=x",
        "?start=2026-02-01T00:00:00Z&end=2026-01-01T00:00:00Z",
        "?start=2000-01-01T00:00:00Z",
    ] {
        analytics(bad).send().await.expect_status(400);
    }

    let global = app.get("/api/hooks/analytics/global").send().await.expect_status(200).json();
    assert_eq!((&global["total_deliveries"], &global["dead_letter_count"]), (&json!(4), &json!(1)));
    assert_eq!(global["success_rate"], 0.75);
    assert_eq!(global["by_event"]["project.created"], json!({"deliveries": 1, "success_rate": 1.0}));

    let metrics = app.get("/api/metrics/prometheus").send().await.text();
    for line in [
        "svc_hook_queue{status=\"dead_letter\"} 1",
        "svc_hook_queue{status=\"success\"} 2",
        "svc_hook_deliveries_total{status=\"success\"} 2",
        "svc_hook_deliveries_total{status=\"dead_letter\"} 1",
        "svc_hook_reader_lag_seconds 0",
        "svc_hook_reader_paused 0",
        "svc_hooks_behind 0",
        "svc_hook_open_circuits 0",
    ] {
        assert!(metrics.contains(line), "{line} is missing in {metrics}");
    }
    app.clock.advance(Duration::from_secs(40 * 24 * 3600));
    settle(&app).await;
    let global = app.get("/api/hooks/analytics/global").send().await.expect_status(200).json();
    assert_eq!((&global["total_deliveries"], &global["success_rate"]), (&json!(0), &json!(0.0)));
}

#[tokio::test]
async fn days_and_hours_use_the_timezone_of_the_profile() {
    let (app, receiver) = (TestApp::with_owner().await, Receiver::start().await);
    let id = create_hook(&app, queued(&receiver)).await;
    for (zone, period, start, end, count) in [
        ("Europe/Berlin", "daily", "2026-01-03T23:00:00.000Z", "2026-01-05T22:59:59.999Z", 2),
        ("Europe/Berlin", "hourly", "2026-01-03T23:00:00.000Z", "2026-01-05T22:59:59.999Z", 48),
        ("Asia/Kolkata", "daily", "2026-01-03T18:30:00.000Z", "2026-01-05T18:29:59.999Z", 2),
        ("Asia/Kolkata", "hourly", "2026-01-03T18:30:00.000Z", "2026-01-05T18:29:59.999Z", 48),
    ] {
        app.put("/api/settings/profile").json(&json!({"timezone": zone})).send().await.expect_status(200);
        let path = format!("{HOOKS}/{id}/analytics?period={period}&start=2026-01-04&end=2026-01-05");
        let found = app.get(&path).send().await.expect_status(200).json();
        assert_eq!((&found["start"], &found["end"]), (&json!(start), &json!(end)), "{zone} {period}");
        assert_eq!(found["buckets"].as_array().unwrap().len(), count, "{zone} {period}");
        assert_eq!(found["buckets"][0]["start"], start, "{zone} {period}");
    }
}

/// Returns the number of deliveries of a hook in a range, and the range that was counted.
async fn totals(app: &TestApp, hook: &str, query: &str) -> (Value, Value, Value) {
    let found = app.get(&format!("{HOOKS}/{hook}/analytics{query}")).send().await.expect_status(200).json();
    (found["totals"]["deliveries"].clone(), found["start"].clone(), found["end"].clone())
}

#[tokio::test]
async fn deliveries_outside_the_range_are_not_counted() {
    let (app, receiver) = (TestApp::with_owner().await, Receiver::start().await);
    let id = create_hook(&app, queued(&receiver)).await;
    app.clock.advance(Duration::from_secs(60));
    let complete = async |count: usize| {
        for number in 0..count {
            emit(&app, "memory.stored", json!({"n": number})).await;
        }
        settle(&app).await;
        app.clock.advance(Duration::from_secs(60));
    };
    complete(3).await;
    let between = app.clock.clock().now().to_string();
    complete(4).await;
    let (early, late) = ("2026-01-05T08:30:10.000Z", app.clock.clock().now().to_string());
    assert_eq!(
        totals(&app, &id, &format!("?start={early}&end={between}")).await,
        (json!(3), json!(early), json!(between))
    );
    assert_eq!(totals(&app, &id, &format!("?start={between}")).await.0, 4);
    assert_eq!(totals(&app, &id, &format!("?end={between}")).await.0, 3);
    assert_eq!(totals(&app, &id, &format!("?start={between}&end={late}")).await.0, 4);
    assert_eq!(totals(&app, &id, "").await.0, 7);
    // Purged deliveries are counted by the quarter of an hour, and the response shows the extended range.
    app.clock.advance(Duration::from_secs(8 * 24 * 3600));
    settle(&app).await;
    let (count, start, end) = totals(&app, &id, &format!("?start={between}&end=2026-01-05T10:00:00Z")).await;
    assert_eq!((count, start, end), (json!(7), json!("2026-01-05T09:00:00.000Z"), json!("2026-01-05T10:00:00.000Z")));
}

#[tokio::test]
async fn every_outcome_is_counted_once() {
    let (app, receiver) = (TestApp::with_owner().await, Receiver::start().await);
    let mut hook = queued(&receiver);
    hook["max_retries"] = json!(1);
    let id = create_hook(&app, hook).await;
    app.post(&format!("{HOOKS}/{id}/test-delivery")).send().await.expect_status(202);
    settle(&app).await;
    assert_eq!(totals(&app, &id, "").await.0, 1);
    receiver.always(Answer::Status(500));
    for number in 0..3 {
        emit(&app, "memory.stored", json!({"n": number})).await;
    }
    settle(&app).await;
    assert_eq!(totals(&app, &id, "").await.0, 4);
    receiver.always(Answer::Status(200));
    app.clock.advance(Duration::from_secs(1800));
    let dead = app.get(&format!("{HOOKS}/{id}/deliveries?status=dead_letter")).send().await.expect_status(200).json();
    let one = dead["deliveries"][0]["id"].as_str().unwrap();
    app.post(&format!("{HOOKS}/{id}/deliveries/{one}/retry")).send().await.expect_status(200);
    settle(&app).await;
    app.post("/api/hooks/deliveries/dead-letters/retry").send().await.expect_status(200);
    settle(&app).await;
    let found = app.get(&format!("{HOOKS}/{id}/analytics")).send().await.expect_status(200).json();
    assert_eq!((&found["totals"]["deliveries"], &found["totals"]["success_rate"]), (&json!(4), &json!(1.0)));
    // A delivery dead-lettered without an attempt when its hook is deleted.
    receiver.always(Answer::Status(500));
    app.patch(&format!("{HOOKS}/{id}/toggle")).send().await.expect_status(200);
    app.post(&format!("{HOOKS}/{id}/test-delivery")).send().await.expect_status(202);
    app.delete(&format!("{HOOKS}/{id}")).send().await.expect_status(200);
    let global = app.get("/api/hooks/analytics/global").send().await.expect_status(200).json();
    assert_eq!((&global["total_deliveries"], &global["dead_letter_count"]), (&json!(5), &json!(1)));
    assert_eq!(global["success_rate"], 0.8);
}
