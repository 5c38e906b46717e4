//! `agentd device`: a machine that joins, as a separate process.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use agentd_llm::{ToolCall, Vendor};
use agentd_testing_llm::{FakeVendor, Reply, Script};
use serde_json::{Value, json};

use crate::support::chat_fixture::TEST_USAGE;
use crate::support::process::BINARY;
use crate::support::request::{ServerEvent, token_text};
use crate::support::{Eventually, TestProcess};

/// Process of the machine, killed when dropped.
struct Machine(Option<Child>);

impl Machine {
    fn start(folder: &Path, arguments: &[&str]) -> Self {
        #[allow(clippy::disallowed_methods, reason = "tests start processes")]
        let mut command = Command::new(BINARY);
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.arg("device").args(arguments).arg("--state").arg(folder.join("state"));
        let output =
            std::fs::OpenOptions::new().create(true).append(true).open(folder.join("output.log")).expect("a file");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(output);
        Self(Some(command.spawn().expect("the machine starts")))
    }

    async fn exit_code(mut self) -> Option<i32> {
        let mut child = self.0.take().expect("a process");
        tokio::task::spawn_blocking(move || child.wait().expect("reaped").code()).await.expect("waited")
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn output(folder: &Path) -> String {
    let mut text = String::new();
    if let Ok(mut file) = std::fs::File::open(folder.join("output.log")) {
        file.read_to_string(&mut text).expect("text");
    }
    text
}

async fn devices(process: &TestProcess) -> Vec<Value> {
    let list = process.get("/api/devices").send().await.expect_status(200).json();
    list["devices"].as_array().expect("a list").clone()
}

async fn wait_for_tools(process: &TestProcess, folder: &Path) -> Value {
    wait_for_device(process, folder, |device| device["tools"] != json!([])).await
}

async fn wait_for_device(process: &TestProcess, folder: &Path, is_seen: impl Fn(&Value) -> bool) -> Value {
    let mut eventually = Eventually::new();
    loop {
        if let Some(device) = devices(process).await.into_iter().find(&is_seen) {
            return device;
        }
        eventually.retry_with(&output(folder)).await;
    }
}

async fn exchange(process: &TestProcess) -> Vec<ServerEvent> {
    let message = json!({"content": "Do it.", "agent_id": "scout"});
    process.post("/api/chat/messages/stream").json(&message).stream().await.collect().await
}

async fn create_code(process: &TestProcess) -> String {
    let made = process.post("/api/auth/device/code").send().await.expect_status(201).json();
    made["code"].as_str().expect("a code").to_owned()
}

#[tokio::test]
async fn machine_joins_works_reconnects_and_is_removed() {
    let mut process = TestProcess::with_owner().await;
    process.create_agent("scout").await;
    let request_count = AtomicUsize::new(0);
    let vendor = FakeVendor::start(
        Vendor::Openai,
        Script::by(move |_| {
            if request_count.fetch_add(1, Ordering::SeqCst) % 2 == 1 {
                return Reply::text(["Done."], TEST_USAGE);
            }
            let input = json!({"command": "echo seen >> file\ncat file; exit 3"});
            Reply::tool_calls(vec![ToolCall::new("v0", "device_workshop_shell", input)], TEST_USAGE)
        }),
    )
    .await
    .expect("a vendor");
    let key = json!({"api_key": "k", "base_url": vendor.base_url().as_str()});
    process.put("/api/providers/openai/key").json(&key).send().await.expect_status(200);

    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let url = format!("http://{}", process.address);
    let code = create_code(&process).await;
    let mut protection = vec!["--allow-shell"];
    let join = |protection: &[&str]| {
        let arguments = [&["join", &url, &code, "--name", "workshop"], protection].concat();
        Machine::start(folder, &arguments)
    };
    let mut machine = join(&protection);
    // Without a sandbox the shell is refused, and the code remains valid.
    let mut eventually = Eventually::new();
    loop {
        if output(folder).contains("no sandbox is available") {
            assert_eq!(machine.exit_code().await, Some(1));
            assert!(devices(&process).await.is_empty());
            protection.push("--no-sandbox");
            machine = join(&protection);
            break;
        }
        if !devices(&process).await.is_empty() {
            break;
        }
        eventually.retry().await;
    }
    let device = wait_for_tools(&process, folder).await;
    assert_eq!(device["tools"][0]["name"], "device_workshop_shell");
    let events = exchange(&process).await;
    let result = &events.iter().find(|event| event.event == "tool_result").expect("a result").data;
    assert_eq!(
        (&result["output"]["stdout"], &result["output"]["exit_code"]),
        (&json!("seen\n"), &json!(3)),
        "{result}"
    );
    assert_eq!(token_text(&events), "Done.");
    assert!(output(folder).contains(r"→ shell: echo seen >> file\ncat file; exit 3"), "{}", output(folder));
    assert!(output(folder).contains("exited with code 3"), "{}", output(folder));
    let token = {
        let state = std::fs::read_to_string(folder.join("state/device.json")).expect("the state");
        let state: Value = serde_json::from_str(&state).expect("JSON");
        state["token"].as_str().expect("a token").to_owned()
    };
    assert!(!output(folder).contains(&token));

    // The machine disconnects and reconnects without a new code.
    drop(machine);
    // The daemon notices the closed socket with a delay.
    wait_for_device(&process, folder, |device| device["connected"] == json!(false) && device["tools"] == json!([]))
        .await;
    let machine = Machine::start(folder, &[&["run"], &*protection].concat());
    wait_for_tools(&process, folder).await;
    let events = exchange(&process).await;
    let result = &events.iter().find(|event| event.event == "tool_result").expect("a result").data;
    assert_eq!(result["output"]["stdout"], "seen\nseen\n", "the files are retained");

    process
        .request(reqwest::Method::DELETE, &format!("/api/devices/{}", device["id"].as_str().expect("an id")))
        .send()
        .await
        .expect_status(200);
    assert_eq!(machine.exit_code().await, Some(1));
    assert!(output(folder).contains("the daemon removed this device"), "{}", output(folder));
    process.kill();
    let log = process.log();
    assert!(!log.contains(&token) && !log.contains(&code), "the log contains no secret");
}

#[tokio::test]
async fn wrong_code_and_wrong_address_are_reported() {
    let process = TestProcess::with_owner().await;
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let url = format!("http://{}", process.address);
    assert_eq!(Machine::start(folder, &["join", &url, "000000"]).exit_code().await, Some(1));
    assert!(output(folder).contains("the pairing code is wrong"), "{}", output(folder));
    assert_eq!(Machine::start(folder, &["join", "http://127.0.0.1:9", "000000"]).exit_code().await, Some(1));
    assert!(output(folder).contains("no daemon responds at"), "{}", output(folder));
    assert_eq!(Machine::start(folder, &["run"]).exit_code().await, Some(1));
    assert!(output(folder).contains("not paired"), "{}", output(folder));
}
