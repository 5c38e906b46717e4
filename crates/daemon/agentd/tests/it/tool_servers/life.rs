//! Sessions of tool servers: opening on demand, idle timeout, and stored tool lists.

use std::time::Duration;

use agentd_llm::ToolCall;
use agentd_testing_llm::{Reply, Script};
use serde_json::{Value, json};

use super::{SERVERS, act, connected, fake, processes, register, status, until_gone, wait_for_status, with};
use crate::skills::{app_without_sandbox, call, offered};
use crate::support::chat_fixture::{ChatFixture, TEST_USAGE};
use crate::support::{TestApp, TestProcess};

fn fake_marked(name: &str) -> Value {
    with(fake("well"), json!({"args": [format!("{}/fake_server.py", super::fake_folder()), "well", name]}))
}

#[tokio::test]
async fn agent_uses_a_server_tool_in_a_turn() {
    let reply = |number| match number {
        0 => Reply::tool_calls(vec![ToolCall::new("v0", "fake_echo", json!({"word": "hello"}))], TEST_USAGE),
        _ => Reply::text(["It said hello."], TEST_USAGE),
    };
    let request_count = std::sync::atomic::AtomicUsize::new(0);
    let script = Script::by(move |_| reply(request_count.fetch_add(1, std::sync::atomic::Ordering::SeqCst)));
    let fixture = ChatFixture::with(script).await;
    fixture.app.put("/api/sandbox/config").json(&json!({"backend": "none"})).send().await.expect_status(200);
    connected(&fixture.app, &fake("well")).await;
    let events = fixture.exchange(&json!({"content": "What does it say?"})).await;
    let kinds: Vec<&str> = events.iter().map(|event| event.event.as_str()).collect();
    assert_eq!(kinds, ["start", "tool_use", "tool_result", "token", "done"]);
    assert_eq!(events[2].data["output"], json!({"text": "echo: hello"}));
    let sent = fixture.vendor.requests()[0].body.to_string();
    assert!(sent.contains("fake_echo") && sent.contains("The tool echo."), "{sent}");
    // The metrics include the call.
    let metrics = fixture.app.get("/api/metrics/prometheus").send().await.expect_status(200).text();
    assert!(metrics.contains(r#"svc_tool_server_calls_total{status="ok"} 1"#), "{metrics}");
    assert!(metrics.contains("svc_tool_servers_connected 1"), "{metrics}");
}

#[tokio::test]
async fn server_tools_require_approval_unless_trusted_as_read_only() {
    let app = app_without_sandbox().await;
    let id = connected(&app, &fake("well")).await;
    let effects = |server: Value| -> Vec<String> {
        let tools = server["tools"].as_array().unwrap().iter().filter(|tool| tool["effect"] == "reads");
        tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    };
    let path = format!("{SERVERS}/{id}");
    assert_eq!(effects(app.get(&path).send().await.json()), Vec::<String>::new());
    let process = status(&app, &id).await["process_id"].clone();
    let trusted = app.put(&path).json(&json!({"trusted": true})).send().await.expect_status(200).json();
    assert_eq!(effects(trusted), ["fake_peek"]);
    let offer = crate::skills::offer(&app).await.reading_only();
    assert!(offer.find("fake_peek").is_some() && offer.find("fake_echo").is_none());
    // Trusting a server does not restart it.
    assert_eq!(status(&app, &id).await["process_id"], process);
}

#[tokio::test]
async fn tools_are_offered_without_a_process_and_a_call_starts_it() {
    let mut app = app_without_sandbox().await;
    let id = register(&app, &fake_marked("lazy")).await;
    // The tools of enabled servers are discovered in the background.
    wait_for_status(&app, &id, "connected", |state| state["status"] == "connected").await;
    assert_eq!(processes(&["fake_server.py", "lazy"]).len(), 1);
    app.restart().await;
    until_gone(&["fake_server.py", "lazy"]).await;
    assert!(offered(&app).await.contains(&"fake_echo".to_owned()));
    assert_eq!(status(&app, &id).await["status"], "disconnected");
    assert_eq!(call(&app, "fake_echo", json!({"word": "a"})).await.unwrap(), json!({"text": "echo: a"}));
    let state = status(&app, &id).await;
    assert_eq!((&state["status"], &state["server"]["version"]), (&json!("connected"), &json!("1.2.3")));
    // The session ends after ten minutes without a call; the next call starts it again.
    app.clock.advance(Duration::from_secs(599));
    app.run_workers().await;
    assert_eq!(status(&app, &id).await["status"], "connected");
    app.clock.advance(Duration::from_secs(2));
    app.run_workers().await;
    wait_for_status(&app, &id, "disconnected", |state| state["status"] == "disconnected").await;
    until_gone(&["fake_server.py", "lazy"]).await;
    call(&app, "fake_echo", json!({})).await.unwrap();
    let ended = act(&app, &id, "disconnect").await;
    assert_eq!(ended["status"], "disconnected");
    assert_eq!(processes(&["fake_server.py", "lazy"]), Vec::<u32>::new());
    call(&app, "fake_echo", json!({})).await.unwrap();
    app.put(&format!("{SERVERS}/{id}")).json(&json!({"enabled": false})).send().await.expect_status(200);
    until_gone(&["fake_server.py", "lazy"]).await;
}

#[tokio::test]
async fn changed_tool_list_is_offered() {
    let app = app_without_sandbox().await;
    let id = connected(&app, &fake("well")).await;
    assert!(!offered(&app).await.contains(&"fake_grown".to_owned()));
    call(&app, "fake_grow", json!({})).await.unwrap();
    wait_for_status(&app, &id, "grown", |state| state["tools"] == 10).await;
    assert!(offered(&app).await.contains(&"fake_grown".to_owned()));
}

#[tokio::test]
async fn server_and_custom_tools_never_share_a_name() {
    let app = app_without_sandbox().await;
    let path = "/api/settings/skills/custom";
    let source = "result = 'mine'";
    let custom = |name: &str| json!({"name": name, "description": "Mine.", "kind": "python", "source_code": source});
    // The custom tool exists first, so the server tool gets another name.
    app.post(path).json(&custom("fake_echo")).send().await.expect_status(201);
    let id = connected(&app, &fake("well")).await;
    let found = act(&app, &id, "discover").await;
    let tools = found["tools"].as_array().expect("tools");
    let echo = tools.iter().find(|tool| tool["remote_name"] == "echo").expect("the server's tool");
    let name = echo["name"].as_str().expect("a name");
    assert!(name.starts_with("fake_echo_"), "{name}");
    assert_eq!(call(&app, name, json!({"word": "a"})).await.unwrap(), json!({"text": "echo: a"}));
    assert_eq!(call(&app, "fake_echo", json!({})).await.unwrap(), json!({"text": "mine"}));
    // A custom tool cannot take the name of a server tool.
    app.post(path).json(&custom("fake_env")).send().await.expect_error(409, "name_taken");
    let other = app.post(path).json(&custom("other")).send().await.expect_status(201).json();
    let other = format!("{path}/{}", other["id"].as_str().expect("an id"));
    app.put(&other).json(&json!({"name": "fake_env"})).send().await.expect_error(409, "name_taken");
}

#[tokio::test]
async fn changed_registration_starts_a_new_process() {
    let app = app_without_sandbox().await;
    let id = connected(&app, &with(fake("well"), json!({"env": {"COLOUR": "blue"}}))).await;
    let colour = || call(&app, "fake_env", json!({"word": "COLOUR"}));
    assert_eq!(colour().await.unwrap(), json!({"text": "blue"}));
    let change = json!({"env": {"COLOUR": "green"}});
    app.put(&format!("{SERVERS}/{id}")).json(&change).send().await.expect_status(200);
    act(&app, &id, "connect").await;
    assert_eq!(colour().await.unwrap(), json!({"text": "green"}));
    if let Some(replica) = app.replica().await {
        // Each replica has its own process and applies changes.
        replica.put("/api/sandbox/config").json(&json!({"backend": "none"})).send().await.expect_status(200);
        assert_eq!(call(&replica, "fake_env", json!({"word": "COLOUR"})).await.unwrap(), json!({"text": "green"}));
        let change = json!({"env": {"COLOUR": "red"}});
        app.put(&format!("{SERVERS}/{id}")).json(&change).send().await.expect_status(200);
        act(&app, &id, "connect").await;
        assert_eq!(call(&replica, "fake_env", json!({"word": "COLOUR"})).await.unwrap(), json!({"text": "red"}));
    }
}

/// Covers the process and its children, in the sandbox if one is available.
#[tokio::test]
async fn kill_of_the_daemon_leaves_no_server_process() {
    let mut process = TestProcess::with_owner().await;
    let sandbox = process.get("/api/sandbox/config").send().await.expect_status(200).json();
    if sandbox["in_force"]["tier"].is_null() {
        process.put("/api/sandbox/config").json(&json!({"backend": "none"})).send().await.expect_status(200);
    }
    let name = format!("orphan-{}", std::process::id());
    let script = format!("{}/fake_server.py", super::fake_folder());
    let fields = with(fake("family"), json!({"args": [script, "family", name]}));
    let made = process.post(SERVERS).json(&fields).send().await.expect_status(201).json();
    let path = format!("{SERVERS}/{}", made["id"].as_str().unwrap());
    process.post(&format!("{path}/connect")).send().await.expect_status(200);
    assert!(!processes(&["fake_server.py", &name]).is_empty());
    let group = status_of(&process, &path).await["process_id"].as_u64().unwrap();
    process.kill();
    until_gone(&["fake_server.py", &name]).await;
    super::until_ended(group).await;
    // After the restart the tools are known.
    process.spawn().await;
    assert_eq!(status_of(&process, &path).await["tools"], 9);
}

async fn status_of(process: &TestProcess, path: &str) -> Value {
    process.get(&format!("{path}/status")).send().await.expect_status(200).json()
}

/// Prints the memory growth of repeated connections. Run with `--ignored`.
#[tokio::test]
#[ignore = "takes a minute; prints a figure"]
async fn connecting_200_times_leaks_nothing() {
    let app = TestApp::with_owner().await;
    let id = register(&app, &fake_marked("cycles")).await;
    let resident = || {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1024.0
    };
    let open_files = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let cycle = async || {
        act(&app, &id, "connect").await;
        act(&app, &id, "disconnect").await;
    };
    // Warm-up for one-time allocations.
    for _ in 0..20 {
        cycle().await;
    }
    let (before, files) = (resident(), open_files());
    for _ in 0..200 {
        cycle().await;
    }
    until_gone(&["fake_server.py", "cycles"]).await;
    let (after, files_after) = (resident(), open_files());
    println!(
        "200 cycles: resident {before:.1} MiB before, {after:.1} MiB after ({:+.1} %); open files {files} and {files_after}",
        (after / before - 1.0) * 100.0
    );
    assert!(after <= before * 1.05, "memory grew");
    assert!(files_after <= files + 2, "files stay open");
}
