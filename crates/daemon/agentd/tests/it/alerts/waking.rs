//! Push notifications to devices when an alert fires.

use serde_json::{Value, json};

use super::{NEVER, change, create, evaluate, firing, firings, with};
use crate::hooks::receiver::Receiver;
use crate::support::TestApp;
use crate::support::push_service::PushService;

#[tokio::test]
async fn firing_alert_is_pushed_to_devices_in_addition_to_its_delivery() {
    let (app, receiver, service) = (TestApp::with_owner().await, Receiver::start().await, PushService::start().await);
    let device = service.subscribe(&app, "phone").await;
    let id = create(&app, &firing(&receiver)).await;
    evaluate(&app).await;
    evaluate(&app).await;
    let messages = service.messages(&app, &device).await;
    assert_eq!(messages.len(), 1, "{messages:?}");
    assert_eq!(messages[0].content["title"], "Full fires");
    assert!(messages[0].content["body"].as_str().unwrap().ends_with("threshold -1"), "{messages:?}");
    assert_eq!(messages[0].content["url"], "/monitoring/alerts");
    assert_eq!(messages[0].content["tag"], format!("alert:{id}"));
    assert_eq!(messages[0].urgency, "high", "the alert is critical");
    assert_eq!(receiver.received().len(), 1);
}

#[tokio::test]
async fn alert_can_be_sent_to_devices_only_or_to_no_device() {
    let (app, receiver, service) = (TestApp::with_owner().await, Receiver::start().await, PushService::start().await);
    let device = service.subscribe(&app, "phone").await;
    let delivery = json!({"delivery": {"type": "channel", "url": "push:"}, "severity": "info"});
    let id = create(&app, &with(firing(&receiver), &delivery)).await;
    evaluate(&app).await;
    let messages = service.messages(&app, &device).await;
    assert_eq!((messages.len(), messages[0].urgency.as_str()), (1, "normal"), "sent once");
    let notice = &firings(&app, &id).await[0]["notices"][0];
    assert_eq!((&notice["to"], &notice["status"]), (&json!("push:"), &json!("sent")));
    change(&app, &id, json!({"threshold": NEVER})).await;
    app.put("/api/settings/proactive").json(&json!({"push_alerts": false})).send().await.expect_status(200);
    create(&app, &firing(&receiver)).await;
    evaluate(&app).await;
    assert_eq!(service.count(), 1);
    assert_eq!(receiver.received().len(), 1);
    let own = json!({"delivery": {"type": "channel", "url": "push:"}, "name": "Own"});
    create(&app, &with(firing(&receiver), &own)).await;
    evaluate(&app).await;
    assert_eq!(service.count(), 2, "the delivery of an alert overrides the setting");
}

#[tokio::test]
async fn alert_is_silent_in_quiet_hours_unless_critical() {
    let (app, receiver, service) = (TestApp::with_owner().await, Receiver::start().await, PushService::start().await);
    let device = service.subscribe(&app, "phone").await;
    let quiet = json!({"quiet_hours": {"start": "00:00", "end": "23:59", "timezone": "UTC"}});
    app.put("/api/settings/proactive").json(&quiet).send().await.expect_status(200);
    for (name, severity) in [("Low", "warning"), ("High", "critical")] {
        create(&app, &with(firing(&receiver), &json!({"name": name, "severity": severity}))).await;
    }
    evaluate(&app).await;
    let mut messages = service.messages(&app, &device).await;
    messages.sort_by_key(|message| message.content["title"].to_string());
    let silent: Vec<_> =
        messages.iter().map(|message| (&message.content["title"], &message.content["silent"])).collect();
    assert_eq!(silent, [(&json!("High fires"), &Value::Null), (&json!("Low fires"), &json!(true))]);
}
