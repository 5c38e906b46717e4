//! Sample of `make bench-browser` and `make security` with a real Chromium.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test fails by panicking"
)]

use std::path::Path;

use agentd_browser::{Browser, BrowserOptions};
use agentd_browser_bench::reach::tries;
use agentd_browser_bench::runner::Runner;
use agentd_browser_bench::server::Site;
use agentd_browser_bench::suite::tasks;
use agentd_process::Spawner;

/// Every eleventh task, technique and host: a prime, so that no kind is omitted.
const STEP: usize = 11;

fn has_chromium() -> bool {
    if Path::new("/usr/bin/chromium").exists() {
        return true;
    }
    assert!(std::env::var_os("AGENTD_REQUIRE_CHROMIUM").is_none(), "there is no Chromium; run `make chromium`");
    eprintln!("SKIPPED: there is no Chromium; `make chromium` installs it");
    false
}

#[tokio::test(flavor = "multi_thread")]
async fn sample_of_the_suite_is_completed() {
    if !has_chromium() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let all = tasks().unwrap();
    assert!(all.len() >= 120, "{} tasks", all.len());
    let site = Site::start(all.clone()).await.unwrap();
    let options = BrowserOptions { download_directory: Some(folder.path().to_owned()), ..BrowserOptions::default() };
    let browser = Browser::new(options, Spawner::start().unwrap());
    let runner = Runner::new(&browser, site.base(), folder.path().to_owned()).await.unwrap();
    let mut failures = Vec::new();
    for task in all.iter().step_by(STEP) {
        if let Some(error) = runner.run(task).await.error {
            failures.push(format!("{}: {error}", task.name));
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn sample_of_techniques_reaches_no_forbidden_address() {
    if !has_chromium() {
        return;
    }
    let tried = tries(BrowserOptions::default(), STEP).await.unwrap();
    let arrived: Vec<_> = tried.iter().filter(|one| one.arrived.is_some()).collect();
    assert!(arrived.is_empty(), "{arrived:#?}");
    assert!(tried.iter().filter(|one| one.refused.is_some()).count() > tried.len() / 2, "{tried:#?}");
}
