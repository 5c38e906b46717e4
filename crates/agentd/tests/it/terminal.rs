//! What a person's terminal is sent.

#![allow(clippy::disallowed_methods, reason = "tests start processes")]

use std::process::Command;

use agentd_llm::Vendor;
use agentd_llm::fake::{FakeVendor, Reply, Script};
use serde_json::json;

use crate::support::TestProcess;
use crate::support::process::BINARY;
use crate::support::talk::COUNTED;

/// Runs the binary with a terminal of its own; what that is sent.
async fn on_a_terminal(process: &TestProcess, arguments: &str) -> String {
    let plain = process.command();
    let mut command = Command::new("script");
    command.env_clear().envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.env("NO_COLOR", "1").env("TERM", "xterm");
    command.args(["-qec", &format!("{BINARY} {arguments}"), "/dev/null"]).stdin(std::process::Stdio::null());
    let output = tokio::task::spawn_blocking(move || command.output().expect("it runs")).await.expect("it ends");
    let shown = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success(), "{shown:?}");
    shown
}

#[tokio::test]
async fn a_model_cannot_command_the_terminal() {
    let process = TestProcess::with_owner().await;
    process.make_agent("ada").await;
    let pieces = ["a\u{1b}", "]52;c;ZXZpbA==\u{7}b\u{9b}2J", "\rc\u{8}\n\td"];
    let script = Script::always(Reply::text(pieces, COUNTED));
    let vendor = FakeVendor::start_forgetful(Vendor::Openai, script).await.expect("a fake vendor");
    let key = json!({"api_key": "k", "base_url": vendor.base_url().as_str()});
    process.put("/api/providers/openai/key").json(&key).send().await.expect_status(200);
    let settings = json!({"default_provider": "openai", "default_model": "fake"});
    process.put("/api/settings/agent").json(&settings).send().await.expect_status(200);
    let shown = on_a_terminal(&process, "chat --agent ada Hi").await;
    assert!(shown.contains("a]52;c;ZXZpbA==b2Jc\r\n\td"), "{shown:?}");
    assert!(!shown.contains(['\u{1b}', '\u{7}', '\u{8}', '\u{9b}']), "{shown:?}");
}
