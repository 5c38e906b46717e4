//! Access of the daemon to files left by code, on a daemon that does not run as root, with a vendor that calls the
//! tools
//! named by the test.

mod closed;
mod round_trip;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use agentd_llm::{ToolCall, Vendor};
use agentd_testing_llm::{FakeVendor, Reply, Script};
use serde_json::{Value, json};

use crate::support::chat_fixture::TEST_USAGE;
use crate::support::{Eventually, TestProcess};

struct Bench {
    process: TestProcess,
    _vendor: FakeVendor,
}

impl Bench {
    /// Starts a daemon with the agent `scout`.
    async fn new() -> Self {
        let process = TestProcess::unprivileged().await;
        let vendor =
            FakeVendor::start(Vendor::Openai, Script::by(|request| reply(&request.body))).await.expect("a fake vendor");
        let key = json!({"api_key": "k", "base_url": vendor.base_url().as_str()});
        process.put("/api/providers/openai/key").json(&key).send().await.expect_status(200);
        let settings = json!({"default_provider": "openai", "default_model": "fake"});
        process.put("/api/settings/agent").json(&settings).send().await.expect_status(200);
        let config = process.get("/api/sandbox/config").send().await.expect_status(200).json();
        if config["in_force"]["tier"].is_null() {
            process.put("/api/sandbox/config").json(&json!({"backend": "none"})).send().await.expect_status(200);
        }
        process.create_agent("scout").await;
        Self { process, _vendor: vendor }
    }

    fn workspace(&self) -> PathBuf {
        self.process.data_dir().join("agents/scout")
    }

    /// Returns the output of a tool.
    async fn call(&self, tool: &str, input: Value) -> Value {
        let content = json!({"tool": tool, "input": input}).to_string();
        let message = json!({"agent_id": "scout", "content": content});
        let events = self.process.post("/api/chat/messages/stream").json(&message).stream().await.collect().await;
        let result = events.iter().find(|event| event.event == "tool_result");
        result.unwrap_or_else(|| panic!("{tool} was not called: {events:?}")).data["output"].clone()
    }

    async fn shell(&self, command: &str) -> Value {
        let done = self.call("shell", json!({"command": command})).await;
        assert_eq!(done["exit_code"], 0, "{command}: {done}");
        done["stdout"].clone()
    }
}

/// Returns the tool call in the message of the user, or a final answer.
fn reply(body: &Value) -> Reply {
    let last = body["messages"].as_array().and_then(|messages| messages.last());
    let content = last.filter(|message| message["role"] == "user").and_then(|message| message["content"].as_str());
    let wanted = content.and_then(|content| serde_json::from_str::<Value>(content).ok());
    match wanted {
        Some(wanted) => {
            let tool = wanted["tool"].as_str().unwrap_or_default();
            Reply::tool_calls(vec![ToolCall::new("v0", tool, wanted["input"].clone())], TEST_USAGE)
        }
        None => Reply::text(["Done."], TEST_USAGE),
    }
}

fn close(path: &Path) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o000)).expect("remove the permissions");
}

/// Waits until the condition is true.
async fn wait_until(condition: impl Fn() -> bool) {
    let mut eventually = Eventually::new();
    while !condition() {
        eventually.retry().await;
    }
}
