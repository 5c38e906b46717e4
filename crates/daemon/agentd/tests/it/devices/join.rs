//! `agentd device`: the machine that joins, as a process of its own.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use agentd_llm::{ToolCall, Vendor};
use agentd_testing_llm::{FakeVendor, Reply, Script};
use serde_json::{Value, json};

use crate::support::process::BINARY;
use crate::support::request::{ServerEvent, token_text};
use crate::support::talk::COUNTED;
use crate::support::{Eventually, TestProcess};

/// The machine, ended with the test.
struct Machine(Option<Child>);

impl Machine {
    fn start(folder: &Path, arguments: &[&str]) -> Self {
        #[allow(clippy::disallowed_methods, reason = "tests start processes")]
        let mut command = Command::new(BINARY);
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.arg("device").args(arguments).arg("--state").arg(folder.join("state"));
        let said = std::fs::OpenOptions::new().create(true).append(true).open(folder.join("said")).expect("a file");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said);
        Self(Some(command.spawn().expect("it starts")))
    }

    async fn ended(mut self) -> Option<i32> {
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

fn said(folder: &Path) -> String {
    let mut text = String::new();
    if let Ok(mut file) = std::fs::File::open(folder.join("said")) {
        file.read_to_string(&mut text).expect("text");
    }
    text
}

async fn devices(process: &TestProcess) -> Vec<Value> {
    let list = process.get("/api/devices").send().await.expect_status(200).json();
    list["devices"].as_array().expect("a list").clone()
}

async fn until_offered(process: &TestProcess, folder: &Path) -> Value {
    until(process, folder, |device| device["tools"] != json!([])).await
}

async fn until(process: &TestProcess, folder: &Path, is_seen: impl Fn(&Value) -> bool) -> Value {
    let mut eventually = Eventually::new();
    loop {
        if let Some(device) = devices(process).await.into_iter().find(&is_seen) {
            return device;
        }
        eventually.look_again_at(&said(folder)).await;
    }
}

async fn exchange(process: &TestProcess) -> Vec<ServerEvent> {
    let message = json!({"content": "Do it.", "agent_id": "scout"});
    process.post("/api/chat/messages/stream").json(&message).stream().await.collect().await
}

async fn make_code(process: &TestProcess) -> String {
    let made = process.post("/api/auth/device/code").send().await.expect_status(201).json();
    made["code"].as_str().expect("a code").to_owned()
}

#[tokio::test]
async fn a_machine_joins_works_comes_back_and_is_removed() {
    let mut process = TestProcess::with_owner().await;
    process.make_agent("scout").await;
    let asked = AtomicUsize::new(0);
    let vendor = FakeVendor::start(
        Vendor::Openai,
        Script::by(move |_| {
            if asked.fetch_add(1, Ordering::SeqCst) % 2 == 1 {
                return Reply::text(["Done."], COUNTED);
            }
            let input = json!({"command": "echo seen >> file\ncat file; exit 3"});
            Reply::tool_calls(vec![ToolCall::new("v0", "device_workshop_shell", input)], COUNTED)
        }),
    )
    .await
    .expect("a vendor");
    let key = json!({"api_key": "k", "base_url": vendor.base_url().as_str()});
    process.put("/api/providers/openai/key").json(&key).send().await.expect_status(200);

    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let url = format!("http://{}", process.address);
    let code = make_code(&process).await;
    let mut protection = vec!["--allow-shell"];
    let join = |protection: &[&str]| {
        let arguments = [&["join", &url, &code, "--name", "workshop"], protection].concat();
        Machine::start(folder, &arguments)
    };
    let mut machine = join(&protection);
    // Where this machine has no sandbox the shell is refused, and the code is as good as before.
    let mut eventually = Eventually::new();
    loop {
        if said(folder).contains("offers no sandbox") {
            assert_eq!(machine.ended().await, Some(1));
            assert!(devices(&process).await.is_empty());
            protection.push("--no-sandbox");
            machine = join(&protection);
            break;
        }
        if !devices(&process).await.is_empty() {
            break;
        }
        eventually.look_again().await;
    }
    let device = until_offered(&process, folder).await;
    assert_eq!(device["tools"][0]["name"], "device_workshop_shell");
    let events = exchange(&process).await;
    let result = &events.iter().find(|event| event.event == "tool_result").expect("a result").data;
    assert_eq!(
        (&result["output"]["stdout"], &result["output"]["exit_code"]),
        (&json!("seen\n"), &json!(3)),
        "{result}"
    );
    assert_eq!(token_text(&events), "Done.");
    assert!(said(folder).contains(r"→ shell: echo seen >> file\ncat file; exit 3"), "{}", said(folder));
    assert!(said(folder).contains("ended with code 3"), "{}", said(folder));
    let token = {
        let kept = std::fs::read_to_string(folder.join("state/device.json")).expect("the state");
        let kept: Value = serde_json::from_str(&kept).expect("JSON");
        kept["token"].as_str().expect("a token").to_owned()
    };
    assert!(!said(folder).contains(&token));

    // The machine goes away and comes back; it needs no new code.
    drop(machine);
    // A socket whose other end was killed is open for a moment more.
    until(&process, folder, |device| device["connected"] == json!(false) && device["tools"] == json!([])).await;
    let machine = Machine::start(folder, &[&["run"], &*protection].concat());
    until_offered(&process, folder).await;
    let events = exchange(&process).await;
    let result = &events.iter().find(|event| event.event == "tool_result").expect("a result").data;
    assert_eq!(result["output"]["stdout"], "seen\nseen\n", "its files are still there");

    process
        .request(reqwest::Method::DELETE, &format!("/api/devices/{}", device["id"].as_str().expect("an id")))
        .send()
        .await
        .expect_status(200);
    assert_eq!(machine.ended().await, Some(1));
    assert!(said(folder).contains("the daemon removed this device"), "{}", said(folder));
    process.kill();
    let log = process.log();
    assert!(!log.contains(&token) && !log.contains(&code), "the log holds no secret");
}

#[tokio::test]
async fn a_wrong_code_and_a_wrong_address_say_so() {
    let process = TestProcess::with_owner().await;
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let url = format!("http://{}", process.address);
    assert_eq!(Machine::start(folder, &["join", &url, "000000"]).ended().await, Some(1));
    assert!(said(folder).contains("The code is wrong"), "{}", said(folder));
    assert_eq!(Machine::start(folder, &["join", "http://127.0.0.1:9", "000000"]).ended().await, Some(1));
    assert!(said(folder).contains("nothing that is a daemon answers"), "{}", said(folder));
    assert_eq!(Machine::start(folder, &["run"]).ended().await, Some(1));
    assert!(said(folder).contains("not paired"), "{}", said(folder));
}
