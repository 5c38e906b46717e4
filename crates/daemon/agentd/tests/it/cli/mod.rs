//! The command line as users and scripts see it: the binary itself, with and without a running daemon.

mod restore;
mod trust;

use std::io::Write;
use std::path::Path;
use std::process::{Output, Stdio};

use serde_json::{Value, json};

use crate::support::TestProcess;

pub struct CommandResult {
    pub code: Option<i32>,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

impl CommandResult {
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).expect("text").trim_end()
    }

    #[track_caller]
    pub fn success(self) -> Self {
        assert_eq!(self.code, Some(0), "{}\n{}", self.stderr, String::from_utf8_lossy(&self.stdout));
        self
    }

    #[track_caller]
    pub fn failure(self) -> Self {
        assert_eq!(self.code, Some(1), "{}\n{}", self.stderr, String::from_utf8_lossy(&self.stdout));
        self
    }

    fn json(&self) -> Value {
        serde_json::from_str(self.text()).expect("JSON")
    }
}

impl From<Output> for CommandResult {
    fn from(output: Output) -> Self {
        let stderr = String::from_utf8(output.stderr).expect("text");
        Self { code: output.status.code(), stdout: output.stdout, stderr }
    }
}

pub async fn agentd(process: &TestProcess, arguments: &[&str]) -> CommandResult {
    agentd_with(process, arguments, &[]).await
}

async fn agentd_with(process: &TestProcess, arguments: &[&str], variables: &[(&str, &str)]) -> CommandResult {
    let mut command = process.command();
    command.args(arguments).envs(variables.iter().copied());
    tokio::task::spawn_blocking(move || command.output().expect("the command runs").into())
        .await
        .expect("the command ends")
}

pub fn path(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

#[tokio::test]
async fn keys_are_created_listed_and_revoked_with_and_without_a_daemon() {
    let mut process = TestProcess::stopped().await;
    let first = agentd(&process, &["keys", "create", "--name", "first"]).await.success();
    // The output is only the key, suitable for `$(…)`.
    assert!(first.text().starts_with("svc_") && first.text().len() == 68, "{}", first.text());
    assert!(first.stderr.contains("first") && !first.stderr.contains(first.text()), "{}", first.stderr);
    process.spawn().await;
    process.key = first.text().to_owned();
    process.get("/api/agents").send().await.expect_status(200);

    let arguments = ["keys", "create", "--name", "reader", "--scope", "read", "--description", "looks"];
    let reader = agentd(&process, &arguments).await.success();
    process.post("/api/auth/ticket").bearer(reader.text()).send().await.expect_status(200);
    process.post("/api/agents").bearer(reader.text()).json(&json!({})).send().await.expect_status(403);
    let listed = agentd(&process, &["keys", "list"]).await.success();
    assert!(listed.text().starts_with("ID ") && listed.text().lines().count() == 3, "{}", listed.text());
    assert!(!listed.text().contains("svc_"));
    let all = agentd(&process, &["keys", "list", "--json"]).await.success().json();
    let id = all["keys"].as_array().expect("keys").iter().find(|key| key["name"] == "reader").expect("the key")["id"]
        .clone();
    agentd(&process, &["keys", "revoke", id.as_str().expect("an id")]).await.success();
    process.get("/api/agents").bearer(reader.text()).send().await.expect_status(401);
    let unknown = agentd(&process, &["keys", "revoke", "key_nothing"]).await.failure();
    assert!(unknown.stderr.starts_with("agentd: "), "{}", unknown.stderr);
    let odd = agentd(&process, &["keys", "revoke", "../../agents"]).await.failure();
    assert!(odd.stderr.contains("keys list"), "{}", odd.stderr);

    // After a kill, a stale socket remains.
    process.kill();
    assert!(process.data_dir().join("agentd.sock").exists());
    let after = agentd(&process, &["keys", "create", "--name", "after"]).await.success();
    process.spawn().await;
    process.get("/api/agents").bearer(after.text()).send().await.expect_status(200);
}

#[tokio::test]
async fn second_daemon_on_the_same_data_directory_is_rejected() {
    if std::env::var_os("AGENTD_TEST_DATABASE_URL").is_some() {
        // Replicas share a PostgreSQL server.
        return;
    }
    let process = TestProcess::with_owner().await;
    let second = agentd_with(&process, &["serve"], &[("SVC_PORT", "0")]).await.failure();
    assert!(
        second.stderr.contains("another daemon") && second.stderr.contains("another data directory"),
        "{}",
        second.stderr
    );
    process.get("/api/agents").send().await.expect_status(200);
}

#[tokio::test]
async fn unresponsive_daemon_is_reported() {
    let process = TestProcess::with_owner().await;
    // Simulates a daemon that hangs before it creates its socket.
    std::fs::remove_file(process.data_dir().join("agentd.sock")).expect("removed");
    if std::env::var_os("AGENTD_TEST_DATABASE_URL").is_some() {
        return;
    }
    let refused = agentd(&process, &["keys", "list"]).await.failure();
    assert!(refused.stderr.contains("does not respond"), "{}", refused.stderr);
    let doctor = agentd(&process, &["doctor", "--json"]).await.failure().json();
    let daemon = finding(&doctor, "daemon");
    assert_eq!(daemon["verdict"], "broken");
}

fn finding(report: &Value, check: &str) -> Value {
    let checks = report["checks"].as_array().expect("checks");
    checks.iter().find(|found| found["check"] == check).unwrap_or_else(|| panic!("{check} in {report:#}")).clone()
}

#[tokio::test]
async fn doctor_reports_problems_with_their_remedies() {
    use std::os::unix::fs::PermissionsExt;
    let mut process = TestProcess::stopped().await;
    // Before the first start there are no problems, and the check creates nothing.
    agentd(&process, &["doctor"]).await.success();
    assert!(!process.data_dir().exists());

    process.spawn().await;
    let report = agentd(&process, &["doctor", "--json"]).await.success().json();
    assert_eq!(report["healthy"], true, "{report:#}");
    for check in
        ["configuration", "data directory", "disk space", "daemon", "readiness", "database", "key file", "clock"]
    {
        assert_eq!(finding(&report, check)["verdict"], "good", "{report:#}");
    }
    let text = agentd(&process, &["doctor"]).await.success();
    assert!(text.text().contains("✓ database") && !text.text().contains('\x1b'), "{}", text.text());

    assert!(process.terminate().await.success());
    let key_file = process.data_dir().join("secret.key");
    std::fs::set_permissions(&key_file, std::fs::Permissions::from_mode(0o644)).expect("changed");
    std::fs::set_permissions(process.data_dir(), std::fs::Permissions::from_mode(0o755)).expect("changed");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port().to_string();
    let arguments = ["doctor", "--json", "--port", &port];
    let report = agentd(&process, &arguments).await.failure().json();
    assert_eq!(finding(&report, "key file")["verdict"], "broken");
    assert!(finding(&report, "key file")["remedy"].as_str().is_some_and(|remedy| remedy.starts_with("chmod 600")));
    assert_eq!(finding(&report, "data directory")["verdict"], "warning");
    assert_eq!(finding(&report, "address")["verdict"], "broken");
    let text = agentd(&process, &["doctor", "--port", &port]).await.failure();
    assert!(text.text().contains("✗ key file") && text.text().contains("→ chmod 600"), "{}", text.text());

    std::fs::set_permissions(&key_file, std::fs::Permissions::from_mode(0o600)).expect("changed");
    std::fs::write(&key_file, "0".repeat(64)).expect("written");
    let report = agentd(&process, &["doctor", "--json"]).await.failure().json();
    assert!(finding(&report, "key file")["finding"].as_str().is_some_and(|text| text.contains("is not the key")));
    std::fs::remove_file(&key_file).expect("removed");
    let report = agentd(&process, &["doctor", "--json"]).await.failure().json();
    assert_eq!(finding(&report, "key file")["verdict"], "broken");

    let wrong = agentd(&process, &["doctor", "--host", "everywhere", "--base-url", "nonsense"]).await.failure();
    assert!(wrong.text().contains("SVC_HOST") && wrong.text().contains("SVC_BASE_URL"), "{}", wrong.text());
    if std::env::var_os("AGENTD_TEST_DATABASE_URL").is_none() {
        damage(&process.data_dir().join("agentd.db"));
        let report = agentd(&process, &["doctor", "--json"]).await.failure().json();
        assert_eq!(finding(&report, "database")["verdict"], "broken");
    }
    let unreachable = [("SVC_DATABASE_URL", "postgres://nobody:hush@127.0.0.1:1/none")];
    let report = agentd_with(&process, &["doctor", "--json"], &unreachable).await.failure();
    assert_eq!(finding(&report.json(), "database")["verdict"], "broken");
    assert!(!report.text().contains("hush") && !report.stderr.contains("hush"));
}

fn damage(database: &Path) {
    let mut file = std::fs::OpenOptions::new().write(true).open(database).expect("the database");
    file.write_all(&[0x5a; 4096]).expect("written");
}

#[tokio::test]
async fn chat_uses_the_socket_or_http() {
    use agentd_llm::{Usage, UsageSource, Vendor};
    use agentd_testing_llm::{FakeVendor, Reply, Script};
    let process = TestProcess::with_owner().await;
    process.create_agent("ada").await;
    let usage = Usage {
        input_tokens: 5,
        output_tokens: 2,
        cache_read_tokens: 0,
        cache_write_tokens: 0,
        reasoning_tokens: 0,
        source: UsageSource::Provider,
    };
    let script = Script::always(Reply::text(["Hello ", "there"], usage));
    let vendor = FakeVendor::start_without_recording(Vendor::Openai, script).await.expect("a fake vendor");
    let key = json!({"api_key": "k", "base_url": vendor.base_url().as_str()});
    process.put("/api/providers/openai/key").json(&key).send().await.expect_status(200);
    let settings = json!({"default_provider": "openai", "default_model": "fake"});
    process.put("/api/settings/agent").json(&settings).send().await.expect_status(200);

    let answer = agentd(&process, &["chat", "--agent", "ada", "Hi"]).await.success();
    assert_eq!(answer.text(), "Hello there");
    let url = format!("http://{}", process.address);
    let arguments = ["chat", "--agent", "ada", "--url", &url, "Hi"];
    let keyless = agentd(&process, &arguments).await.failure();
    assert!(keyless.stderr.contains("SVC_API_KEY"), "{}", keyless.stderr);
    let answer = agentd_with(&process, &arguments, &[("SVC_API_KEY", &process.key)]).await.success();
    assert_eq!(answer.text(), "Hello there");
    let wrong = agentd_with(&process, &arguments, &[("SVC_API_KEY", "svc_00")]).await.failure();
    assert!(wrong.stderr.contains("invalid"), "{}", wrong.stderr);
    // A port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address").port();
    let closed = format!("http://127.0.0.1:{port}");
    for (url, expected) in [(closed.as_str(), "no daemon responds at"), ("nourl", "`nourl` is not a URL")] {
        let refused =
            agentd_with(&process, &["chat", "--url", url, "Hi"], &[("SVC_API_KEY", "svc_00")]).await.failure();
        assert!(refused.stderr.contains(expected), "{}", refused.stderr);
    }
    let unknown = agentd(&process, &["chat", "--agent", "nobody", "Hi"]).await.failure();
    assert!(unknown.stderr.contains("nobody"), "{}", unknown.stderr);

    // Both lines are answered in one conversation.
    let mut command = process.command();
    command.args(["chat", "--agent", "ada"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the command runs");
    child.stdin.take().expect("stdin").write_all(b"One\nTwo\n").expect("written");
    let conversation: CommandResult =
        tokio::task::spawn_blocking(move || child.wait_with_output().expect("the command ends").into())
            .await
            .expect("waited");
    assert_eq!(conversation.success().text(), "Hello there\nHello there");
    let conversations = process.get("/api/chat/conversations").send().await.expect_status(200).json();
    assert_eq!(conversations["total"], 3, "{conversations:#}");

    // A failed message is reported like any failure of a command.
    let mut command = process.command();
    command.args(["chat", "--agent", "nobody"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the command runs");
    child.stdin.take().expect("stdin").write_all(b"One\nTwo\n").expect("written");
    let failed: CommandResult =
        tokio::task::spawn_blocking(move || child.wait_with_output().expect("the command ends").into())
            .await
            .expect("waited");
    let failed = failed.failure();
    assert_eq!(failed.stderr.matches("agentd: ").count(), 2, "{}", failed.stderr);
}

#[tokio::test]
async fn help_and_completions_are_available_for_every_command() {
    let process = TestProcess::stopped().await;
    for arguments in [
        vec!["--help"],
        vec!["serve", "--help"],
        vec!["keys", "create", "--help"],
        vec!["doctor", "--help"],
        vec!["chat", "--help"],
        vec!["backup", "--help"],
        vec!["restore", "--help"],
        vec!["completions", "--help"],
    ] {
        let help = agentd(&process, &arguments).await.success();
        let has_example = help.text().contains("Example") || help.text().contains("Start with");
        assert!(has_example, "{arguments:?} shows no example:\n{}", help.text());
        assert!(!help.text().contains("inference-worker"), "{}", help.text());
    }
    for shell in ["bash", "zsh", "fish"] {
        assert!(agentd(&process, &["completions", shell]).await.success().text().contains("restore"));
    }
    // Options set by environment variables are not listed as required.
    let incomplete = agentd_with(&process, &["keys", "create"], &[("SVC_PORT", "7878"), ("SVC_LOG", "warn")]).await;
    assert_eq!(incomplete.code, Some(2), "{}", incomplete.stderr);
    assert!(incomplete.stderr.contains("Usage: agentd keys create [OPTIONS] --name <NAME>\n"), "{}", incomplete.stderr);
    // The output is not read.
    let mut without_reader = process.command();
    without_reader.arg("openapi").stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut without_reader = without_reader.spawn().expect("the command runs");
    drop(without_reader.stdout.take());
    let without_reader: CommandResult =
        tokio::task::spawn_blocking(move || without_reader.wait_with_output().expect("the command ends").into())
            .await
            .expect("waited");
    assert_eq!(without_reader.success().stderr, "");
    let document = agentd(&process, &["openapi"]).await.success().json();
    assert!(document["paths"]["/health/ready"].is_object());
    let alone = agentd(&process, &["chat", "Hi"]).await.failure();
    assert!(alone.stderr.contains("no daemon runs"), "{}", alone.stderr);
    assert!(!process.data_dir().exists(), "the commands create no data directory");
}

#[tokio::test]
async fn key_that_could_not_be_printed_is_revoked() {
    let process = TestProcess::with_owner().await;
    let mut command = process.command();
    command.args(["keys", "create", "--name", "lost"]);
    command.stdout(std::fs::OpenOptions::new().write(true).open("/dev/full").expect("a full device"));
    command.stderr(Stdio::piped());
    let lost: CommandResult = tokio::task::spawn_blocking(move || command.output().expect("the command runs").into())
        .await
        .expect("the command ends");
    let lost = lost.failure();
    assert!(lost.stderr.contains("was revoked; create another one"), "{}", lost.stderr);
    let all = agentd(&process, &["keys", "list", "--json"]).await.success().json();
    let names: Vec<&str> =
        all["keys"].as_array().expect("keys").iter().filter_map(|key| key["name"].as_str()).collect();
    assert_eq!(names, ["test"]);
}

#[tokio::test]
async fn invalid_log_level_is_rejected() {
    let process = TestProcess::stopped().await;
    let refused = agentd_with(&process, &["serve"], &[("SVC_LOG", "loud")]).await.failure();
    assert!(refused.stderr.contains("SVC_LOG is `loud`"), "{}", refused.stderr);
}

#[tokio::test]
async fn unreachable_database_is_reported_with_its_address() {
    let process = TestProcess::stopped().await;
    // A port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address").port();
    let url = format!("postgres://agentd:hunter22@127.0.0.1:{port}/agentd");
    let refused = agentd_with(&process, &["serve"], &[("SVC_DATABASE_URL", &url), ("SVC_PORT", "0")]).await.failure();
    for part in [format!("127.0.0.1:{port}"), "refused".to_owned()] {
        assert!(refused.stderr.contains(&part), "{part} in {}", refused.stderr);
    }
    assert!(!refused.stderr.contains("hunter22"), "{}", refused.stderr);
    let nowhere = agentd_with(&process, &["serve"], &[("SVC_DATABASE_URL", "postgres://")]).await.failure();
    assert!(nowhere.stderr.contains("SVC_DATABASE_URL has no host"), "{}", nowhere.stderr);
}
