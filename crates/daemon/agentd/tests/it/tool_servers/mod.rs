//! `/api/settings/skills/mcp` and server tools as an agent receives them. Uses misbehaving fake servers, and real
//! ones if
//! `make tool-servers` has installed them.

#![allow(
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a test that is skipped says so, and one prints a figure"
)]

mod catalog;
mod hostile;
mod life;
mod real;
mod registering;
mod web;

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::{Eventually, TestApp};

const SERVERS: &str = "/api/settings/skills/mcp";

/// Returns the folder of the fake server.
fn fake_folder() -> String {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it/tool_servers");
    folder.display().to_string()
}

/// Returns the registration fields of the fake server.
fn fake(mode: &str) -> Value {
    let folder = fake_folder();
    json!({
        "name": "fake",
        "transport": "stdio",
        "command": "/usr/bin/python3",
        "args": [format!("{folder}/fake_server.py"), mode],
        "readable_paths": [folder],
    })
}

fn with(mut fields: Value, more: Value) -> Value {
    for (name, value) in more.as_object().expect("fields") {
        fields[name] = value.clone();
    }
    fields
}

async fn register(app: &TestApp, fields: &Value) -> String {
    let made = app.post(SERVERS).json(fields).send().await.expect_status(201).json();
    made["id"].as_str().expect("an id").to_owned()
}

/// Registers a server and waits until it is connected.
async fn connected(app: &TestApp, fields: &Value) -> String {
    let id = register(app, fields).await;
    let server = act(app, &id, "connect").await;
    assert_eq!(server["status"], "connected", "{server}");
    id
}

async fn act(app: &TestApp, id: &str, action: &str) -> Value {
    app.post(&format!("{SERVERS}/{id}/{action}")).send().await.expect_status(200).json()
}

async fn status(app: &TestApp, id: &str) -> Value {
    app.get(&format!("{SERVERS}/{id}/status")).send().await.expect_status(200).json()
}

/// Waits until the status satisfies the condition.
async fn wait_for_status(app: &TestApp, id: &str, what: &str, condition: impl Fn(&Value) -> bool) -> Value {
    let mut eventually = Eventually::new();
    loop {
        let current = status(app, id).await;
        if condition(&current) {
            return current;
        }
        eventually.retry_with(&(what, &current)).await;
    }
}

/// Returns the processes whose command line contains all parts.
fn processes(parts: &[&str]) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").expect("/proc").filter_map(Result::ok);
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    ids.filter(|id| {
        let line = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        parts.iter().all(|part| line.contains(part))
    })
    .collect()
}

/// Waits until no matching process exists.
async fn until_gone(parts: &[&str]) {
    let mut eventually = Eventually::new();
    loop {
        if processes(parts).is_empty() {
            return;
        }
        eventually.retry().await;
    }
}

/// Waits until a process has ended. Without an init process it may remain a zombie.
async fn until_ended(id: u64) {
    let mut eventually = Eventually::new();
    loop {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        let state = stat.rsplit_once(") ").map(|(_, rest)| rest.chars().next());
        if matches!(state, None | Some(Some('Z' | 'X'))) {
            return;
        }
        eventually.retry().await;
    }
}
