//! Invalid alerts and actions are rejected and change nothing.

use serde_json::{Value, json};

use super::{ALERTS, BUNDLED_COUNT, act, alert, create, evaluate, firing, path, with};
use crate::hooks::receiver::Receiver;
use crate::support::TestApp;

fn fields(refused: &Value) -> Vec<&str> {
    let mut fields: Vec<&str> =
        refused["fields"].as_array().unwrap().iter().map(|field| field["field"].as_str().unwrap()).collect();
    fields.sort_unstable();
    fields
}

#[tokio::test]
async fn every_invalid_field_is_reported_and_nothing_is_stored() {
    let app = TestApp::with_owner().await;
    let bad = json!({
        "name": "", "condition": "cpu > threshold", "period_minutes": 1_441, "for_minutes": -1,
        "notify_every_minutes": 10_081, "severity": "awful", "delivery": {"type": "webhook", "url": "nowhere"},
    });
    let refused = app.post(ALERTS).json(&bad).send().await.expect_error(400, "invalid_request").json();
    let expected =
        ["condition", "delivery.url", "for_minutes", "name", "notify_every_minutes", "period_minutes", "severity"];
    assert_eq!(fields(&refused), expected, "{refused}");
    let good = json!({"name": "x", "condition": "cost > 1"});
    let huge = format!("cost > {}1", "1 + ".repeat(300));
    let nested = format!("{}cost > 1{}", "(".repeat(200), ")".repeat(200));
    let loops = "[1,2,3].map(a, [1,2,3].map(b, [1,2,3].map(c, a + b + c))).size() > 1 && \
                 [1,2,3,4,5,6,7,8,9].all(a, [1,2,3,4,5,6,7,8,9].all(b, [1,2,3,4,5,6,7,8,9].map(c, [c, c, c, c, c]).size() > 0))";
    let long = "x".repeat(1_001);
    for condition in ["", " ", "cost >", "cost", "'a'", "nonsense > 1", "cost > 'a'", "f(cost)", &huge, &nested, &long]
    {
        let body = with(good.clone(), &json!({"condition": condition}));
        let refused = app.post(ALERTS).json(&body).send().await.expect_error(400, "invalid_request").json();
        assert_eq!(fields(&refused), ["condition"], "{condition}: {refused}");
        app.post(&format!("{ALERTS}/preview")).json(&body).send().await.expect_error(400, "invalid_request");
    }
    // The evaluation is bounded: accepted or rejected, it terminates.
    let answer =
        app.post(&format!("{ALERTS}/preview")).json(&with(good.clone(), &json!({"condition": loops}))).send().await;
    assert!([200, 400].contains(&answer.status.as_u16()), "{}", answer.text());
    for (change, field) in [
        (json!({"condition": "cost > threshold"}), "threshold"),
        (json!({"threshold": "many"}), "threshold"),
        (json!({"delivery": {"type": "channel", "url": "slack:#alerts"}}), "delivery.url"),
        (json!({"delivery": {"type": "channel", "url": "pigeon:7"}}), "delivery.url"),
        (json!({"delivery": {"type": "email", "url": "nobody"}}), "delivery.url"),
        (json!({"delivery": {"type": "webhook", "url": "http://169.254.169.254/latest"}}), "delivery.url"),
        (json!({"delivery": {"type": "webhook", "url": "https://***@x.example/"}}), "delivery.url"),
        (json!({"delivery": {"type": "pigeon", "url": "https://x.example/"}}), "delivery.type"),
        (json!({"period_minutes": 0}), "period_minutes"),
    ] {
        let refused = app.post(ALERTS).json(&with(good.clone(), &change)).send().await;
        assert_eq!(fields(&refused.expect_error(400, "invalid_request").json()), [field], "{change}");
    }
    let alerts = app.get(ALERTS).send().await.expect_status(200).json();
    assert_eq!(alerts["alerts"].as_array().unwrap().len(), BUNDLED_COUNT);
}

#[tokio::test]
async fn invalid_update_changes_nothing() {
    let app = TestApp::with_owner().await;
    let id = create(&app, &json!({"name": "x", "condition": "cost > 1"})).await;
    let before = alert(&app, &id).await;
    for bad in
        [json!({"name": "y", "condition": "cost >"}), json!({"name": "y", "period_minutes": 0}), json!({"name": null})]
    {
        app.put(&path(&id)).json(&bad).send().await.expect_error(400, "invalid_request");
        assert_eq!(alert(&app, &id).await, before);
    }
    app.put(&path("alert_gone")).json(&json!({"name": "y"})).send().await.expect_error(404, "alert_not_found");
    app.get(&path("alert_gone")).send().await.expect_error(404, "alert_not_found");
    app.get(&format!("{}/history", path("alert_gone"))).send().await.expect_error(404, "alert_not_found");
    app.delete(&path("alert_gone")).send().await.expect_error(404, "alert_not_found");
}

#[tokio::test]
async fn action_that_the_state_does_not_allow_is_a_conflict() {
    let (app, receiver) = (TestApp::with_owner().await, Receiver::start().await);
    let id = create(&app, &firing(&receiver)).await;
    let snooze = |minutes: Value| app.post(&format!("{}/snooze", path(&id))).json(&json!({"minutes": minutes}));
    let expect_conflict = async |action: &str| {
        app.post(&format!("{}/{action}", path(&id))).send().await.expect_error(409, "wrong_state");
    };
    for action in ["acknowledge", "resolve"] {
        expect_conflict(action).await;
    }
    snooze(json!(5)).send().await.expect_error(409, "wrong_state");
    evaluate(&app).await;
    // Zero, a century, and values that are not whole numbers.
    for minutes in [json!(0), json!(52_560_000), json!(-5), json!("5"), json!(null), json!(1.5)] {
        snooze(minutes).send().await.expect_error(400, "invalid_request");
    }
    app.post(&format!("{}/snooze", path(&id))).json(&json!({})).send().await.expect_error(400, "invalid_request");
    assert_eq!(alert(&app, &id).await["state"], "firing");
    act(&app, &id, "acknowledge").await;
    expect_conflict("acknowledge").await;
    snooze(json!(1)).send().await.expect_status(200);
    act(&app, &id, "resolve").await;
    for action in ["acknowledge", "resolve"] {
        expect_conflict(action).await;
    }
    snooze(json!(5)).send().await.expect_error(409, "wrong_state");
    app.post(&format!("{}/acknowledge", path("alert_gone"))).send().await.expect_error(404, "alert_not_found");
}
