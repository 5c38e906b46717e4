//! Attachments of messages, stored in the workspace of the agent.

use std::path::Path;

use agentd_llm::Vendor;
use agentd_testing_chat_platforms::FakeFile;
use agentd_testing_llm::{FakeVendor, Reply, Script};
use serde_json::{Value, json};

use super::{ADA, Channel, SECRET, TOKEN, UNKNOWN_SENDER};
use crate::support::chat_fixture::TEST_USAGE;
use crate::support::{Eventually, TestProcess};

fn hello() -> FakeFile {
    FakeFile::Bytes("hello".into())
}

async fn channel(attachments: bool) -> Channel {
    let channel = Channel::with(Script::always(Reply::text(["I see."], TEST_USAGE))).await;
    channel.set(json!({"attachments": attachments})).await;
    channel.telegram.put_file("f1", hello());
    channel
}

/// Lists the files below a folder by their relative paths.
fn files(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if entry.file_type().unwrap().is_dir() {
            found.extend(files(&entry.path()).into_iter().map(|inner| format!("{name}/{inner}")));
        } else {
            found.push(name);
        }
    }
    found.sort();
    found
}

impl Channel {
    fn files(&self) -> Vec<String> {
        files(&self.app().data_dir().join("agents/scout/attachments"))
    }

    fn file_requests(&self) -> usize {
        let requests = self.telegram.requests();
        requests.iter().filter(|request| request.path == "getFile" || request.path.starts_with("file/")).count()
    }

    async fn send_file(&self, id: i64, sender: i64, file: &str, name: &str) {
        self.post(&self.telegram.document(id, sender, "Read it.", file, name)).await.expect_status(200);
        self.settle().await;
    }
}

#[tokio::test]
async fn attachment_is_in_the_workspace_before_the_turn_begins() {
    let channel = channel(true).await;
    channel.send_file(1, ADA, "f1", "../Plan <1>.pdf").await;
    let files = channel.files();
    assert_eq!(files.len(), 1, "{files:?}");
    assert!(files[0].ends_with("/_Plan _1_.pdf"), "{files:?}");
    let path = format!("attachments/{}", files[0]);
    let day = channel.app().clock.clock().now().to_string();
    assert!(path.starts_with(&format!("attachments/{}-", &day[..10])), "{path}");
    let prompt = channel.model_requests().pop().unwrap();
    assert!(prompt.contains(&format!("in your workspace at `{path}`")), "{prompt}");
    let written = std::fs::read(channel.app().data_dir().join("agents/scout").join(path)).unwrap();
    assert_eq!(written, b"hello");
    assert_eq!(channel.sent(), ["I see."]);
}

#[tokio::test]
async fn attachments_are_not_fetched_if_disabled_or_for_unknown_senders() {
    let channel = channel(false).await;
    channel.send_file(1, ADA, "f1", "plan.pdf").await;
    channel.set(json!({"attachments": true, "sender_policy": "open"})).await;
    channel.send_file(2, UNKNOWN_SENDER, "f1", "plan.pdf").await;
    assert_eq!((channel.sent().len(), channel.file_requests(), channel.files().len()), (2, 0, 0));
    let placeholder = r#"a file that cannot be opened here: \"plan.pdf\""#;
    let prompts = channel.model_requests();
    assert!(prompts.iter().filter(|prompt| prompt.contains(placeholder)).count() >= 2, "{prompts:#?}");
    let sql = "SELECT data FROM outbox WHERE event_type = 'channel.message.received' LIMIT 1";
    let mut read = channel.app().running().context().db.read().await.unwrap();
    let event: String = read.fetch_one(sql, agentd_store::args![]).await.unwrap().get("data").unwrap();
    assert!(event.contains("plan.pdf") && !event.contains("f1"), "events do not contain file ids: {event}");
}

#[tokio::test]
async fn unavailable_attachment_is_named_with_its_reason() {
    let channel = channel(true).await;
    channel.telegram.put_file("long", FakeFile::Unannounced((20 << 20) + 1));
    channel.telegram.put_file("moved", FakeFile::Redirect("http://127.0.0.1:1/x".parse().unwrap()));
    let cases = [("gone", "invalid file_id"), ("long", "the file exceeds 20 MiB"), ("moved", "must not access")];
    for (id, (file, reason)) in (1..).zip(cases) {
        channel.send_file(id, ADA, file, "plan.pdf").await;
        let prompt = channel.model_requests().pop().unwrap();
        assert!(
            prompt.contains(r#"a file that could not be fetched: \"plan.pdf\""#) && prompt.contains(reason),
            "{prompt}"
        );
    }
    assert_eq!(channel.files(), [""; 0], "no partial files remain");
    assert_eq!(channel.sent().len(), 3);
}

#[tokio::test]
async fn full_workspace_accepts_no_attachment() {
    let channel = channel(true).await;
    let limits = json!({"workspace_max_files": 1000, "workspace_limit_mb": 16});
    channel.app().put("/api/sandbox/config").json(&limits).send().await.expect_status(200);
    channel.telegram.put_file("f2", FakeFile::Unannounced(17 << 20));
    channel.send_file(1, ADA, "f2", "plan.pdf").await;
    let prompt = channel.model_requests().pop().unwrap();
    assert!(prompt.contains("workspace_limit_mb"), "{prompt}");
    assert_eq!(channel.files(), [""; 0]);
}

#[tokio::test]
async fn attachment_does_not_follow_a_link_out_of_the_workspace() {
    let channel = channel(true).await;
    channel.say(1, ADA, "Hello.").await;
    let outside = tempfile::tempdir().unwrap();
    let workspace = channel.app().data_dir().join("agents/scout");
    std::os::unix::fs::symlink(outside.path(), workspace.join("attachments")).unwrap();
    channel.send_file(2, ADA, "f1", "plan.pdf").await;
    assert_eq!(files(outside.path()), [""; 0]);
    let prompt = channel.model_requests().pop().unwrap();
    assert!(prompt.contains("symbolic link"), "{prompt}");
}

async fn is_answered(process: &TestProcess) -> bool {
    let all = process.get("/api/notifications?status=sent").send().await.expect_status(200).json();
    all["total"] != json!(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_leaves_no_duplicate_or_partial_attachments() {
    let vendor = FakeVendor::start(Vendor::Openai, Script::always(Reply::text(["I see."], TEST_USAGE))).await.unwrap();
    let telegram = agentd_testing_chat_platforms::telegram::FakeTelegram::start(TOKEN, SECRET).await.unwrap();
    let mut process = TestProcess::with_owner().await;
    let key = json!({"api_key": "k", "base_url": vendor.base_url().as_str()});
    process.put("/api/providers/openai/key").json(&key).send().await.expect_status(200);
    let settings = json!({"default_provider": "openai", "default_model": "fake"});
    process.put("/api/settings/agent").json(&settings).send().await.expect_status(200);
    let agent = json!({"svc_name": "scout", "user_name": "Ada", "archetype": "assistant"});
    process.post("/api/agents").json(&agent).send().await.expect_status(201);
    let settings: Value = json!({"telegram": {
        "enabled": true, "agent_id": "scout", "api_base_url": telegram.base_url().as_str(), "bot_token": TOKEN,
        "secret_token": SECRET, "allowed_senders": [ADA.to_string()], "attachments": true,
    }});
    process.put("/api/channels/settings").json(&settings).send().await.expect_status(200);
    telegram.put_file("f1", hello());
    telegram.put_file("f2", FakeFile::Hang);
    let mut update: Value =
        serde_json::from_slice(&telegram.document(1, ADA, "Read them.", "f2", "b.txt").body).unwrap();
    update["message"]["audio"] = json!({"file_id": "f1", "file_name": "a.mp3", "mime_type": "audio/mpeg"});
    let request = telegram.request(&update);
    let hook = process.post("/api/channels/telegram/webhook").anonymous();
    let hook = hook.header("x-telegram-bot-api-secret-token", SECRET);
    hook.body("application/json", request.body.to_vec()).send().await.expect_status(200);
    let folder = process.data_dir().join("agents/scout/attachments");
    let mut eventually = Eventually::new();
    // The audio file is fetched before the document.
    let has = |part: &str| files(&folder).iter().any(|file| file.contains(part));
    while !(has("a.mp3") && has(".agentd-")) {
        eventually.retry().await;
    }
    process.kill();
    telegram.put_file("f2", hello());
    process.spawn().await;
    let mut eventually = Eventually::new();
    while !is_answered(&process).await {
        eventually.retry().await;
    }
    let names: Vec<String> = files(&folder).iter().map(|file| file.split_once('/').unwrap().1.to_owned()).collect();
    assert_eq!(names, ["a.mp3", "b.txt"]);
    let fetched = |path: &str| telegram.requests().iter().filter(|request| request.path == path).count();
    assert_eq!((fetched("file/documents/f1"), fetched("file/documents/f2")), (1, 2));
    assert_eq!(telegram.sent().len(), 1);
}
