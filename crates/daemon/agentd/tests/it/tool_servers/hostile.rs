//! Tool servers that hang, flood, send invalid data, or exit: callers receive an error, and others are not
//! affected.

use serde_json::{Value, json};

use super::{SERVERS, act, connected, fake, processes, register, status, until_gone, wait_for_status, with};
use crate::skills::{app_without_sandbox, call, offered};

fn fake_named(name: &str, mode: &str) -> Value {
    with(fake(mode), json!({"name": name, "timeout_seconds": 1}))
}

#[tokio::test]
async fn failed_handshake_is_reported_with_stderr() {
    let app = app_without_sandbox().await;
    let token = json!({"enabled": false, "env": {"TOKEN": "very-secret"}});
    let id = register(&app, &with(fake_named("a", "complains"), token)).await;
    let found = app.post(&format!("{SERVERS}/{id}/test")).send().await.expect_status(200);
    assert!(!found.text().contains("very-secret"), "{}", found.text());
    let found = found.json();
    assert_eq!((&found["ok"], &found["code"]), (&json!(false), &json!("tool_server_ended")));
    assert!(found["error"].as_str().unwrap().contains("exited with code 7"), "{found}");
    assert_eq!(found["stderr_tail"], "the token is [hidden], and it is wrong");
    // The status keeps the error of an enabled server.
    app.put(&format!("{SERVERS}/{id}")).json(&json!({"enabled": true})).send().await.expect_status(200);
    app.post(&format!("{SERVERS}/{id}/connect")).send().await.expect_error(502, "tool_server_ended");
    let state = status(&app, &id).await;
    assert_eq!((&state["status"], &state["error"]["code"]), (&json!("failed"), &json!("tool_server_ended")));
    assert!(state["retry_at"].is_string() && state["stderr_tail"].as_str().unwrap().contains("[hidden]"));

    let dies = register(&app, &fake_named("b", "dies")).await;
    app.post(&format!("{SERVERS}/{dies}/discover")).send().await.expect_error(502, "tool_server_ended");
    let missing = json!({"name": "c", "transport": "stdio", "command": "no-such-program"});
    let missing = register(&app, &missing).await;
    let refused = app.post(&format!("{SERVERS}/{missing}/connect")).send().await;
    let refused = refused.expect_error(502, "tool_server_not_started").json();
    assert!(refused["error"].as_str().unwrap().contains("no-such-program"), "{refused}");
}

#[tokio::test]
async fn secret_in_a_server_error_is_hidden() {
    let app = app_without_sandbox().await;
    let token = json!({"enabled": false, "env": {"TOKEN": "very-secret"}});
    let id = register(&app, &with(fake_named("a", "repeats"), token)).await;
    let found = act(&app, &id, "test").await;
    assert!(found["error"].as_str().unwrap().contains("the token [hidden] may not"), "{found}");
    app.put(&format!("{SERVERS}/{id}")).json(&json!({"enabled": true})).send().await.expect_status(200);
    let refused = app.post(&format!("{SERVERS}/{id}/connect")).send().await.expect_status(502);
    let state = status(&app, &id).await;
    assert!(state["error"]["message"].as_str().unwrap().contains("[hidden]"), "{state}");
    assert!(!refused.text().contains("very-secret") && !state.to_string().contains("very-secret"));
}

#[tokio::test]
async fn flooding_or_silent_server_does_not_affect_others() {
    let app = app_without_sandbox().await;
    let good = connected(&app, &fake_named("good", "well")).await;
    let noise = register(&app, &fake_named("noise", "noise")).await;
    let silent = register(&app, &fake_named("silent", "silent")).await;
    for id in [&noise, &silent] {
        wait_for_status(&app, id, "connecting", |state| state["status"] == "connecting").await;
    }
    // Other servers respond during the slow handshakes.
    assert_eq!(call(&app, "good_echo", json!({"word": "a"})).await.unwrap(), json!({"text": "echo: a"}));
    assert_eq!(act(&app, &good, "discover").await["total"], 9);
    // A connection attempt in progress can be stopped.
    for id in [&noise, &silent] {
        assert_eq!(act(&app, id, "disconnect").await["status"], "disconnected");
    }
    until_gone(&["fake_server.py", "noise"]).await;
    until_gone(&["fake_server.py", "silent"]).await;
}

#[tokio::test]
async fn call_times_out_and_the_server_stays_connected() {
    let app = app_without_sandbox().await;
    let id = connected(&app, &fake_named("fake", "well")).await;
    let (hung, echoed) =
        tokio::join!(call(&app, "fake_hang", json!({})), call(&app, "fake_echo", json!({"word": "b"})),);
    assert!(hung.unwrap_err().to_string().contains("within 1 seconds"));
    assert_eq!(echoed.unwrap(), json!({"text": "echo: b"}));
    assert_eq!(call(&app, "fake_fail", json!({})).await.unwrap_err().to_string(), "it is not possible");
    // The server responded to the ping.
    assert_eq!(call(&app, "fake_echo", json!({"word": "c"})).await.unwrap(), json!({"text": "echo: c"}));
    assert_eq!(status(&app, &id).await["losses"], 0);
}

#[tokio::test]
async fn exited_server_is_restarted() {
    let app = app_without_sandbox().await;
    let id = connected(&app, &fake_named("fake", "well")).await;
    let died = call(&app, "fake_die", json!({})).await.unwrap_err().to_string();
    assert!(!died.contains("dying"), "the model does not receive stderr: {died}");
    let state = wait_for_status(&app, &id, "connected again", |state| {
        state["status"] == "connected" && state["losses"].as_u64().unwrap() == 1
    })
    .await;
    assert_eq!(state["error"], Value::Null);
    call(&app, "fake_echo", json!({})).await.unwrap();
    // After another exit the delay is longer: the server is shown as failed, and its tools stay offered.
    call(&app, "fake_die", json!({})).await.unwrap_err();
    let state = wait_for_status(&app, &id, "failed", |state| state["status"] == "failed").await;
    assert_eq!(state["error"]["code"], "tool_server_ended");
    assert!(state["error"]["message"].as_str().unwrap().contains("code 3"), "{state}");
    assert!(state["stderr_tail"].as_str().unwrap().contains("dying as I was told"), "{state}");
    assert!(offered(&app).await.contains(&"fake_echo".to_owned()));
    // A call does not wait for the delay, and the owner can connect immediately.
    call(&app, "fake_echo", json!({})).await.unwrap_err();
    assert_eq!(act(&app, &id, "connect").await["status"], "connected");
}

#[tokio::test]
async fn server_flooding_a_call_is_disconnected() {
    let app = app_without_sandbox().await;
    let id = connected(&app, &with(fake_named("fake", "well"), json!({"timeout_seconds": 20}))).await;
    call(&app, "fake_flood", json!({})).await.unwrap_err();
    act(&app, &id, "disconnect").await;
    call(&app, "fake_echo", json!({})).await.unwrap();
}

#[tokio::test]
async fn unresponsive_server_is_disconnected() {
    let app = app_without_sandbox().await;
    let id = connected(&app, &fake_named("fake", "deaf")).await;
    call(&app, "fake_hang", json!({})).await.unwrap_err();
    let state = wait_for_status(&app, &id, "given up", |state| state["losses"].as_u64().unwrap() == 1).await;
    assert!(["failed", "connecting", "connected", "disconnecting"].contains(&state["status"].as_str().unwrap()));
}

#[tokio::test]
async fn valid_tools_of_an_invalid_list_are_offered() {
    let app = app_without_sandbox().await;
    let id = connected(&app, &fake_named("fake", "lies")).await;
    let found = act(&app, &id, "discover").await;
    let names: Vec<&str> = found["tools"].as_array().unwrap().iter().map(|t| t["name"].as_str().unwrap()).collect();
    assert_eq!(names[0], "fake_good");
    assert!(names[1].starts_with("fake_two_words_") && names[2].starts_with("fake_dots_in_it_"), "{names:?}");
    assert_eq!(names[3].len(), 64, "{names:?}");
    assert_eq!((names.len(), found["left_out"].as_array().unwrap().len()), (4, 3), "{found}");
    // Tools are called by their remote names.
    for (index, remote_name) in [(1, "two words"), (2, "dots.in/it")] {
        assert_eq!(found["tools"][index]["remote_name"], remote_name);
        let output = call(&app, names[index], json!({"word": "a"})).await.unwrap();
        assert_eq!(output, json!({"text": format!("{remote_name}: a")}));
    }
}

#[tokio::test]
async fn invisible_tag_characters_are_removed_from_server_text() {
    let app = app_without_sandbox().await;
    let id = connected(&app, &fake_named("fake", "tags")).await;
    let found = act(&app, &id, "discover").await;
    let has_tags = |text: &str| text.chars().any(|letter| ('\u{e0000}'..='\u{e007f}').contains(&letter));
    assert!(!has_tags(&found.to_string()), "{found}");
    assert_eq!((found["tools"].as_array().unwrap().len(), found["left_out"][0]["name"].as_str()), (1, Some("ta")));
    assert!(found["left_out"][0]["reason"].as_str().unwrap().contains("invisible characters"), "{found}");
    let output = call(&app, "fake_tagged", json!({})).await.unwrap();
    assert_eq!(output, json!({"text": "said", "structured": {"seen": "it"}}));
}

#[tokio::test]
async fn unusual_results_are_converted_to_readable_text() {
    let app = app_without_sandbox().await;
    connected(&app, &fake_named("fake", "odd")).await;
    let left_out = "[1050000 bytes in base64 left out]";
    for (tool, expected) in [
        ("empty", json!({"text": "the tool returned no content"})),
        ("blank", json!({"text": "the tool returned no content"})),
        ("unknown", json!({"text": "[content of the unknown kind `hologram` left out]"})),
        ("structured", json!({"n": 1})),
        ("alone", json!({"text": "text alone"})),
        ("image", json!({"text": "[image, image/png, 1050000 bytes, left out]"})),
        ("blob", json!({"text": left_out})),
        ("structured_blob", json!({"picture": left_out, "width": 5})),
    ] {
        assert_eq!(call(&app, &format!("fake_{tool}"), json!({})).await.unwrap(), expected, "{tool}");
    }
    for (tool, part) in [
        ("nothing", "no content"),
        ("silent_error", "without giving a reason"),
        ("structured_error", "out of paper"),
        ("picture_error", "[image, image/png"),
    ] {
        let error = call(&app, &format!("fake_{tool}"), json!({})).await.unwrap_err().to_string();
        assert!(error.contains(part), "{tool}: {error}");
    }
}

#[tokio::test]
async fn child_processes_of_a_server_end_with_it() {
    let app = app_without_sandbox().await;
    let script = format!("{}/fake_server.py", super::fake_folder());
    let name = "with-family";
    let id = connected(&app, &with(fake("family"), json!({"args": [script, "family", name]}))).await;
    let found = call(&app, "fake_where", json!({})).await.unwrap();
    let process = found["process"].as_u64().unwrap();
    let children = || std::fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap_or_default();
    let child = children().split_whitespace().next().expect("a child").to_owned();
    act(&app, &id, "disconnect").await;
    assert_eq!(processes(&["fake_server.py", name]), Vec::<u32>::new());
    super::until_ended(child.parse().unwrap()).await;
}
