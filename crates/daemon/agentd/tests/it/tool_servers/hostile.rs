//! Servers that hang, flood, lie or die: whoever asks them hears of it, and nobody else is slower.

use serde_json::{Value, json};

use super::{SERVERS, act, connected, fake, processes, register, status, until, until_gone, with};
use crate::skills::{app_without_sandbox, call, offered};

fn called(name: &str, mode: &str) -> Value {
    with(fake(mode), json!({"name": name, "timeout_seconds": 1}))
}

#[tokio::test]
async fn a_handshake_that_fails_is_told_with_what_the_program_said() {
    let app = app_without_sandbox().await;
    let token = json!({"enabled": false, "env": {"TOKEN": "very-secret"}});
    let id = register(&app, &with(called("a", "complains"), token)).await;
    let found = app.post(&format!("{SERVERS}/{id}/test")).send().await.expect_status(200);
    assert!(!found.text().contains("very-secret"), "{}", found.text());
    let found = found.json();
    assert_eq!((&found["ok"], &found["code"]), (&json!(false), &json!("tool_server_ended")));
    assert!(found["error"].as_str().unwrap().contains("ended with code 7"), "{found}");
    assert_eq!(found["stderr_tail"], "the token is [hidden], and it is wrong");
    // The same when it is wanted for good; the status keeps it.
    app.put(&format!("{SERVERS}/{id}")).json(&json!({"enabled": true})).send().await.expect_status(200);
    app.post(&format!("{SERVERS}/{id}/connect")).send().await.expect_error(502, "tool_server_ended");
    let state = status(&app, &id).await;
    assert_eq!((&state["status"], &state["error"]["code"]), (&json!("failed"), &json!("tool_server_ended")));
    assert!(state["retry_at"].is_string() && state["stderr_tail"].as_str().unwrap().contains("[hidden]"));

    let dies = register(&app, &called("b", "dies")).await;
    app.post(&format!("{SERVERS}/{dies}/discover")).send().await.expect_error(502, "tool_server_ended");
    let missing = json!({"name": "c", "transport": "stdio", "command": "no-such-program"});
    let missing = register(&app, &missing).await;
    let refused = app.post(&format!("{SERVERS}/{missing}/connect")).send().await;
    let refused = refused.expect_error(502, "tool_server_not_started").json();
    assert!(refused["error"].as_str().unwrap().contains("no-such-program"), "{refused}");
}

#[tokio::test]
async fn a_secret_that_a_server_repeats_in_its_refusal_is_hidden() {
    let app = app_without_sandbox().await;
    let token = json!({"enabled": false, "env": {"TOKEN": "very-secret"}});
    let id = register(&app, &with(called("a", "repeats"), token)).await;
    let found = act(&app, &id, "test").await;
    assert!(found["error"].as_str().unwrap().contains("the token [hidden] may not"), "{found}");
    app.put(&format!("{SERVERS}/{id}")).json(&json!({"enabled": true})).send().await.expect_status(200);
    let refused = app.post(&format!("{SERVERS}/{id}/connect")).send().await.expect_status(502);
    let state = status(&app, &id).await;
    assert!(state["error"]["message"].as_str().unwrap().contains("[hidden]"), "{state}");
    assert!(!refused.text().contains("very-secret") && !state.to_string().contains("very-secret"));
}

#[tokio::test]
async fn one_that_floods_or_is_silent_costs_nobody_else() {
    let app = app_without_sandbox().await;
    let good = connected(&app, &called("good", "well")).await;
    let noise = register(&app, &called("noise", "noise")).await;
    let silent = register(&app, &called("silent", "silent")).await;
    for id in [&noise, &silent] {
        until(&app, id, "connecting", |state| state["status"] == "connecting").await;
    }
    // Their handshakes last; others are served meanwhile.
    assert_eq!(call(&app, "good_echo", json!({"word": "a"})).await.unwrap(), json!({"text": "echo: a"}));
    assert_eq!(act(&app, &good, "discover").await["total"], 9);
    // A try that lasts can be ended.
    for id in [&noise, &silent] {
        assert_eq!(act(&app, id, "disconnect").await["status"], "disconnected");
    }
    until_gone(&["fake_server.py", "noise"]).await;
    until_gone(&["fake_server.py", "silent"]).await;
}

#[tokio::test]
async fn calls_end_in_their_time_and_the_server_lives_on() {
    let app = app_without_sandbox().await;
    let id = connected(&app, &called("fake", "well")).await;
    let (hung, echoed) =
        tokio::join!(call(&app, "fake_hang", json!({})), call(&app, "fake_echo", json!({"word": "b"})),);
    assert!(hung.unwrap_err().to_string().contains("within 1 seconds"));
    assert_eq!(echoed.unwrap(), json!({"text": "echo: b"}));
    assert_eq!(call(&app, "fake_fail", json!({})).await.unwrap_err().to_string(), "it is not possible");
    // It answered the question whether it still lives.
    assert_eq!(call(&app, "fake_echo", json!({"word": "c"})).await.unwrap(), json!({"text": "echo: c"}));
    assert_eq!(status(&app, &id).await["losses"], 0);
}

#[tokio::test]
async fn one_that_dies_is_started_again() {
    let app = app_without_sandbox().await;
    let id = connected(&app, &called("fake", "well")).await;
    let died = call(&app, "fake_die", json!({})).await.unwrap_err().to_string();
    assert!(!died.contains("dying"), "the model reads nothing of the error output: {died}");
    let state = until(&app, &id, "connected again", |state| {
        state["status"] == "connected" && state["losses"].as_u64().unwrap() == 1
    })
    .await;
    assert_eq!(state["error"], Value::Null);
    call(&app, "fake_echo", json!({})).await.unwrap();
    // Once more, and the pause is longer: it is seen as failed, and its tools stay offered.
    call(&app, "fake_die", json!({})).await.unwrap_err();
    let state = until(&app, &id, "failed", |state| state["status"] == "failed").await;
    assert_eq!(state["error"]["code"], "tool_server_ended");
    assert!(state["error"]["message"].as_str().unwrap().contains("code 3"), "{state}");
    assert!(state["stderr_tail"].as_str().unwrap().contains("dying as I was told"), "{state}");
    assert!(offered(&app).await.contains(&"fake_echo".to_owned()));
    // A call does not wait for the pause; the owner does not have to.
    call(&app, "fake_echo", json!({})).await.unwrap_err();
    assert_eq!(act(&app, &id, "connect").await["status"], "connected");
}

#[tokio::test]
async fn one_that_floods_in_a_call_is_cut_off() {
    let app = app_without_sandbox().await;
    let id = connected(&app, &with(called("fake", "well"), json!({"timeout_seconds": 20}))).await;
    call(&app, "fake_flood", json!({})).await.unwrap_err();
    act(&app, &id, "disconnect").await;
    call(&app, "fake_echo", json!({})).await.unwrap();
}

#[tokio::test]
async fn one_that_gives_no_sign_of_life_is_ended() {
    let app = app_without_sandbox().await;
    let id = connected(&app, &called("fake", "deaf")).await;
    call(&app, "fake_hang", json!({})).await.unwrap_err();
    let state = until(&app, &id, "given up", |state| state["losses"].as_u64().unwrap() == 1).await;
    assert!(["failed", "connecting", "connected", "disconnecting"].contains(&state["status"].as_str().unwrap()));
}

#[tokio::test]
async fn of_one_that_lies_the_true_part_is_offered() {
    let app = app_without_sandbox().await;
    let id = connected(&app, &called("fake", "lies")).await;
    let found = act(&app, &id, "discover").await;
    let names: Vec<&str> = found["tools"].as_array().unwrap().iter().map(|t| t["name"].as_str().unwrap()).collect();
    assert_eq!(names[0], "fake_good");
    assert!(names[1].starts_with("fake_two_words_") && names[2].starts_with("fake_dots_in_it_"), "{names:?}");
    assert_eq!(names[3].len(), 64, "{names:?}");
    assert_eq!((names.len(), found["left_out"].as_array().unwrap().len()), (4, 3), "{found}");
    // Called under its own name.
    for (index, remote_name) in [(1, "two words"), (2, "dots.in/it")] {
        assert_eq!(found["tools"][index]["remote_name"], remote_name);
        let said = call(&app, names[index], json!({"word": "a"})).await.unwrap();
        assert_eq!(said, json!({"text": format!("{remote_name}: a")}));
    }
}

#[tokio::test]
async fn tags_of_a_server_reach_no_model() {
    let app = app_without_sandbox().await;
    let id = connected(&app, &called("fake", "tags")).await;
    let found = act(&app, &id, "discover").await;
    let has_tags = |text: &str| text.chars().any(|letter| ('\u{e0000}'..='\u{e007f}').contains(&letter));
    assert!(!has_tags(&found.to_string()), "{found}");
    assert_eq!((found["tools"].as_array().unwrap().len(), found["left_out"][0]["name"].as_str()), (1, Some("ta")));
    assert!(found["left_out"][0]["reason"].as_str().unwrap().contains("visible form"), "{found}");
    let said = call(&app, "fake_tagged", json!({})).await.unwrap();
    assert_eq!(said, json!({"text": "said", "structured": {"seen": "it"}}));
}

#[tokio::test]
async fn odd_results_reach_the_model_as_something_meaningful() {
    let app = app_without_sandbox().await;
    connected(&app, &called("fake", "odd")).await;
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
        ("silent_error", "gave no reason"),
        ("structured_error", "out of paper"),
        ("picture_error", "[image, image/png"),
    ] {
        let error = call(&app, &format!("fake_{tool}"), json!({})).await.unwrap_err().to_string();
        assert!(error.contains(part), "{tool}: {error}");
    }
}

#[tokio::test]
async fn what_a_program_started_ends_with_it() {
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
