//! Daily limits and quiet hours.

use serde_json::{Value, json};

use super::*;

#[tokio::test]
async fn proactive_turns_per_agent_and_day_are_limited() {
    let fixture = ChatFixture::with(script()).await;
    let app = &fixture.app;
    create_agent(app, "guide").await;
    // A day that ends at 05:00 UTC.
    app.put("/api/settings/profile").json(&json!({"timezone": "America/New_York"})).send().await.expect_status(200);
    enable(app, json!({"max_per_day": 2})).await;
    for name in ["a", "b", "c", "d", "e"] {
        scheduler::create(app, &once("2026-01-05T20:00:00Z", name)).await;
    }
    scheduler::create(app, &with(once("2026-01-05T20:00:00Z", "other"), &json!({"agent_id": "guide"}))).await;
    advance_to(app, "2026-01-05T20:00:00Z");
    let count_on = |turns: &[Value], day: &str| turns.iter().filter(|turn| turn["day"] == day).count();
    let turns = run_until_settled(app).await;
    assert_eq!((turns.len(), count_on(&turns, "2026-01-05")), (3, 3), "two turns of one agent, one of the other");
    advance_to(app, "2026-01-06T04:59:59Z");
    assert_eq!(run_until_settled(app).await.len(), 3);
    advance_to(app, "2026-01-06T05:00:00Z");
    let turns = run_until_settled(app).await;
    assert_eq!((turns.len(), count_on(&turns, "2026-01-06")), (5, 2), "days use the time zone of the profile");
    // A higher limit applies immediately, and earlier turns of the day count.
    enable(app, json!({"max_per_day": 3})).await;
    let turns = run_until_settled(app).await;
    assert_eq!((turns.len(), count_on(&turns, "2026-01-06")), (6, 3));
    assert_eq!(proactive_requests(&fixture).len(), 6);
}

#[tokio::test]
async fn quiet_hours_are_respected_across_daylight_saving_changes() {
    let fixture = ChatFixture::with(script()).await;
    let app = &fixture.app;
    let quiet = json!({"start": "22:00", "end": "08:00", "timezone": "Europe/Berlin"});
    enable(app, json!({"quiet_hours": quiet, "max_per_day": 50})).await;
    for (name, fails, still_quiet, over) in [
        ("winter", "2026-01-05T21:00:00Z", "2026-01-06T06:59:59Z", "2026-01-06T07:00:00Z"),
        // Daylight saving time begins in this night at 01:00 UTC.
        ("spring", "2026-03-28T21:00:00Z", "2026-03-29T05:59:59Z", "2026-03-29T06:00:00Z"),
        ("summer", "2026-07-05T20:00:00Z", "2026-07-06T05:59:59Z", "2026-07-06T06:00:00Z"),
        ("autumn", "2026-10-24T20:00:00Z", "2026-10-25T06:59:59Z", "2026-10-25T07:00:00Z"),
    ] {
        let job = scheduler::create(app, &once(fails, name)).await;
        let turn_count = async || {
            let turns = run_until_settled(app).await;
            turns.iter().filter(|turn| turn["job_id"] == job["id"]).count()
        };
        advance_to(app, fails);
        assert_eq!(turn_count().await, 0, "{name}: quiet hours begin");
        assert_eq!(statuses(&runs(app, &id(&job)).await), ["failed"]);
        advance_to(app, still_quiet);
        assert_eq!(turn_count().await, 0, "{name}: the last quiet second");
        advance_to(app, over);
        assert_eq!(turn_count().await, 1, "{name}: quiet hours are over");
    }
    // Quiet hours within one day.
    let quiet = json!({"start": "12:00", "end": "13:00", "timezone": "UTC"});
    enable(app, json!({"quiet_hours": quiet, "max_per_day": 50})).await;
    scheduler::create(app, &once("2026-10-26T12:30:00Z", "noon")).await;
    advance_to(app, "2026-10-26T12:30:00Z");
    let before = run_until_settled(app).await.len();
    advance_to(app, "2026-10-26T13:00:00Z");
    assert_eq!(run_until_settled(app).await.len(), before + 1);
}

#[tokio::test]
async fn replicas_begin_each_turn_once() {
    let fixture = ChatFixture::with(script()).await;
    let app = &fixture.app;
    let Some(other) = app.replica().await else { return };
    enable(app, json!({"max_per_day": 5, "delivery": "slack:#owner"})).await;
    other.get("/api/settings/proactive").send().await.expect_status(200);
    for number in 0..12 {
        scheduler::create(app, &once("2026-01-05T10:00:00Z", &format!("job {number}"))).await;
    }
    advance(app, HOUR);
    for _ in 0..4 {
        tokio::join!(app.run_workers(), other.run_workers());
    }
    assert_eq!(run_until_settled(app).await.len(), 5);
    assert_eq!(proactive_requests(&fixture).len(), 5);
    advance(app, 15 * HOUR);
    for _ in 0..4 {
        tokio::join!(app.run_workers(), other.run_workers());
    }
    assert_eq!(run_until_settled(&other).await.len(), 10, "the next day");
    assert_eq!(other.get("/api/notifications").send().await.expect_status(200).json()["total"], 10);
}
