//! Prompt of a run and delivery of its output.

use agentd_testing_llm::{Reply, Script};
use serde_json::{Value, json};

use super::{advance, create, every, id, run, runs, trigger, with};
use crate::support::TestApp;
use crate::support::chat_fixture::{ChatFixture, TEST_USAGE, enable_platform};

async fn notification_body(app: &TestApp) -> String {
    let list = app.get("/api/notifications").send().await.expect_status(200).json();
    let path = format!("/api/notifications/{}", id(&list["notifications"][0]));
    let message = app.get(&path).send().await.expect_status(200).json();
    message["body"].as_str().expect("a body").to_owned()
}

#[tokio::test]
async fn markdown_output_is_converted_to_the_delivery_format() {
    let markdown = "done: **ok**\n\n- <b>one</b>\n- [two](https://example.org)";
    for (format, expected) in [
        ("markdown", markdown),
        (
            "html",
            "<p>done: <strong>ok</strong></p>\n<ul>\n<li>&lt;b&gt;one&lt;/b&gt;</li>\n\
             <li><a href=\"https://example.org\">two</a></li>\n</ul>",
        ),
        ("text", "done: ok\n\n- <b>one</b>\n- two (https://example.org)"),
    ] {
        let fixture = ChatFixture::with(Script::always(Reply::text([markdown], TEST_USAGE))).await;
        enable_platform(&fixture.app, "slack").await;
        let to = json!({"delivery": {"channel": "slack:#reports", "format": format}});
        let job = id(&create(&fixture.app, &with(every(600), &to)).await);
        trigger(&fixture.app, &job).await;
        fixture.app.run_workers().await;
        assert_eq!(notification_body(&fixture.app).await, expected, "{format}");
    }
}

#[tokio::test]
async fn run_shows_the_status_of_its_delivery() {
    let fixture = ChatFixture::saying(&["Fine."]).await;
    let app = &fixture.app;
    enable_platform(app, "discord").await;
    let silent = id(&create(app, &every(600)).await);
    let delivered = id(&create(app, &with(every(600), &json!({"delivery": {"channel": "discord:1"}}))).await);
    let (silent_run, delivered_run) = (trigger(app, &silent).await, trigger(app, &delivered).await);
    app.run_workers().await;
    assert_eq!(run(app, &silent, &silent_run).await["delivery"], Value::Null);
    let waiting = run(app, &delivered, &delivered_run).await;
    // Discord has no credentials yet.
    assert_eq!(waiting["delivery"]["status"], "pending", "{waiting}");
    assert!(waiting["delivery"]["error"].as_str().is_some_and(|error| !error.is_empty()), "{waiting}");
    assert_eq!(runs(app, &delivered).await[0], waiting);
}

#[tokio::test]
async fn prompt_contains_the_time_in_the_profile_zone() {
    let fixture = ChatFixture::saying(&["Fine."]).await;
    let app = &fixture.app;
    app.put("/api/settings/profile").json(&json!({"timezone": "Asia/Kolkata"})).send().await.expect_status(200);
    create(app, &every(600)).await;
    advance(app, 660);
    app.run_workers().await;
    let prompt = fixture.vendor.requests().remove(0).body.to_string();
    let planned = "as planned for Monday, 2026-01-05 14:40 in Asia/Kolkata (2026-01-05T09:10:00.000Z)";
    let now = "It is Monday, 2026-01-05 14:41 in Asia/Kolkata (2026-01-05T09:11:00.000Z)";
    assert!(prompt.contains(planned) && prompt.contains(now), "{prompt}");
}
