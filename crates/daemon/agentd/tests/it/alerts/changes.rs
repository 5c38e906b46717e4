//! Alerts: create, get, update, and delete.

use serde_json::{Value, json};

use super::{
    ALERTS, BUNDLED_COUNT, NEVER, alert, change, create, evaluate, firing, firings, path, received_notices, state,
};
use crate::hooks::receiver::Receiver;
use crate::support::{START, TestApp};

async fn list(app: &TestApp) -> Vec<Value> {
    app.get(ALERTS).send().await.expect_status(200).json()["alerts"].as_array().unwrap().clone()
}

#[tokio::test]
async fn created_alert_is_returned_with_its_defaults() {
    let app = TestApp::with_owner().await;
    let body = json!({"name": " Costs ", "condition": "cost > 2.5"});
    let made = app.post(ALERTS).json(&body).send().await.expect_status(201).json();
    let expected = json!({
        "id": made["id"], "name": "Costs", "condition": "cost > 2.5", "threshold": 0.0, "period_minutes": 5,
        "for_minutes": 0, "notify_every_minutes": 60, "notify_resolved": false, "severity": "warning", "delivery": null,
        "enabled": true, "state": "ok", "value": null, "last_triggered": null, "firing_since": null,
        "snoozed_until": null, "acknowledged_at": null, "created_at": START, "updated_at": START,
    });
    assert_eq!(made, expected);
    let id = made["id"].as_str().unwrap();
    assert!(id.starts_with("alert_"));
    assert_eq!(alert(&app, id).await, expected);
    assert_eq!(list(&app).await.iter().filter(|alert| **alert == expected).count(), 1);
    let changed = change(&app, id, json!({"threshold": 3, "severity": "info", "period_minutes": 60})).await;
    assert_eq!(
        (&changed["threshold"], &changed["severity"], &changed["name"]),
        (&json!(3.0), &json!("info"), &json!("Costs"))
    );
    let deleted = app.delete(&path(id)).send().await.expect_status(200).json();
    assert_eq!(deleted, json!({"deleted": true}));
    app.get(&path(id)).send().await.expect_error(404, "alert_not_found");
}

#[tokio::test]
async fn bundled_alerts_are_disabled_and_stay_deleted() {
    let mut app = TestApp::with_owner().await;
    let bundled = list(&app).await;
    assert_eq!(bundled.len(), BUNDLED_COUNT);
    let one = bundled[0]["id"].as_str().unwrap().to_owned();
    for alert in &bundled {
        assert_eq!((&alert["enabled"], &alert["state"]), (&json!(false), &json!("ok")), "{alert}");
        let id = alert["id"].as_str().unwrap();
        // An update with the complete alert, enabled, is valid.
        let on =
            change(&app, id, json!({"enabled": true, "condition": alert["condition"], "delivery": alert["delivery"]}))
                .await;
        assert_eq!((&on["enabled"], &on["condition"]), (&json!(true), &alert["condition"]));
    }
    evaluate(&app).await;
    let firing: Vec<Value> = list(&app).await.into_iter().filter(|alert| alert["state"] != "ok").collect();
    assert_eq!(firing, Vec::<Value>::new(), "no bundled alert fires on a new daemon");
    app.delete(&path(&one)).send().await.expect_status(200);
    app.restart().await;
    let left = list(&app).await;
    assert!(left.len() == BUNDLED_COUNT - 1 && left.iter().all(|alert| alert["id"] != one.as_str()), "{left:?}");
}

#[tokio::test]
async fn disabling_or_deleting_an_alert_ends_its_firing() {
    let (app, receiver) = (TestApp::with_owner().await, Receiver::start().await);
    let (id, other) = (create(&app, &firing(&receiver)).await, create(&app, &firing(&receiver)).await);
    evaluate(&app).await;
    let off = change(&app, &id, json!({"enabled": false})).await;
    assert_eq!((&off["state"], &off["value"], &off["last_triggered"]), (&json!("ok"), &json!(null), &json!(START)));
    assert_eq!(firings(&app, &id).await[0]["ended_at"], START);
    app.delete(&path(&other)).send().await.expect_status(200);
    super::advance_minutes(&app, 120).await;
    assert_eq!((state(&app, &id).await.as_str(), received_notices(&receiver).len()), ("ok", 2));
    change(&app, &id, json!({"enabled": true, "threshold": NEVER})).await;
    evaluate(&app).await;
    assert_eq!(state(&app, &id).await, "ok");
}

#[tokio::test]
async fn metrics_count_firing_alerts() {
    let (app, receiver) = (TestApp::with_owner().await, Receiver::start().await);
    create(&app, &firing(&receiver)).await;
    evaluate(&app).await;
    let metrics = app.get("/api/metrics/prometheus").send().await.expect_status(200).text();
    assert!(
        metrics.contains("svc_alerts{state=\"firing\"} 1\n") && metrics.contains("svc_alerts{state=\"ok\"} 0\n"),
        "{metrics}"
    );
}
