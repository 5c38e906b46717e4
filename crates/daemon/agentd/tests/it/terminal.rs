//! Output on a user's terminal.

#![allow(clippy::disallowed_methods, reason = "tests start processes")]

use std::io::Write;
use std::process::{Command, Stdio};

use agentd_llm::Vendor;
use agentd_testing_llm::{FakeVendor, Reply, Script};
use serde_json::json;

use crate::cli::agentd;
use crate::support::TestProcess;
use crate::support::chat_fixture::TEST_USAGE;
use crate::support::process::BINARY;

/// Runs the binary on a pseudo terminal with typed input; returns whether it succeeded and its output.
async fn on_a_terminal(process: &TestProcess, arguments: &str, typed: &'static str) -> (bool, String) {
    let plain = process.command();
    let mut command = Command::new("script");
    command.env_clear().envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.env("NO_COLOR", "1").env("TERM", "xterm");
    command.args(["-qec", &format!("{BINARY} {arguments}"), "/dev/null"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let run = move || {
        let mut child = command.spawn().expect("start the process");
        child.stdin.take().expect("a pipe").write_all(typed.as_bytes()).expect("write the input");
        child.wait_with_output().expect("wait for the process")
    };
    let output = tokio::task::spawn_blocking(run).await.expect("join the task");
    (output.status.success(), String::from_utf8(output.stdout).expect("text"))
}

#[tokio::test]
async fn model_output_cannot_control_the_terminal() {
    let process = TestProcess::with_owner().await;
    process.create_agent("ada").await;
    let pieces = ["a\u{1b}", "]52;c;ZXZpbA==\u{7}b\u{9b}2J", "\rc\u{8}\n\td", "\u{1b}[31m"];
    let script = Script::always(Reply::text(pieces, TEST_USAGE));
    let vendor = FakeVendor::start_without_recording(Vendor::Openai, script).await.expect("a fake vendor");
    let key = json!({"api_key": "k", "base_url": vendor.base_url().as_str()});
    process.put("/api/providers/openai/key").json(&key).send().await.expect_status(200);
    let settings = json!({"default_provider": "openai", "default_model": "fake"});
    process.put("/api/settings/agent").json(&settings).send().await.expect_status(200);
    let (is_success, shown) = on_a_terminal(&process, "chat --agent ada Hi", "").await;
    assert!(is_success, "{shown:?}");
    assert!(shown.contains("a\\u{1b}]52;c;ZXZpbA==\\u{7}b\\u{9b}2J\\u{d}c\\u{8}\r\n\td\\u{1b}[31m"), "{shown:?}");
    assert!(!shown.contains(['\u{1b}', '\u{7}', '\u{8}', '\u{9b}']), "{shown:?}");
    // Output to a pipe is escaped as well.
    let piped = agentd(&process, &["chat", "--agent", "ada", "Hi"]).await.success();
    let escaped = "a\\u{1b}]52;c;ZXZpbA==\\u{7}b\\u{9b}2J\\u{d}c\\u{8}\n\td\\u{1b}[31m\n";
    assert_eq!(String::from_utf8_lossy(&piped.stdout), escaped);
    assert!(!piped.stderr.contains('\u{1b}'), "{:?}", piped.stderr);
}

#[tokio::test]
async fn daemon_error_in_a_pipe_contains_no_escape_sequences() {
    let process = TestProcess::with_owner().await;
    let refused = agentd(&process, &["chat", "--agent", "x\u{1b}]52;c;ZXZpbA==\u{7}\u{9b}2Jy", "Hi"]).await.failure();
    assert!(refused.stderr.contains("x\\u{1b}]52;c;ZXZpbA==\\u{7}\\u{9b}2Jy"), "{:?}", refused.stderr);
    assert!(
        !refused.stderr.contains(|character: char| character.is_control() && character != '\n'),
        "{:?}",
        refused.stderr
    );
}

#[tokio::test]
async fn restore_asks_for_confirmation() {
    let process = TestProcess::with_owner().await;
    process.create_agent("ada").await;
    let archive = process.folder().join("backup.tar.gz").display().to_string();
    let made = on_a_terminal(&process, &format!("backup {archive}"), "").await;
    assert!(made.0, "{made:?}");
    process.create_agent("bob").await;
    let (is_success, shown) = on_a_terminal(&process, &format!("restore {archive}"), "no\n").await;
    assert!(!is_success && shown.contains("Type yes") && shown.contains("nothing was changed"), "{shown:?}");
    process.get("/api/agents/bob").send().await.expect_status(200);
    let (is_success, shown) = on_a_terminal(&process, &format!("restore {archive}"), "yes\n").await;
    assert!(is_success, "{shown:?}");
    process.get("/api/agents/ada").send().await.expect_status(200);
    process.get("/api/agents/bob").send().await.expect_status(404);
}
