//! Transitions between the states of an alert.

use serde_json::json;

use super::{
    ALWAYS, NEVER, act, advance_minutes, alert, change, create, evaluate, firing, firings, received_notices, snooze,
    state, with,
};
use crate::hooks::receiver::Receiver;
use crate::support::{START, TestApp};

#[tokio::test]
async fn alert_fires_repeats_its_notice_and_resolves() {
    let (app, receiver) = (TestApp::with_owner().await, Receiver::start().await);
    let id = create(&app, &firing(&receiver)).await;
    evaluate(&app).await;
    let shown = alert(&app, &id).await;
    assert_eq!(
        (&shown["state"], &shown["firing_since"], &shown["last_triggered"]),
        (&json!("firing"), &json!(START), &json!(START))
    );
    assert!(shown["value"].as_f64().is_some_and(|value| value > ALWAYS), "{shown}");
    let notices = received_notices(&receiver);
    assert_eq!(notices.len(), 1);
    assert_eq!(
        (&notices[0]["alert_id"], &notices[0]["name"], &notices[0]["severity"], &notices[0]["threshold"]),
        (&json!(id), &json!("Full"), &json!("critical"), &json!(ALWAYS))
    );
    // The disk usage may have grown since the notice.
    assert!(notices[0]["value"].as_f64().is_some_and(|value| value > ALWAYS), "{notices:?}");
    assert_eq!(notices[0]["firing_since"], json!(START));
    assert!(notices[0]["what_to_do"].as_str().is_some_and(|text| text.contains(&id)), "{notices:?}");
    advance_minutes(&app, 59).await;
    assert_eq!(received_notices(&receiver).len(), 1);
    advance_minutes(&app, 1).await;
    assert_eq!(received_notices(&receiver)[1]["reason"], "repeated");
    change(&app, &id, json!({"threshold": NEVER})).await;
    // The first evaluation resolves the alert; the second returns it to `ok`.
    evaluate(&app).await;
    let shown = alert(&app, &id).await;
    assert_eq!(
        (&shown["state"], &shown["firing_since"], &shown["last_triggered"]),
        (&json!("ok"), &json!(null), &json!(START))
    );
    let firings = firings(&app, &id).await;
    assert_eq!((firings.len(), &firings[0]["started_at"]), (1, &json!(START)));
    assert!(firings[0]["ended_at"].is_string() && firings[0]["peak_value"].is_number(), "{firings:?}");
    let notices = firings[0]["notices"].as_array().unwrap();
    let statuses: Vec<_> = notices.iter().map(|notice| &notice["status"]).collect();
    assert_eq!((statuses, &notices[0]["at"]), (vec![&json!("sent"), &json!("sent")], &json!(START)));
    assert_eq!(received_notices(&receiver).len(), 2, "no notice of the resolution was requested");
}

#[tokio::test]
async fn resolution_is_notified_if_requested() {
    let (app, receiver) = (TestApp::with_owner().await, Receiver::start().await);
    let id = create(&app, &with(firing(&receiver), &json!({"notify_resolved": true}))).await;
    evaluate(&app).await;
    change(&app, &id, json!({"threshold": NEVER})).await;
    evaluate(&app).await;
    let notices = received_notices(&receiver);
    assert_eq!(
        (notices.len(), &notices[1]["state"], &notices[1]["reason"]),
        (2, &json!("resolved"), &json!("resolved"))
    );
}

#[tokio::test]
async fn acknowledged_alert_sends_no_notice_until_it_fires_again() {
    let (app, receiver) = (TestApp::with_owner().await, Receiver::start().await);
    let id = create(&app, &with(firing(&receiver), &json!({"notify_every_minutes": 1}))).await;
    evaluate(&app).await;
    let acknowledged = act(&app, &id, "acknowledge").await;
    assert_eq!((&acknowledged["state"], &acknowledged["acknowledged_at"]), (&json!("acknowledged"), &json!(START)));
    advance_minutes(&app, 5).await;
    assert_eq!((state(&app, &id).await.as_str(), received_notices(&receiver).len()), ("acknowledged", 1));
    change(&app, &id, json!({"threshold": NEVER})).await;
    evaluate(&app).await;
    assert_eq!(state(&app, &id).await, "ok");
    change(&app, &id, json!({"threshold": ALWAYS})).await;
    evaluate(&app).await;
    assert_eq!((state(&app, &id).await.as_str(), received_notices(&receiver).len()), ("firing", 2));
    let firings = firings(&app, &id).await;
    assert_eq!((&firings[0]["acknowledged_at"], &firings[1]["acknowledged_at"]), (&json!(null), &json!(START)));
}

#[tokio::test]
async fn expired_snooze_sends_a_notice_if_the_alert_still_fires() {
    let (app, receiver) = (TestApp::with_owner().await, Receiver::start().await);
    let id = create(&app, &with(firing(&receiver), &json!({"notify_every_minutes": 1}))).await;
    evaluate(&app).await;
    let snoozed = snooze(&app, &id, 30).await;
    assert_eq!((&snoozed["state"], &snoozed["snoozed_until"]), (&json!("snoozed"), &json!("2026-01-05T09:30:00.000Z")));
    advance_minutes(&app, 29).await;
    assert_eq!((state(&app, &id).await.as_str(), received_notices(&receiver).len()), ("snoozed", 1));
    advance_minutes(&app, 1).await;
    assert_eq!((state(&app, &id).await.as_str(), received_notices(&receiver).len()), ("firing", 2));
    assert_eq!(received_notices(&receiver)[1]["reason"], "snooze_over");
    snooze(&app, &id, 10_080).await;
    change(&app, &id, json!({"threshold": NEVER})).await;
    advance_minutes(&app, 2).await;
    assert_eq!((state(&app, &id).await.as_str(), received_notices(&receiver).len()), ("ok", 2));
}

#[tokio::test]
async fn manually_resolved_alert_fires_again_after_an_hour() {
    let (app, receiver) = (TestApp::with_owner().await, Receiver::start().await);
    let id = create(&app, &firing(&receiver)).await;
    evaluate(&app).await;
    assert_eq!(act(&app, &id, "resolve").await["state"], "resolved");
    assert_eq!(firings(&app, &id).await[0]["ended_at"], START);
    advance_minutes(&app, 59).await;
    assert_eq!((state(&app, &id).await.as_str(), received_notices(&receiver).len()), ("resolved", 1));
    advance_minutes(&app, 1).await;
    assert_eq!((state(&app, &id).await.as_str(), received_notices(&receiver).len()), ("firing", 2));
}

#[tokio::test]
async fn condition_must_hold_for_the_configured_minutes() {
    let (app, receiver) = (TestApp::with_owner().await, Receiver::start().await);
    let id = create(&app, &with(firing(&receiver), &json!({"for_minutes": 5}))).await;
    evaluate(&app).await;
    advance_minutes(&app, 4).await;
    assert_eq!((state(&app, &id).await.as_str(), received_notices(&receiver).len()), ("ok", 0));
    advance_minutes(&app, 1).await;
    assert_eq!((state(&app, &id).await.as_str(), received_notices(&receiver).len()), ("firing", 1));
    let jumped = create(&app, &with(firing(&receiver), &json!({"for_minutes": 5}))).await;
    evaluate(&app).await;
    app.clock.advance(std::time::Duration::from_secs(3_600));
    evaluate(&app).await;
    assert_eq!(state(&app, &jumped).await, "ok", "no evaluation for an hour");
}

#[tokio::test]
async fn missing_variable_neither_fires_nor_resolves_an_alert() {
    let (app, receiver) = (TestApp::with_owner().await, Receiver::start().await);
    let body = json!({"condition": "budget_percent >= threshold", "threshold": 0.0});
    let id = create(&app, &with(firing(&receiver), &body)).await;
    evaluate(&app).await;
    let shown = alert(&app, &id).await;
    assert_eq!((&shown["state"], &shown["value"]), (&json!("ok"), &json!(null)));
    app.put("/api/settings/agent").json(&json!({"daily_token_limit": 10})).send().await.expect_status(200);
    advance_minutes(&app, 1).await;
    let shown = alert(&app, &id).await;
    assert_eq!((&shown["state"], &shown["value"]), (&json!("firing"), &json!(0.0)));
    app.put("/api/settings/agent").json(&json!({"daily_token_limit": null})).send().await.expect_status(200);
    advance_minutes(&app, 120).await;
    let shown = alert(&app, &id).await;
    assert_eq!(
        (&shown["state"], &shown["value"], received_notices(&receiver).len()),
        (&json!("firing"), &json!(null), 1)
    );
}

#[tokio::test]
async fn clock_jumps_do_not_break_a_snooze() {
    let (app, receiver) = (TestApp::with_owner().await, Receiver::start().await);
    let id = create(&app, &firing(&receiver)).await;
    evaluate(&app).await;
    snooze(&app, &id, 30).await;
    let now = app.running().context().clock.now();
    let day = std::time::Duration::from_secs(24 * 3_600);
    app.clock.set(now - day);
    evaluate(&app).await;
    assert_eq!(alert(&app, &id).await["snoozed_until"], "2026-01-04T09:30:00.000Z");
    advance_minutes(&app, 30).await;
    assert_eq!((state(&app, &id).await.as_str(), received_notices(&receiver).len()), ("firing", 2));
    app.clock.set(now + day * 365);
    evaluate(&app).await;
    assert_eq!((state(&app, &id).await.as_str(), received_notices(&receiver).len()), ("firing", 3));
}
