//! Chat platforms: latency of 100 signed messages per second while models respond immediately and while they take
//! twenty seconds, the cost of a request with an invalid signature, and the effect of 10,000 of those per second on
//! chat.
//!
//! References, alternately in the same run: a bare axum server that reads the same requests and returns the same bytes.
//! It is flooded equally, so that the difference is the cost of the daemon's rejection, and not of sending and reading
//! requests on the same machine. The provider, the bare server and the flood run in their own processes.

#![allow(clippy::print_stdout, reason = "a benchmark prints its figures")]

mod chat;
mod children;
mod flood;
mod webhooks;

use agentd_base::Clock;
use agentd_bench::Outcome;
use agentd_bench::daemon::DaemonUnderTest;
use agentd_chat_platforms::{Platform, WebhookRequest};
use agentd_testing_chat_platforms::FakePlatform;
use serde_json::json;

fn main() -> Outcome<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["provider"] => runtime.block_on(children::provide()),
        ["bare"] => runtime.block_on(children::serve_bare()),
        ["flood", address, requests, rate, count] => {
            runtime.block_on(flood::send(address, requests, rate.parse()?, count.parse()?))
        }
        _ => runtime.block_on(measure()),
    }
}

async fn measure() -> Outcome<()> {
    let provider = children::Child::start(&["provider"], 2)?;
    let [quick, slow] = provider.lines.as_slice() else { return Err("the provider says too little".into()) };
    let mut platforms = Vec::new();
    for platform in Platform::ALL {
        platforms.push(FakePlatform::start(platform, Clock::system()).await?);
    }
    for (name, base_url) in [("answer at once", quick), ("take twenty seconds", slow)] {
        webhooks::measure(&Daemon::start(&platforms, base_url)?, &platforms, name).await?;
    }
    let daemon = Daemon::start(&platforms, quick)?;
    flood::cost(&daemon, &platforms).await?;
    chat::chat_during_flood(&daemon, &platforms).await
}

/// Fresh daemon for all platforms, with an agent that replies to all senders.
struct Daemon {
    daemon: DaemonUnderTest,
    _folder: tempfile::TempDir,
}

impl Daemon {
    fn start(platforms: &[FakePlatform], provider: &str) -> Outcome<Self> {
        let folder = tempfile::tempdir()?;
        let daemon = DaemonUnderTest::start_with_owner(&folder.path().join("data"))?;
        daemon.call("PUT", "/api/providers/openai/key", &json!({"api_key": "k", "base_url": provider}))?;
        let agent = json!({"svc_name": "bench", "user_name": "Owner", "archetype": "assistant"});
        daemon.call("POST", "/api/agents", &agent)?;
        for fake in platforms {
            let mut settings = fake.settings();
            settings["enabled"] = json!(true);
            settings["agent_id"] = json!("bench");
            settings["sender_policy"] = json!("open");
            daemon.call("PUT", "/api/channels/settings", &json!({ fake.platform().id(): settings }))?;
        }
        Ok(Self { daemon, _folder: folder })
    }
}

/// Returns the bytes of a request.
fn bytes(platform: Platform, request: &WebhookRequest) -> Vec<u8> {
    let mut bytes =
        format!("POST /api/channels/{}/webhook HTTP/1.1\r\nHost: localhost\r\n", platform.id()).into_bytes();
    for (name, value) in &request.headers {
        bytes.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
    }
    bytes.extend(format!("content-length: {}\r\n\r\n", request.body.len()).into_bytes());
    bytes.extend_from_slice(&request.body);
    bytes
}
