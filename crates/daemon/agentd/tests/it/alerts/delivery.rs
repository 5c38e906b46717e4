//! Delivery of notices, and the events that alerts publish.

use serde_json::json;

use super::{
    ALERTS, NEVER, act, alert, change, create, evaluate, firing, firings, path, received_notices, snooze, with,
};
use crate::hooks::receiver::{Answer, Receiver};
use crate::support::TestApp;

#[tokio::test]
async fn credentials_in_a_delivery_url_are_masked_and_retained() {
    let (app, receiver) = (TestApp::with_owner().await, Receiver::start().await);
    let url = format!("http://ada:love@{}/in?token=s3cret", receiver.address);
    let body = with(firing(&receiver), &json!({"delivery": {"type": "webhook", "url": url}}));
    let id = create(&app, &body).await;
    let masked = format!("http://***@{}/in?token=***", receiver.address);
    assert_eq!(alert(&app, &id).await["delivery"], json!({"type": "webhook", "url": masked}));
    // An update with the masked URL retains the credentials.
    change(&app, &id, json!({"name": "Fuller", "delivery": {"type": "webhook", "url": masked}})).await;
    evaluate(&app).await;
    let received = receiver.received();
    assert_eq!((received.len(), received[0].header("authorization")), (1, "Basic YWRhOmxvdmU="));
    let notice = &firings(&app, &id).await[0]["notices"][0];
    let shown = format!("webhook:http://{}", receiver.address);
    assert_eq!((&notice["to"], &notice["status"], &notice["error"]), (&json!(shown), &json!("sent"), &json!(null)));
    let elsewhere = json!({"delivery": {"type": "webhook", "url": "http://***@127.0.0.1:1/"}});
    app.put(&path(&id)).json(&elsewhere).send().await.expect_error(400, "invalid_request");
    let read = app.post("/api/auth/keys").json(&json!({"name": "r", "scope": "read"})).send().await.expect_status(200);
    let key = read.json()["key"].as_str().unwrap().to_owned();
    for path in [path(&id), ALERTS.to_owned()] {
        let shown =
            app.get(&path).header("authorization", &format!("Bearer {key}")).send().await.expect_status(200).text();
        assert!(shown.contains(&format!("\"http://{}\"", receiver.address)) && !shown.contains("/in"), "{shown}");
    }
}

#[tokio::test]
async fn failed_notice_is_recorded_with_its_error() {
    let (app, receiver) = (TestApp::with_owner().await, Receiver::start().await);
    receiver.always(Answer::Status(410));
    let id = create(&app, &firing(&receiver)).await;
    evaluate(&app).await;
    let notice = &firings(&app, &id).await[0]["notices"][0];
    assert_eq!(notice["status"], "dead_letter");
    assert!(notice["error"].as_str().is_some_and(|error| error.contains("410")), "{notice}");
    let undelivered = create(&app, &with(firing(&receiver), &json!({"delivery": null}))).await;
    evaluate(&app).await;
    let firings = firings(&app, &undelivered).await;
    assert_eq!((firings.len(), &firings[0]["notices"]), (1, &json!([])));
}

#[tokio::test]
async fn hooks_receive_the_events_of_an_alert() {
    let (app, receiver) = (TestApp::with_owner().await, Receiver::start().await);
    let hooked = Receiver::start().await;
    for event_type in ["alert.firing", "alert.acknowledged", "alert.snoozed", "alert.resolved"] {
        let hook = json!({
            "name": event_type, "event_type": event_type, "hook_type": "http",
            "config": {"url": hooked.url(), "queued": true},
        });
        app.post("/api/hooks").json(&hook).send().await.expect_status(201);
    }
    let id = create(&app, &firing(&receiver)).await;
    evaluate(&app).await;
    act(&app, &id, "acknowledge").await;
    snooze(&app, &id, 5).await;
    change(&app, &id, json!({"threshold": NEVER})).await;
    evaluate(&app).await;
    app.run_workers().await;
    let mut events: Vec<_> = hooked.wait_for(4).await.iter().map(|received| received.event()).collect();
    events.sort_by_key(|event| event["id"].as_str().unwrap().to_owned());
    let types: Vec<_> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["alert.firing", "alert.acknowledged", "alert.snoozed", "alert.resolved"]);
    for event in &events {
        assert_eq!((&event["data"]["alert_id"], &event["data"]["severity"]), (&json!(id), &json!("critical")));
        assert!(event["data"]["firing_since"].is_string(), "{event}");
    }
    assert_eq!(events[3]["data"]["resolved_by"], "condition");
    assert_eq!(received_notices(&receiver).len(), 1);
}

#[tokio::test]
async fn email_without_an_address_is_sent_to_the_owner() {
    use crate::notify::use_server;
    use crate::support::smtp::SmtpServer;
    let (app, server) = (TestApp::with_owner().await, SmtpServer::plain().await);
    use_server(&app, &server, json!({})).await;
    app.put("/api/settings/profile").json(&json!({"email": "owner@example.org"})).send().await.expect_status(200);
    let receiver = Receiver::start().await;
    create(&app, &with(firing(&receiver), &json!({"delivery": {"type": "email", "url": ""}}))).await;
    evaluate(&app).await;
    server.wait_for(1).await;
    let mails = server.received();
    assert!(mails[0].header("Subject").contains("[critical] Full fires"), "{}", mails[0].header("Subject"));
}
