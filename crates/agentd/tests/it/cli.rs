//! The command line, as a person and a script meet it: the binary itself, on a daemon that runs
//! and on one that does not.

use std::io::Write;
use std::path::Path;
use std::process::{Output, Stdio};

use serde_json::{Value, json};

use crate::support::TestProcess;

struct Ran {
    code: Option<i32>,
    stdout: Vec<u8>,
    stderr: String,
}

impl Ran {
    fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).expect("text").trim_end()
    }

    #[track_caller]
    fn success(self) -> Self {
        assert_eq!(self.code, Some(0), "{}\n{}", self.stderr, String::from_utf8_lossy(&self.stdout));
        self
    }

    #[track_caller]
    fn failure(self) -> Self {
        assert_eq!(self.code, Some(1), "{}\n{}", self.stderr, String::from_utf8_lossy(&self.stdout));
        self
    }

    fn json(&self) -> Value {
        serde_json::from_str(self.text()).expect("JSON")
    }
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        let stderr = String::from_utf8(output.stderr).expect("text");
        Self { code: output.status.code(), stdout: output.stdout, stderr }
    }
}

async fn agentd(process: &TestProcess, arguments: &[&str]) -> Ran {
    agentd_with(process, arguments, &[]).await
}

async fn agentd_with(process: &TestProcess, arguments: &[&str], variables: &[(&str, &str)]) -> Ran {
    let mut command = process.command();
    command.args(arguments).envs(variables.iter().copied());
    tokio::task::spawn_blocking(move || command.output().expect("it runs").into()).await.expect("it ends")
}

fn path(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

#[tokio::test]
async fn keys_are_made_listed_and_revoked_on_a_running_daemon_and_without_one() {
    let mut process = TestProcess::stopped().await;
    let first = agentd(&process, &["keys", "create", "--name", "first"]).await.success();
    // Fit for `$(…)`: the key alone.
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
    let id =
        all["keys"].as_array().expect("keys").iter().find(|key| key["name"] == "reader").expect("it")["id"].clone();
    agentd(&process, &["keys", "revoke", id.as_str().expect("an id")]).await.success();
    process.get("/api/agents").bearer(reader.text()).send().await.expect_status(401);
    let unknown = agentd(&process, &["keys", "revoke", "key_nothing"]).await.failure();
    assert!(unknown.stderr.starts_with("agentd: "), "{}", unknown.stderr);
    let odd = agentd(&process, &["keys", "revoke", "../../agents"]).await.failure();
    assert!(odd.stderr.contains("keys list"), "{}", odd.stderr);

    // Killed: a socket stays behind that nobody answers on.
    process.kill();
    assert!(process.data_dir().join("agentd.sock").exists());
    let after = agentd(&process, &["keys", "create", "--name", "after"]).await.success();
    process.spawn().await;
    process.get("/api/agents").bearer(after.text()).send().await.expect_status(200);
}

#[tokio::test]
async fn a_second_daemon_on_the_same_data_is_refused_with_a_sentence() {
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
async fn a_daemon_that_does_not_answer_gets_a_sentence() {
    let process = TestProcess::with_owner().await;
    // As if it hung before it made its socket.
    std::fs::remove_file(process.data_dir().join("agentd.sock")).expect("removed");
    if std::env::var_os("AGENTD_TEST_DATABASE_URL").is_some() {
        return;
    }
    let refused = agentd(&process, &["keys", "list"]).await.failure();
    assert!(refused.stderr.contains("does not answer"), "{}", refused.stderr);
    let doctor = agentd(&process, &["doctor", "--json"]).await.failure().json();
    let daemon = finding(&doctor, "daemon");
    assert_eq!(daemon["verdict"], "broken");
}

fn finding(report: &Value, check: &str) -> Value {
    let checks = report["checks"].as_array().expect("checks");
    checks.iter().find(|found| found["check"] == check).unwrap_or_else(|| panic!("{check} in {report:#}")).clone()
}

#[tokio::test]
async fn the_doctor_finds_what_is_broken_and_says_the_remedy() {
    use std::os::unix::fs::PermissionsExt;
    let mut process = TestProcess::stopped().await;
    // Before the first start nothing is broken, and looking makes nothing.
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
    let away = [("SVC_DATABASE_URL", "postgres://nobody:hush@127.0.0.1:1/none")];
    let report = agentd_with(&process, &["doctor", "--json"], &away).await.failure();
    assert_eq!(finding(&report.json(), "database")["verdict"], "broken");
    assert!(!report.text().contains("hush") && !report.stderr.contains("hush"));
}

fn damage(database: &Path) {
    let mut file = std::fs::OpenOptions::new().write(true).open(database).expect("the database");
    file.write_all(&[0x5a; 4096]).expect("written");
}

#[tokio::test]
async fn a_backup_of_a_busy_daemon_restores_elsewhere() {
    let old = TestProcess::with_owner().await;
    old.make_agent("ada").await;
    std::fs::create_dir_all(old.data_dir().join("agents/ada")).expect("a workspace");
    std::fs::write(old.data_dir().join("agents/ada/notes.txt"), "remember").expect("written");
    let key = json!({"api_key": "sk-of-a-vendor"});
    old.put("/api/providers/openai/key").json(&key).send().await.expect_status(200);
    let settings = json!({"display_name": "Ada's owner"});
    old.put("/api/settings/profile").json(&settings).send().await.expect_status(200);
    let archive = old.folder().join("backup.tar.gz");
    let passphrase = old.folder().join("passphrase");
    std::fs::write(&passphrase, "correct horse battery\n").expect("written");

    // Agents are made all the while.
    let (client, address, credential) = old.client();
    let is_done = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let load = tokio::spawn({
        let is_done = std::sync::Arc::clone(&is_done);
        async move {
            let mut made = 0;
            while !is_done.load(std::sync::atomic::Ordering::SeqCst) {
                let agent = json!({"svc_name": format!("a{made}"), "user_name": "O", "archetype": "assistant"});
                let request = client.post(format!("http://{address}/api/agents")).bearer_auth(&credential).json(&agent);
                assert_eq!(request.send().await.expect("an answer").status(), 201);
                made += 1;
            }
        }
    });
    let plain = agentd(&old, &["backup", path(&archive)]).await.success();
    assert!(plain.stderr.contains("providers: openai"), "what is left out is named: {}", plain.stderr);
    let again = agentd(&old, &["backup", path(&archive)]).await.failure();
    assert!(again.stderr.contains("--force"), "{}", again.stderr);
    let arguments = ["backup", "--force", "--passphrase-file", path(&passphrase), path(&archive)];
    agentd(&old, &arguments).await.success();
    is_done.store(true, std::sync::atomic::Ordering::SeqCst);
    load.await.expect("no request failed");
    let archive_bytes = agentd(&old, &["backup", "-"]).await.success().stdout;
    assert!(archive_bytes.starts_with(&[0x1f, 0x8b]));

    // Onto a daemon that runs.
    let mut new = TestProcess::with_owner().await;
    let own_key = new.key.clone();
    new.make_agent("other").await;
    let unasked = agentd(&new, &["restore", path(&archive)]).await.failure();
    assert!(unasked.stderr.contains("--yes"), "{}", unasked.stderr);
    let wrong = old.folder().join("wrong");
    std::fs::write(&wrong, "wrong horse battery").expect("written");
    let refused =
        agentd(&new, &["restore", "--yes", "--passphrase-file", path(&wrong), path(&archive)]).await.failure();
    assert!(refused.stderr.contains("passphrase"), "{}", refused.stderr);
    new.get("/api/agents/other").send().await.expect_status(200);
    let cut = old.folder().join("cut.tar.gz");
    std::fs::write(&cut, &archive_bytes[..archive_bytes.len() / 2]).expect("written");
    let refused = agentd(&new, &["restore", "--yes", path(&cut)]).await.failure();
    assert!(refused.stderr.contains("cut off"), "{}", refused.stderr);
    new.get("/api/agents/other").send().await.expect_status(200);

    let arguments = ["restore", "--yes", "--passphrase-file", path(&passphrase), path(&archive)];
    let restored = agentd(&new, &arguments).await.success();
    assert!(!restored.stderr.contains("enter them again"), "{}", restored.stderr);
    new.get("/api/agents").bearer(&own_key).send().await.expect_status(401);
    new.key = old.key.clone();
    check_restored(&new).await;
    new.get("/api/agents/other").send().await.expect_status(404);
    // Work goes on, and all of it outlives a kill.
    new.make_agent("afterwards").await;
    new.kill();
    new.spawn().await;
    check_restored(&new).await;
    new.get("/api/agents/afterwards").send().await.expect_status(200);

    // Into a directory where no daemon runs, without the passphrase.
    let mut third = TestProcess::stopped().await;
    let restored = agentd(&third, &["restore", "--yes", path(&archive)]).await.success();
    assert!(restored.stderr.contains("providers: openai"), "{}", restored.stderr);
    third.spawn().await;
    third.key = old.key.clone();
    third.get("/api/agents/ada").send().await.expect_status(200);
}

#[tokio::test]
async fn a_running_daemon_finds_what_a_restore_brought_back_and_nothing_else() {
    let process = TestProcess::with_owner().await;
    let remember = async |content: &str| {
        let made = process.post("/api/memory/episodes").json(&json!({"content": content})).send().await;
        made.expect_status(201).json()["id"].as_str().expect("an id").to_owned()
    };
    let total = async |query: &str| {
        let found = process.get(&format!("/api/memory/search?mode=keyword&q={query}")).send().await;
        let found = found.expect_status(200).json();
        assert_eq!(json!(found["results"].as_array().map(Vec::len)), found["total"], "{found}");
        found["total"].clone()
    };
    let sailing = remember("We sail on Sunday.").await;
    remember("The boat lies in Emden.").await;
    let archive = process.folder().join("backup.tar.gz");
    agentd(&process, &["backup", path(&archive)]).await.success();
    process.delete(&format!("/api/memory/episodes/{sailing}")).send().await.expect_status(200);
    remember("The garden needs water.").await;
    assert_eq!((total("sail").await, total("garden").await), (json!(0), json!(1)));
    agentd(&process, &["restore", "--yes", path(&archive)]).await.success();
    assert_eq!((total("sail").await, total("boat").await, total("garden").await), (json!(1), json!(1), json!(0)));
    agentd(&process, &["doctor", "--memory"]).await.success();
}

/// Whether a restore is under way in a data directory.
fn begun(data_dir: &std::path::Path) -> bool {
    let names = std::fs::read_dir(data_dir).expect("the data directory");
    names.flatten().any(|entry| entry.file_name().to_string_lossy().starts_with("restore"))
}

/// Killed at any moment, a restore leaves the old state or the new one, never something between.
#[tokio::test]
async fn a_killed_restore_leaves_one_state_or_the_other() {
    const KILLS: u32 = 10;
    let old = TestProcess::with_owner().await;
    old.make_agent("ada").await;
    std::fs::create_dir_all(old.data_dir().join("agents/ada")).expect("a workspace");
    let entropy = agentd_base::Entropy::seeded(11);
    let mut noise = vec![0; 1024 * 1024];
    for number in 0..8 {
        entropy.fill(&mut noise);
        std::fs::write(old.data_dir().join(format!("agents/ada/noise-{number}")), &noise).expect("written");
    }
    let archive = old.folder().join("backup.tar.gz");
    agentd(&old, &["backup", path(&archive)]).await.success();
    let (mut finished, mut undone, mut whole) = (0, 0, std::time::Duration::ZERO);
    for round in 0..KILLS {
        let mut new = TestProcess::with_owner().await;
        let own_key = new.key.clone();
        new.make_agent("other").await;
        std::fs::create_dir_all(new.data_dir().join("agents/other")).expect("a workspace");
        std::fs::write(new.data_dir().join("agents/other/file"), "other").expect("written");
        let mut command = new.command();
        command.args(["restore", "--yes", path(&archive)]).stdout(Stdio::null()).stderr(Stdio::null());
        let mut restoring = command.spawn().expect("it runs");
        let ending = tokio::task::spawn_blocking(move || restoring.wait().expect("it ends"));
        // From here on the daemon is at it. Before, the command would do it alone.
        while !begun(&new.data_dir()) && !ending.is_finished() {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        let started = std::time::Instant::now();
        // The first shows how long it takes; the others are killed at moments spread over that.
        let outcome = if round == 0 {
            let outcome = ending.await.expect("waited");
            whole = started.elapsed();
            new.kill();
            outcome
        } else {
            tokio::time::sleep(whole * (round - 1) / KILLS).await;
            new.kill();
            ending.await.expect("waited")
        };
        new.spawn().await;
        let is_new = new.get("/api/agents").bearer(&own_key).send().await.status == 401;
        if is_new {
            finished += 1;
            new.get("/api/agents/ada").bearer(&old.key).send().await.expect_status(200);
            new.get("/api/agents/other").bearer(&old.key).send().await.expect_status(404);
        } else {
            undone += 1;
            assert!(!outcome.success(), "what was reported as done is done");
            new.get("/api/agents/other").bearer(&own_key).send().await.expect_status(200);
            new.get("/api/agents/ada").bearer(&own_key).send().await.expect_status(404);
        }
        assert_eq!(new.data_dir().join("agents/ada/noise-7").exists(), is_new, "after kill {round}");
        assert_eq!(new.data_dir().join("agents/other/file").exists(), !is_new, "after kill {round}");
        let names = std::fs::read_dir(new.data_dir()).expect("the data directory");
        let left: Vec<_> = names.filter_map(|entry| entry.expect("an entry").file_name().into_string().ok()).collect();
        assert!(left.iter().all(|name| !name.starts_with("restore")), "{left:?}");
    }
    assert!(finished > 0 && undone > 0, "{finished} finished and {undone} undone: the moments show too little");
}

async fn check_restored(process: &TestProcess) {
    process.get("/health/ready").send().await.expect_status(200);
    process.get("/api/agents/ada").send().await.expect_status(200);
    let profile = process.get("/api/settings/profile").send().await.expect_status(200).json();
    assert_eq!(profile["display_name"], "Ada's owner");
    let notes = std::fs::read_to_string(process.data_dir().join("agents/ada/notes.txt"));
    assert_eq!(notes.expect("the workspace"), "remember");
    let providers = process.get("/api/providers").send().await.expect_status(200).json();
    let openai = providers["providers"].as_array().expect("providers").iter().find(|one| one["id"] == "openai");
    assert!(openai.is_some_and(|one| one.to_string().contains("\"set\":true")), "{providers:#}");
}

#[tokio::test]
async fn chat_talks_over_the_socket_and_over_http() {
    use agentd_llm::fake::{FakeVendor, Reply, Script};
    use agentd_llm::{Usage, UsageSource, Vendor};
    let process = TestProcess::with_owner().await;
    process.make_agent("ada").await;
    let usage = Usage {
        input_tokens: 5,
        output_tokens: 2,
        cache_read_tokens: 0,
        cache_write_tokens: 0,
        reasoning_tokens: 0,
        source: UsageSource::Provider,
    };
    let script = Script::always(Reply::text(["Hello ", "there"], usage));
    let vendor = FakeVendor::start_forgetful(Vendor::Openai, script).await.expect("a fake vendor");
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
    let nobody = agentd(&process, &["chat", "--agent", "nobody", "Hi"]).await.failure();
    assert!(nobody.stderr.contains("nobody"), "{}", nobody.stderr);

    // A conversation: both lines are answered, in one conversation.
    let mut command = process.command();
    command.args(["chat", "--agent", "ada"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it runs");
    child.stdin.take().expect("stdin").write_all(b"One\nTwo\n").expect("written");
    let talked: Ran =
        tokio::task::spawn_blocking(move || child.wait_with_output().expect("it ends").into()).await.expect("waited");
    assert_eq!(talked.success().text(), "Hello there\nHello there");
    let conversations = process.get("/api/chat/conversations").send().await.expect_status(200).json();
    assert_eq!(conversations["total"], 3, "{conversations:#}");

    // One that failed is told like any failure of a command.
    let mut command = process.command();
    command.args(["chat", "--agent", "nobody"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it runs");
    child.stdin.take().expect("stdin").write_all(b"One\nTwo\n").expect("written");
    let failed: Ran =
        tokio::task::spawn_blocking(move || child.wait_with_output().expect("it ends").into()).await.expect("waited");
    let failed = failed.failure();
    assert_eq!(failed.stderr.matches("agentd: ").count(), 2, "{}", failed.stderr);
}

#[tokio::test]
async fn commands_say_what_they_are_for() {
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
    let document = agentd(&process, &["openapi"]).await.success().json();
    assert!(document["paths"]["/health/ready"].is_object());
    let alone = agentd(&process, &["chat", "Hi"]).await.failure();
    assert!(alone.stderr.contains("no daemon runs"), "{}", alone.stderr);
    assert!(!process.data_dir().exists(), "asking makes nothing");
}

#[tokio::test]
async fn a_key_that_nobody_saw_is_revoked() {
    let process = TestProcess::with_owner().await;
    let mut command = process.command();
    command.args(["keys", "create", "--name", "lost"]);
    command.stdout(std::fs::OpenOptions::new().write(true).open("/dev/full").expect("a full device"));
    command.stderr(Stdio::piped());
    let lost: Ran =
        tokio::task::spawn_blocking(move || command.output().expect("it runs").into()).await.expect("it ends");
    let lost = lost.failure();
    assert!(lost.stderr.contains("was revoked; make another one"), "{}", lost.stderr);
    let all = agentd(&process, &["keys", "list", "--json"]).await.success().json();
    let names: Vec<&str> =
        all["keys"].as_array().expect("keys").iter().filter_map(|key| key["name"].as_str()).collect();
    assert_eq!(names, ["test"]);
}

#[tokio::test]
async fn a_misspelt_level_is_refused() {
    let process = TestProcess::stopped().await;
    let refused = agentd_with(&process, &["serve"], &[("SVC_LOG", "loud")]).await.failure();
    assert!(refused.stderr.contains("SVC_LOG is `loud`"), "{}", refused.stderr);
}

#[tokio::test]
async fn a_database_that_is_not_there_is_said_to_be_where_it_should_be() {
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
    assert!(nowhere.stderr.contains("SVC_DATABASE_URL names no host"), "{}", nowhere.stderr);
}
