//! Built-in tools.

use agentd_engine::agents::AgentProfile;
use axum::response::IntoResponse;
use serde_json::json;

use super::{BUILTIN, Server, agent, app, app_without_sandbox, call, offered, page, workspace};
use crate::support::TestApp;

const NAMES: [&str; 20] = [
    "read_file",
    "write_file",
    "edit_file",
    "list_files",
    "search_files",
    "shell",
    "python",
    "http_fetch",
    "memory_search",
    "memory_store",
    "memory_forget",
    "schedule_create",
    "schedule_list",
    "schedule_cancel",
    "browser_open",
    "browser_act",
    "browser_read",
    "browser_screenshot",
    "browser_tabs",
    "browser_downloads",
];

/// Returns the tools that are usable on this machine.
fn usable() -> Vec<&'static str> {
    let is_usable = |name: &&str| !name.starts_with("browser_") || crate::browser::has_chromium();
    NAMES.into_iter().filter(is_usable).collect()
}

#[tokio::test]
async fn builtin_tools_are_described() {
    let app = TestApp::with_owner().await;
    let list = app.get(BUILTIN).send().await.expect_status(200).json();
    let names: Vec<&str> = list["tools"].as_array().unwrap().iter().map(|t| t["name"].as_str().unwrap()).collect();
    assert_eq!((names.as_slice(), &list["total"]), (NAMES.as_slice(), &json!(20)));
    for tool in list["tools"].as_array().unwrap() {
        let reads = ["read_file", "list_files", "search_files", "memory_search", "schedule_list"]
            .contains(&tool["name"].as_str().unwrap());
        assert_eq!(tool["effect"], if reads { "reads" } else { "acts" }, "{tool}");
        assert_eq!(tool["input_schema"]["type"], "object");
        assert_eq!(tool["input_schema"]["additionalProperties"], false);
        assert_eq!(tool["enabled"], true);
        assert_eq!(tool["available"], tool["problem"].is_null(), "{tool}");
    }
    let glance = app.get("/api/settings/skills").send().await.expect_status(200).json();
    assert_eq!((&glance["total"], &glance["custom"]), (&json!(20), &json!([])));
    assert_eq!(glance["builtin"][5]["name"], "shell");
}

/// The tool calling of the built-in model is benchmarked and tested with the tools in this file.
#[tokio::test]
async fn benchmark_data_matches_the_tool_descriptions() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../bench/data/builtin_tools.json");
    let measured: Vec<serde_json::Value> = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let app = TestApp::with_owner().await;
    let list = app.get(BUILTIN).send().await.expect_status(200).json();
    let tools = list["tools"].as_array().unwrap().iter();
    let described: Vec<serde_json::Value> = tools
        .map(|tool| {
            json!({"name": tool["name"], "description": tool["description"], "input_schema": tool["input_schema"]})
        })
        .collect();
    if described != measured {
        let lines: Vec<String> = described.iter().map(|tool| format!("  {tool}")).collect();
        let fresh = concat!(env!("CARGO_TARGET_TMPDIR"), "/builtin_tools.json");
        std::fs::write(fresh, format!("[\n{}\n]\n", lines.join(",\n"))).unwrap();
        panic!("{file} differs from the tools of the daemon; copy {fresh} there and repeat the benchmark");
    }
}

#[tokio::test]
async fn toggled_tool_stays_off_after_a_restart() {
    let mut app = app_without_sandbox().await;
    assert_eq!(offered(&app).await, usable());
    let off = app.post(&format!("{BUILTIN}/write_file/toggle")).send().await.expect_status(200).json();
    assert_eq!((&off["name"], &off["enabled"], &off["available"]), (&json!("write_file"), &json!(false), &json!(true)));
    app.restart().await;
    assert!(!offered(&app).await.contains(&"write_file".to_owned()));
    let list = app.get(BUILTIN).send().await.json();
    assert_eq!(list["tools"][1]["enabled"], false);
    let on = app.post(&format!("{BUILTIN}/write_file/toggle")).send().await.expect_status(200).json();
    assert_eq!(on["enabled"], true);
    assert_eq!(offered(&app).await, usable());
    app.post(&format!("{BUILTIN}/teleport/toggle")).send().await.expect_error(404, "tool_not_found");
    if let Some(replica) = app.replica().await {
        app.post(&format!("{BUILTIN}/shell/toggle")).send().await.expect_status(200);
        assert_eq!(replica.get(BUILTIN).send().await.json()["tools"][5]["enabled"], false);
    }
}

#[tokio::test]
async fn profile_limits_the_tools_of_an_agent() {
    let app = app_without_sandbox().await;
    let profile = AgentProfile { tools: Some(vec!["shell".to_owned(), "read_file".to_owned()]), ..Default::default() };
    let offer = app.running().daemon.tools().offer(&agent(profile)).await;
    let names: Vec<&str> = offer.iter().map(|tool| tool.description().name.as_str()).collect();
    assert_eq!(names, ["read_file", "shell"]);
    let reading: Vec<String> = offer.reading_only().iter().map(|tool| tool.description().name.clone()).collect();
    assert_eq!(reading, ["read_file"]);
}

#[tokio::test]
async fn file_tools_are_restricted_to_the_workspace() {
    let app = app().await;
    call(&app, "write_file", json!({"path": "notes/a.md", "content": "one two"})).await.unwrap();
    assert_eq!(std::fs::read_to_string(workspace(&app).join("notes/a.md")).unwrap(), "one two");
    call(&app, "edit_file", json!({"path": "notes/a.md", "old_text": "two", "new_text": "three"})).await.unwrap();
    let read = call(&app, "read_file", json!({"path": "notes/a.md"})).await.unwrap();
    assert_eq!(read["text"], "     1\tone three\n");
    let found = call(&app, "search_files", json!({"pattern": "THREE(?i)|three"})).await.unwrap();
    assert_eq!(found["text"], "notes/a.md:1: one three");
    for path in ["../../secret.key", "/etc/passwd"] {
        call(&app, "read_file", json!({"path": path})).await.unwrap_err();
    }
    let misspelt = call(&app, "read_file", json!({"file": "notes/a.md"})).await.unwrap_err().to_string();
    assert!(misspelt.contains("path"), "{misspelt}");
}

#[tokio::test]
async fn stored_result_can_be_read_to_its_end() {
    let app = app().await;
    let text = "x".repeat(100_000);
    let path = app.running().daemon.tools().store_output(&workspace(&app), "call_7", &text, true).await.unwrap().path;
    let (mut from, mut read) = (1, String::new());
    loop {
        let page = call(&app, "read_file", json!({"path": path, "first_line": from})).await.unwrap();
        let page = page["text"].as_str().unwrap().to_owned();
        for line in page.lines().filter(|line| !line.starts_with('[')) {
            read.push_str(line.split_once('\t').unwrap().1);
            from += 1;
        }
        if !page.contains("go on with") {
            break;
        }
    }
    assert_eq!(read, text);
}

#[tokio::test]
async fn fetched_page_is_converted_to_text() {
    let app = app().await;
    let server = Server::start(|received| match received.uri.path() {
        "/gone" => (axum::http::StatusCode::NOT_FOUND, "no such page").into_response(),
        "/moved" => (axum::http::StatusCode::FOUND, [("location", "/page")]).into_response(),
        "/away" => (axum::http::StatusCode::FOUND, [("location", "http://[::1]:9/")]).into_response(),
        "/picture" => ([("content-type", "image/png")], [0_u8, 1, 2]).into_response(),
        _ => page("<title>A title</title><script>evil()</script><h1>Head</h1><p>Some <b>text</b>.</p>"),
    })
    .await;
    let refused = call(&app, "http_fetch", json!({"url": server.url("/page")})).await.unwrap_err().to_string();
    assert!(server.requests().is_empty(), "{refused}");
    let allowed = json!({"allowed_hosts": ["127.0.0.1"]});
    app.put("/api/settings/security").json(&allowed).send().await.expect_status(200);
    for path in ["/page", "/moved"] {
        let found = call(&app, "http_fetch", json!({"url": server.url(path)})).await.unwrap();
        assert_eq!((&found["title"], &found["url"]), (&json!("A title"), &json!(server.url("/page"))));
        assert_eq!(found["content_type"], "text/html; charset=utf-8");
        let text = found["text"].as_str().unwrap();
        assert!(text.contains("Head") && text.contains("Some") && !text.contains("evil"), "{text}");
    }
    for (path, why) in [("/gone", "404"), ("/away", ""), ("/picture", "image/png")] {
        let error = call(&app, "http_fetch", json!({"url": server.url(path)})).await.unwrap_err().to_string();
        assert!(error.contains(why), "{path}: {error}");
    }
    for url in ["file:///etc/passwd", "not a url", "http://169.254.169.254/", "ftp://127.0.0.1/"] {
        call(&app, "http_fetch", json!({"url": url})).await.expect_err(url);
    }
}
