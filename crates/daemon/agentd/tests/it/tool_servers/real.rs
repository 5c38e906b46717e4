//! Real tool servers from npm and PyPI in the sandbox.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{act, connected, status, until_gone};
use crate::skills::{app, call};
use crate::support::TestApp;

/// Returns the folder of the servers, or `None` with a message if they are not installed.
fn folder() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../.tool-servers");
    if folder.join("stamp").is_file() {
        return folder.canonicalize().ok();
    }
    let is_required = std::env::var_os("AGENTD_REQUIRE_TOOL_SERVERS").is_some();
    assert!(!is_required, "the tool servers are not installed; run `make tool-servers`");
    eprintln!("SKIPPED: the tool servers are not installed; run `make tool-servers`");
    None
}

/// Starts a daemon with the sandbox of this machine, or without one if none is available.
async fn daemon() -> TestApp {
    let app = app().await;
    let state = app.get("/api/sandbox/config").send().await.expect_status(200).json();
    if state["in_force"]["tier"].is_null() {
        app.put("/api/sandbox/config").json(&json!({"backend": "none"})).send().await.expect_status(200);
    }
    app
}

fn node(folder: &Path, name: &str, package: &str, arguments: &[&str]) -> Value {
    let script = folder.join("node_modules").join(package).join("dist/index.js").display().to_string();
    let mut args = vec![script.as_str()];
    args.extend(arguments);
    json!({"name": name, "transport": "stdio", "command": "node", "args": args, "readable_paths": [folder]})
}

#[tokio::test]
async fn everything_server_echoes_a_message() {
    let Some(folder) = folder() else { return };
    let app = daemon().await;
    let id = connected(&app, &node(&folder, "Everything", "@modelcontextprotocol/server-everything", &[])).await;
    let found = act(&app, &id, "discover").await;
    assert!(found["total"].as_u64().unwrap() >= 6 && found["left_out"] == json!([]), "{found}");
    let echo = call(&app, "everything_echo", json!({"message": "hello"})).await.unwrap();
    assert!(echo["text"].as_str().unwrap().contains("hello"), "{echo}");
    let state = status(&app, &id).await;
    assert_eq!(state["server"]["protocol_version"], "2025-11-25");
    assert!(state["stderr_tail"].as_str().unwrap().contains("STDIO"), "{state}");
    act(&app, &id, "disconnect").await;
    until_gone(&["server-everything", &app.data_dir().display().to_string()]).await;
}

#[tokio::test]
async fn filesystem_server_is_restricted_to_its_folder() {
    let Some(folder) = folder() else { return };
    let app = daemon().await;
    let opened = tempfile::tempdir().unwrap();
    let root = opened.path().canonicalize().unwrap();
    let mut fields = node(&folder, "files", "@modelcontextprotocol/server-filesystem", &[root.to_str().unwrap()]);
    fields["writable_paths"] = json!([root]);
    fields["trusted"] = json!(true);
    let id = connected(&app, &fields).await;
    let path = root.join("note.txt");
    call(&app, "files_write_file", json!({"path": path, "content": "kept"})).await.unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "kept");
    let read = call(&app, "files_read_text_file", json!({"path": path})).await.unwrap();
    assert!(read.to_string().contains("kept"), "{read}");
    call(&app, "files_read_text_file", json!({"path": "/etc/passwd"})).await.unwrap_err();
    let reading = crate::skills::offer(&app).await.reading_only();
    assert!(reading.find("files_read_text_file").is_some() && reading.find("files_write_file").is_none());
    act(&app, &id, "disconnect").await;
}

#[tokio::test]
async fn memory_server_stores_data_in_its_home() {
    let Some(folder) = folder() else { return };
    let mut app = daemon().await;
    let mut fields = node(&folder, "memory", "@modelcontextprotocol/server-memory", &[]);
    // The home is the working directory and is retained.
    fields["env"] = json!({"MEMORY_FILE_PATH": "/nowhere"});
    let made = app.post(super::SERVERS).json(&with_enabled(fields, false)).send().await.expect_status(201).json();
    let id = made["id"].as_str().unwrap();
    let home = app.data_dir().canonicalize().unwrap().join("tool-servers").join(id);
    let change = json!({"env": {"MEMORY_FILE_PATH": home.join("graph.jsonl")}, "enabled": true});
    app.put(&format!("{}/{id}", super::SERVERS)).json(&change).send().await.expect_status(200);
    act(&app, id, "connect").await;
    let entity = json!({"name": "Ada", "entityType": "person", "observations": ["likes engines"]});
    call(&app, "memory_create_entities", json!({"entities": [entity]})).await.unwrap();
    app.restart().await;
    let found = call(&app, "memory_search_nodes", json!({"query": "engines"})).await.unwrap();
    assert!(found.to_string().contains("Ada"), "{found}");
}

fn with_enabled(mut fields: Value, enabled: bool) -> Value {
    fields["enabled"] = json!(enabled);
    fields
}

#[tokio::test]
async fn time_server_works_with_current_and_2024_protocols() {
    let Some(folder) = folder() else { return };
    let app = daemon().await;
    for (name, environment, version) in [("now", "python", "2025-11-25"), ("then", "python-older", "2024-11-05")] {
        let program = folder.join(environment).join("bin/mcp-server-time");
        // The interpreter may be in another folder than the environment.
        let interpreter = folder.join(environment).join("bin/python").canonicalize().unwrap();
        let installation = interpreter.parent().and_then(Path::parent).unwrap();
        let mut readable = vec![folder.clone()];
        if !installation.starts_with("/usr") {
            readable.push(installation.to_path_buf());
        }
        let fields = json!({"name": name, "transport": "stdio", "command": program, "readable_paths": readable});
        let id = connected(&app, &fields).await;
        assert_eq!(status(&app, &id).await["server"]["protocol_version"], version);
        let input = json!({"source_timezone": "Europe/Berlin", "time": "12:00", "target_timezone": "Asia/Tokyo"});
        let converted = call(&app, &format!("{name}_convert_time"), input).await.unwrap();
        assert!(converted.to_string().contains("Asia/Tokyo"), "{converted}");
    }
}
