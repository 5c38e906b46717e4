//! Activity heatmap, schedule suggestions and calendar.

use serde_json::{Value, json};

use super::{advance, create, every, id, trigger, with};
use crate::support::TestApp;
use crate::support::chat_fixture::{ChatFixture, create_agent};

const HOUR: u64 = 3_600;
const DAY: u64 = 24 * HOUR;

async fn get(app: &TestApp, path: &str) -> Value {
    app.get(&format!("/api/scheduler/{path}")).send().await.expect_status(200).json()
}

async fn app() -> TestApp {
    let app = TestApp::with_owner().await;
    create_agent(&app, "scout").await;
    app
}

/// Adds messages of the owner at the current time.
async fn write(app: &TestApp, conversation: &str, count: usize) {
    for _ in 0..count {
        let message = json!({"conversation_id": conversation, "role": "user", "content": "Here I am."});
        app.post("/api/chat/messages/inject").json(&message).send().await.expect_status(201);
    }
}

async fn conversation(app: &TestApp) -> String {
    let made = app.post("/api/chat/conversations").json(&json!({"agent_id": "scout"})).send().await;
    id(&made.expect_status(201).json())
}

#[tokio::test]
async fn heatmap_counts_owner_activity_in_the_profile_zone() {
    let app = app().await;
    let empty = get(&app, "smart/heatmap").await;
    assert_eq!(empty["total"], 0);
    let grid = empty["heatmap"].as_array().expect("rows");
    assert!(grid.len() == 24 && grid.iter().all(|hour| hour == &json!([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])), "{empty}");

    // Monday, 09:00 UTC: 14:30 in Kolkata.
    app.put("/api/settings/profile").json(&json!({"timezone": "Asia/Kolkata"})).send().await.expect_status(200);
    let fixture = conversation(&app).await;
    write(&app, &fixture, 4).await;
    advance(&app, DAY);
    write(&app, &fixture, 1).await;
    let job = create(&app, &every(10 * 86_400)).await;
    trigger(&app, &id(&job)).await;
    app.run_workers().await;
    // Messages of an agent do not count as activity.
    let injected = json!({"conversation_id": fixture, "role": "assistant", "content": "I see."});
    app.post("/api/chat/messages/inject").json(&injected).send().await.expect_status(201);
    let found = get(&app, "smart/heatmap").await;
    assert_eq!((&found["timezone"], &found["total"]), (&json!("Asia/Kolkata"), &json!(6)));
    assert_eq!((&found["counts"][14][0], &found["counts"][14][1]), (&json!(4), &json!(2)));
    assert_eq!((&found["heatmap"][14][0], &found["heatmap"][14][1]), (&json!(1.0), &json!(0.5)));
    // Activity is not counted after 91 days.
    advance(&app, 91 * DAY);
    assert_eq!(get(&app, "smart/heatmap").await["total"], 0);
}

#[tokio::test]
async fn habits_become_suggestions_usable_as_schedules() {
    let app = app().await;
    assert_eq!(get(&app, "smart/suggestions").await, json!({"suggestions": []}));
    let fixture = conversation(&app).await;
    // A message every weekday at nine for two weeks.
    for day in 0..12 {
        if day % 7 < 5 {
            write(&app, &fixture, 1).await;
        }
        advance(&app, DAY);
    }
    let found = get(&app, "smart/suggestions").await;
    let first = &found["suggestions"][0];
    assert_eq!(first["time"], "09:00", "{found}");
    assert_eq!(first["days"], json!(["monday", "tuesday", "wednesday", "thursday", "friday"]));
    assert_eq!(first["reason"], "You were active between 09:00 and 10:00 on 10 of the last 10 weekdays");
    let job = with(every(60), &json!({"schedule": first["schedule"]}));
    assert_eq!(create(&app, &job).await["schedule"]["expression"], "0 9 * * 1-5");
    // Suggestions use the time zone of the profile and the language of the interface.
    app.put("/api/settings/profile").json(&json!({"timezone": "America/New_York"})).send().await.expect_status(200);
    app.put("/api/settings/interface").json(&json!({"language": "de"})).send().await.expect_status(200);
    let found = get(&app, "smart/suggestions").await;
    assert_eq!(found["suggestions"][0]["time"], "04:00");
    assert!(
        found["suggestions"][0]["reason"].as_str().is_some_and(|text| text.contains("der letzten 10 Werktage aktiv")),
        "{found}"
    );
}

#[tokio::test]
async fn calendar_shows_past_and_upcoming_runs() {
    let fixture = ChatFixture::saying(&["Fine."]).await;
    let app = &fixture.app;
    let daily = json!({"name": "daily", "goal": "Say how things are.", "agent_id": "scout",
        "schedule": {"type": "cron", "expression": "0 12 * * *", "timezone": "UTC"}});
    let job = id(&create(app, &daily).await);
    let once =
        with(daily.clone(), &json!({"name": "once", "schedule": {"type": "at", "datetime": "2026-01-08T08:00:00Z"}}));
    create(app, &once).await;
    let paused = id(&create(app, &with(daily, &json!({"name": "paused"}))).await);
    app.post(&format!("/api/scheduler/jobs/{paused}/pause")).send().await.expect_status(200);
    advance(app, 3 * HOUR);
    app.run_workers().await;

    let found = get(app, "calendar-data?start=2026-01-05&end=2026-01-09").await;
    assert_eq!(
        (&found["start"], &found["end"]),
        (&json!("2026-01-05T00:00:00.000Z"), &json!("2026-01-09T00:00:00.000Z"))
    );
    let entries = found["entries"].as_array().expect("entries");
    let shown: Vec<(&str, &str, &str)> = entries
        .iter()
        .map(|entry| {
            let text = |field: &str| entry[field].as_str().expect("a text");
            (text("name"), text("at"), text("status"))
        })
        .collect();
    assert_eq!(
        shown,
        [
            ("daily", "2026-01-05T12:00:00.000Z", "success"),
            ("daily", "2026-01-06T12:00:00.000Z", "scheduled"),
            ("daily", "2026-01-07T12:00:00.000Z", "scheduled"),
            ("once", "2026-01-08T08:00:00.000Z", "scheduled"),
            ("daily", "2026-01-08T12:00:00.000Z", "scheduled"),
        ]
    );
    assert_eq!(entries[0]["job_id"], job.as_str());
    assert!(entries[0]["run_id"].as_str().is_some_and(|run| run.starts_with("run_")));
    assert_eq!((&entries[1]["run_id"], &found["truncated"]), (&Value::Null, &json!(false)));
    // The default range starts on the first of the month and has 31 days.
    let month = get(app, "calendar-data").await;
    assert_eq!(
        (&month["start"], &month["end"]),
        (&json!("2026-01-01T00:00:00.000Z"), &json!("2026-02-01T00:00:00.000Z"))
    );
    assert_eq!(month["entries"].as_array().map(Vec::len), Some(28));
    // Days start at midnight in the time zone of the profile.
    app.put("/api/settings/profile").json(&json!({"timezone": "Europe/Berlin"})).send().await.expect_status(200);
    let day = get(app, "calendar-data?start=2026-01-06&end=2026-01-07").await;
    assert_eq!((&day["start"], &day["timezone"]), (&json!("2026-01-05T23:00:00.000Z"), &json!("Europe/Berlin")));
}

#[tokio::test]
async fn calendar_entries_and_range_are_limited() {
    let app = app().await;
    create(&app, &every(60)).await;
    let found = get(&app, "calendar-data?start=2026-01-05&end=2026-01-09").await;
    assert_eq!((found["entries"].as_array().map(Vec::len), &found["truncated"]), (Some(200), &json!(true)));
    for (query, field) in [
        ("start=2026-01-05&end=2026-01-05", "end"),
        ("start=2026-01-05&end=2026-01-01", "end"),
        ("start=2026-01-05&end=2026-09-01", "end"),
        ("start=soon", "start"),
        ("start=2026-02-30", "start"),
        ("end=9999999999", "end"),
        ("start=9999-12-01", "end"),
    ] {
        let path = format!("/api/scheduler/calendar-data?{query}");
        let fields = app.get(&path).send().await.expect_error(400, "invalid_request").bad_fields();
        assert_eq!(fields, [field], "{query}");
    }
}
