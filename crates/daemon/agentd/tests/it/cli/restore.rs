//! Backup and restore on the command line, with a busy, a stopped, and a killed daemon.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::json;

use super::{agentd, path};
use crate::support::TestProcess;

#[tokio::test]
async fn backup_of_a_busy_daemon_is_restored_elsewhere() {
    let old = TestProcess::with_owner().await;
    old.create_agent("ada").await;
    std::fs::create_dir_all(old.data_dir().join("agents/ada")).expect("a workspace");
    std::fs::write(old.data_dir().join("agents/ada/notes.txt"), "remember").expect("written");
    let key = json!({"api_key": "sk-of-a-vendor"});
    old.put("/api/providers/openai/key").json(&key).send().await.expect_status(200);
    let settings = json!({"display_name": "Ada's owner"});
    old.put("/api/settings/profile").json(&settings).send().await.expect_status(200);
    let archive = old.folder().join("backup.tar.gz");
    let passphrase = old.folder().join("passphrase");
    std::fs::write(&passphrase, "correct horse battery\n").expect("written");

    // Agents are created during the backups.
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
    assert!(plain.stderr.contains("providers: openai"), "omitted secrets are listed: {}", plain.stderr);
    let again = agentd(&old, &["backup", path(&archive)]).await.failure();
    assert!(again.stderr.contains("--force"), "{}", again.stderr);
    let arguments = ["backup", "--force", "--passphrase-file", path(&passphrase), path(&archive)];
    agentd(&old, &arguments).await.success();
    is_done.store(true, std::sync::atomic::Ordering::SeqCst);
    load.await.expect("no request failed");
    let archive_bytes = agentd(&old, &["backup", "-"]).await.success().stdout;
    assert!(archive_bytes.starts_with(&[0x1f, 0x8b]));

    // Restores on a running daemon.
    let mut new = TestProcess::with_owner().await;
    let own_key = new.key.clone();
    new.create_agent("other").await;
    let unasked = agentd(&new, &["restore", path(&archive)]).await.failure();
    assert!(unasked.stderr.contains("--yes"), "{}", unasked.stderr);
    let help = agentd(&new, &["restore", "--help"]).await.success();
    let help = String::from_utf8_lossy(&help.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(help.contains("the command asks for confirmation") && help.contains("--yes is required"), "{help}");
    let wrong = old.folder().join("wrong");
    std::fs::write(&wrong, "wrong horse battery").expect("written");
    let refused =
        agentd(&new, &["restore", "--yes", "--passphrase-file", path(&wrong), path(&archive)]).await.failure();
    assert!(refused.stderr.contains("passphrase"), "{}", refused.stderr);
    new.get("/api/agents/other").send().await.expect_status(200);
    let cut = old.folder().join("cut.tar.gz");
    std::fs::write(&cut, &archive_bytes[..archive_bytes.len() / 2]).expect("written");
    let refused = agentd(&new, &["restore", "--yes", path(&cut)]).await.failure();
    assert!(refused.stderr.contains("truncated"), "{}", refused.stderr);
    new.get("/api/agents/other").send().await.expect_status(200);

    let arguments = ["restore", "--yes", "--passphrase-file", path(&passphrase), path(&archive)];
    let restored = agentd(&new, &arguments).await.success();
    assert!(!restored.stderr.contains("enter them again"), "{}", restored.stderr);
    new.get("/api/agents").bearer(&own_key).send().await.expect_status(401);
    new.key = old.key.clone();
    check_restored(&new).await;
    new.get("/api/agents/other").send().await.expect_status(404);
    // The daemon continues to work, and its data survives a kill.
    new.create_agent("afterwards").await;
    new.kill();
    new.spawn().await;
    check_restored(&new).await;
    new.get("/api/agents/afterwards").send().await.expect_status(200);

    // Restores into a directory without a daemon and without the passphrase.
    let mut third = TestProcess::stopped().await;
    let restored = agentd(&third, &["restore", "--yes", path(&archive)]).await.success();
    assert!(restored.stderr.contains("providers: openai"), "{}", restored.stderr);
    third.spawn().await;
    third.key = old.key.clone();
    third.get("/api/agents/ada").send().await.expect_status(200);
}

#[tokio::test]
async fn restored_daemon_finds_exactly_the_restored_memories() {
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

/// Whether a restore is running in a data directory.
fn restore_has_begun(data_dir: &Path) -> bool {
    let names = std::fs::read_dir(data_dir).expect("the data directory");
    names.flatten().any(|entry| entry.file_name().to_string_lossy().starts_with("restore"))
}

/// A restore killed at any time leaves either the old or the new state.
#[tokio::test]
async fn killed_restore_leaves_the_old_or_the_new_state() {
    const KILLS: u32 = 10;
    let old = TestProcess::with_owner().await;
    old.create_agent("ada").await;
    std::fs::create_dir_all(old.data_dir().join("agents/ada")).expect("a workspace");
    let entropy = agentd_base::Entropy::seeded(11);
    let mut noise = vec![0; 1024 * 1024];
    for number in 0..8 {
        entropy.fill(&mut noise);
        std::fs::write(old.data_dir().join(format!("agents/ada/noise-{number}")), &noise).expect("written");
    }
    let archive = old.folder().join("backup.tar.gz");
    agentd(&old, &["backup", path(&archive)]).await.success();
    let (mut completed, mut interrupted, mut full_duration) = (0, 0, Duration::ZERO);
    for round in 0..KILLS {
        let mut new = TestProcess::with_owner().await;
        let own_key = new.key.clone();
        new.create_agent("other").await;
        std::fs::create_dir_all(new.data_dir().join("agents/other")).expect("a workspace");
        std::fs::write(new.data_dir().join("agents/other/file"), "other").expect("written");
        let mut command = new.command();
        command.args(["restore", "--yes", path(&archive)]).stdout(Stdio::null()).stderr(Stdio::null());
        let mut restoring = command.spawn().expect("the command runs");
        let ending = tokio::task::spawn_blocking(move || restoring.wait().expect("the command ends"));
        // From here on the daemon performs the restore; before, the command would do it itself.
        while !restore_has_begun(&new.data_dir()) && !ending.is_finished() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let started = Instant::now();
        // The first round measures the duration; the others are killed at evenly spaced times within it.
        let outcome = if round == 0 {
            let outcome = ending.await.expect("waited");
            full_duration = started.elapsed();
            new.kill();
            outcome
        } else {
            tokio::time::sleep(full_duration * (round - 1) / KILLS).await;
            new.kill();
            ending.await.expect("waited")
        };
        new.spawn().await;
        let is_new = new.get("/api/agents").bearer(&own_key).send().await.status == 401;
        if is_new {
            completed += 1;
            new.get("/api/agents/ada").bearer(&old.key).send().await.expect_status(200);
            new.get("/api/agents/other").bearer(&old.key).send().await.expect_status(404);
        } else {
            interrupted += 1;
            assert!(!outcome.success(), "a successful command restored the archive");
            new.get("/api/agents/other").bearer(&own_key).send().await.expect_status(200);
            new.get("/api/agents/ada").bearer(&own_key).send().await.expect_status(404);
        }
        assert_eq!(new.data_dir().join("agents/ada/noise-7").exists(), is_new, "after kill {round}");
        assert_eq!(new.data_dir().join("agents/other/file").exists(), !is_new, "after kill {round}");
        let names = std::fs::read_dir(new.data_dir()).expect("the data directory");
        let left: Vec<_> = names.filter_map(|entry| entry.expect("an entry").file_name().into_string().ok()).collect();
        assert!(left.iter().all(|name| !name.starts_with("restore")), "{left:?}");
    }
    assert!(
        completed > 0 && interrupted > 0,
        "{completed} restores completed and {interrupted} were interrupted; both must occur"
    );
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
