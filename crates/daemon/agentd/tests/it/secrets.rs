//! No secret that passes through the daemon is written to its files or to its trace log.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use agentd_llm::Vendor;
use agentd_testing_llm::{DocumentedFailure, FakeVendor, Reply, Script};
use serde_json::json;

use crate::support::TestProcess;
use crate::support::smtp::{Behaviour, PASSWORD as MAIL_PASSWORD, SmtpServer, USERNAME};

const PASSWORD: &str = "correct horse";
const CHANNEL_TOKEN: &str = "xoxb-8d7c6b5a49382716";
const PROVIDER_KEY: &str = "sk-proj-9f8e7d6c5b4a39281706f5e4d3c2b1a0";

fn files(folder: &Path, found: &mut Vec<(String, Vec<u8>)>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let entry = entry.expect("an entry");
        // Links belong to the sandbox and lead to system files.
        let (path, kind) = (entry.path(), entry.file_type().expect("a kind"));
        if kind.is_dir() {
            files(&path, found);
        } else if kind.is_file()
            && let Ok(bytes) = std::fs::read(&path)
        {
            found.push((path.display().to_string(), bytes));
        }
    }
}

fn contains(bytes: &[u8], needle: &str) -> bool {
    let finder = needle.as_bytes();
    bytes.windows(finder.len()).any(|window| window == finder)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_secret_is_written_to_files_or_the_log() {
    let mut process = TestProcess::with_owner().await;
    let refusing = FakeVendor::start(Vendor::Anthropic, Script::always(Reply::failure(DocumentedFailure::WrongKey)));
    let refusing = refusing.await.expect("a fake vendor");
    let mut secrets = vec![process.key.clone(), PASSWORD.to_owned(), PROVIDER_KEY.to_owned()];

    let login = json!({"username": "owner", "password": PASSWORD});
    let session = process.post("/api/auth/login").json(&login).send().await.expect_status(200).json();
    let session = session["token"].as_str().expect("a token").to_owned();
    let ticket = process.post("/api/auth/ticket").bearer(&session).send().await.expect_status(200).json();
    secrets.push(ticket["ticket"].as_str().expect("a ticket").to_owned());
    let streamed = process.get(&format!("/api/chat/sessions/sess_0/stream?ticket={}", secrets[3])).anonymous();
    streamed.send().await.expect_status(404);
    let second = process.post("/api/auth/keys").json(&json!({"name": "second"})).send().await.expect_status(200).json();
    let path = format!("/api/auth/keys/{}/rotate", second["id"].as_str().expect("an id"));
    let rotated = process.post(&path).header("idempotency-key", "once").send().await.expect_status(200).json();
    secrets.extend([&second["key"], &rotated["key"]].map(|key| key.as_str().expect("a key").to_owned()));
    secrets.push(session);

    // Wrong credentials must not be stored either, because they often resemble the right ones.
    let wrong = json!({"username": "owner", "password": "wrong horse battery"});
    process.post("/api/auth/login").json(&wrong).send().await.expect_status(401);
    secrets.push("wrong horse battery".to_owned());
    let unknown = format!("svc_{}", "5a".repeat(32));
    process.get("/api/agents").bearer(&unknown).send().await.expect_status(401);
    process.get(&format!("/api/agents?token={unknown}")).send().await.expect_status(200);
    secrets.push(unknown);

    let tool = json!({"name": "api", "description": "For tests.", "kind": "http", "request": {"method": "GET",
        "url": "http://127.0.0.1:9/", "secret_headers": {"authorization": "Bearer tool-secret-0123"}}});
    process.post("/api/settings/skills/custom").json(&tool).send().await.expect_status(201);
    secrets.push("tool-secret-0123".to_owned());
    let provider = json!({"api_key": PROVIDER_KEY, "base_url": refusing.base_url().as_str()});
    process.put("/api/providers/anthropic/key").json(&provider).send().await.expect_status(200);
    process.post("/api/providers/anthropic/test").send().await.expect_status(200);
    let server = SmtpServer::plain().await;
    server.then([Behaviour::EchoLogin]);
    let email = json!({
        "enabled": true, "smtp_host": "127.0.0.1", "smtp_port": server.address.port(), "tls": "none",
        "username": USERNAME, "password": MAIL_PASSWORD, "from_address": "agentd@example.org",
    });
    process.put("/api/settings/email").json(&email).send().await.expect_status(200);
    for status in [502, 200] {
        let sent = process.post("/api/settings/email/test").json(&json!({"to": "ada@example.net"})).send().await;
        sent.expect_status(status);
    }
    secrets.extend([MAIL_PASSWORD.to_owned(), STANDARD.encode(format!("\0{USERNAME}\0{MAIL_PASSWORD}"))]);
    let channels = json!({"slack": {"bot_token": CHANNEL_TOKEN}});
    process.put("/api/channels/settings").json(&channels).send().await.expect_status(200);
    secrets.push(CHANNEL_TOKEN.to_owned());
    process.create_agent("ada").await;
    let message = json!({"agent_id": "ada", "content": "hello", "model": "anthropic/some-model"});
    process.post("/api/chat/messages/stream").json(&message).stream().await.collect().await;
    let export = process.get("/api/settings/export").send().await.expect_status(200);
    let listed = process.get("/api/providers").send().await.expect_status(200);
    process.terminate().await;

    let mut kept = Vec::new();
    files(process.folder(), &mut kept);
    kept.push(("the export".to_owned(), export.body));
    kept.push(("the list of providers".to_owned(), listed.body));
    assert!(process.log().contains("TRACE"), "the log is at trace level");
    for secret in &secrets {
        let hex = secret.split('_').next_back().unwrap_or_default();
        for (name, bytes) in &kept {
            assert!(!contains(bytes, secret), "{name} contains `{secret}`");
            assert!(!contains(bytes, hex), "{name} contains the body of `{secret}`");
        }
    }
}
