//! End of Chromium: idle timeout, kill, end of the daemon, and a missing installation.

#![allow(clippy::disallowed_methods, reason = "tests inspect processes")]

use std::time::Duration;

use serde_json::{Value, json};

use super::{Pages, get, has_chromium, open, start, try_act};
use crate::cli::agentd;
use crate::support::{Eventually, TestApp, TestProcess};

#[tokio::test]
async fn idle_browser_is_closed() {
    if !has_chromium() {
        return;
    }
    let (app, pages) = start().await;
    let url = pages.page("<title>here</title>");
    open(&app, &url).await;
    app.clock.advance(Duration::from_secs(14 * 60));
    app.run_workers().await;
    // Reading the status does not count as use.
    assert_eq!(get(&app, "/api/browser/status").await["uptime_seconds"], 14 * 60);
    app.clock.advance(Duration::from_secs(61));
    app.run_workers().await;
    assert_eq!(get(&app, "/api/browser/status").await["running"], false);
    // Starting after an idle timeout is not reported as a restart.
    assert!(open(&app, &url).await.get("restarted").is_none());
}

/// Returns the process ids of the browsers that a daemon has started.
fn browsers_of(daemon: u32) -> Vec<u32> {
    let pids = std::fs::read_dir("/proc")
        .expect("proc")
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_browser = |pid: &u32| {
        let parent = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let parent = parent.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1)?.parse::<u32>().ok());
        let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        parent == Some(daemon) && String::from_utf8_lossy(&command).contains("--remote-debugging-pipe")
    };
    pids.filter(is_browser).collect()
}

/// Counts the processes that use this profile, including renderers.
fn processes_on(profile: &str) -> usize {
    let entries = std::fs::read_dir("/proc").expect("proc").flatten();
    let works = |entry: &std::fs::DirEntry| {
        let command = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&command).contains(profile)
    };
    entries.filter(works).count()
}

fn profile_of(browser: u32) -> String {
    let command = std::fs::read(format!("/proc/{browser}/cmdline")).expect("a command");
    let command = String::from_utf8_lossy(&command).into_owned();
    // Chromium rewrites its arguments, separated by spaces.
    let profile = command.split(['\0', ' ']).find_map(|argument| argument.strip_prefix("--user-data-dir="));
    profile.expect("a profile").to_owned()
}

async fn drive_by_command_line(daemon: &TestProcess, pages: &Pages) {
    let url = pages.page("<title>shop</title><button onclick=\"document.title = 'sold'\">Buy</button>");
    let run = async |arguments: &[&str]| {
        let ran = agentd(daemon, &[&["browser"], arguments].concat()).await.success();
        String::from_utf8(ran.stdout).expect("text")
    };
    assert_eq!(run(&["open", &url]).await, format!("{url}\nshop\n@1 button \"Buy\"\n"));
    assert!(run(&["act", "click", "selector=@1", "timeout_ms=5000"]).await.contains("\nsold\n"));
    assert!(run(&["snapshot", "--json"]).await.contains("\"element_count\": 1"));
    let file = daemon.folder().join("page.jpg");
    run(&["screenshot", file.to_str().expect("a path"), "--full-page"]).await;
    assert_eq!(std::fs::read(&file).expect("a picture")[..2], *b"\xff\xd8");
    let refused = agentd(daemon, &["browser", "act", "dance"]).await.failure();
    assert!(refused.stderr.contains("drag_and_drop"), "{}", refused.stderr);
}

#[tokio::test]
async fn killed_browser_is_restarted_and_none_outlives_its_daemon() {
    if !has_chromium() {
        return;
    }
    let mut daemon = TestProcess::with_owner().await;
    let allow = json!({"ssrf_allowlist": ["127.0.0.1"]});
    daemon.put("/api/browser/config").json(&allow).send().await.expect_status(200);
    let pages = Pages::serve().await;
    let goto = json!({"action": "goto", "url": pages.page("<title>here</title>")});
    let act = async |daemon: &TestProcess| -> Value {
        daemon.post("/api/browser/action").json(&goto).send().await.expect_status(200).json()
    };
    act(&daemon).await;
    let first = browsers_of(daemon.id());
    let [killed] = first[..] else { panic!("{first:?}") };
    std::process::Command::new("kill").args(["-9", &killed.to_string()]).status().expect("kill");
    let mut eventually = Eventually::new();
    while daemon.get("/api/browser/status").send().await.json()["running"] == true {
        eventually.retry().await;
    }
    let again = act(&daemon).await;
    assert_eq!((&again["restarted"], &again["title"]), (&json!(true), &json!("here")));
    assert!(act(&daemon).await.get("restarted").is_none(), "the restart is reported once");

    let second = browsers_of(daemon.id());
    let [browser] = second[..] else { panic!("{second:?}") };
    let profile = profile_of(browser);
    daemon.kill();
    let mut eventually = Eventually::new();
    while processes_on(&profile) > 0 {
        eventually.retry().await;
    }
    // The next daemon removes the profile of a killed one; a clean shutdown removes its own.
    daemon.spawn().await;
    let mut eventually = Eventually::new();
    while std::path::Path::new(&profile).exists() {
        eventually.retry_with(&profile).await;
    }
    act(&daemon).await;
    drive_by_command_line(&daemon, &pages).await;
    let third = browsers_of(daemon.id());
    let profile = profile_of(third[0]);
    assert!(daemon.terminate().await.success());
    let mut eventually = Eventually::new();
    while processes_on(&profile) > 0 {
        eventually.retry().await;
    }
    assert!(!std::path::Path::new(&profile).exists(), "{profile} still exists");
}

#[tokio::test]
async fn missing_chromium_is_reported_with_installation_instructions() {
    let mut app = TestApp::start_with(|source| source.browser_path = Some("/nowhere/chromium".into())).await;
    app.create_owner().await;
    let refused = try_act(&app, json!({"action": "goto", "url": "https://example.com"})).await;
    let text = refused.expect_error(503, "browser_unavailable").text();
    assert!(text.contains("/nowhere/chromium") && text.contains("apt-get install chromium"), "{text}");
    app.post("/api/browser/tabs").send().await.expect_error(503, "browser_unavailable");
    assert_eq!(get(&app, "/api/browser/status").await["running"], false);
}
