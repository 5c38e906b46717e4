//! Effect of hostile pages on other users of a browser, and leaks after 200 opened and closed browsers and tabs.
//! Options: `--cycles N`, `--only WORDS` of an attack's name.

#![allow(clippy::print_stdout, reason = "the program prints its results")]

use std::path::Path;
use std::process::ExitCode;

use agentd_browser::{Action, Browser, BrowserLimits, BrowserOptions};
use agentd_browser_bench::Outcome;
use agentd_browser_bench::hostile::{ATTACKS, survive};
use agentd_browser_bench::server::Site;
use agentd_process::Spawner;

/// Number of tabs after which Chromium is restarted.
const TABS_PER_BROWSER: usize = 5;
/// Maximum stall of this process, which represents the daemon, in milliseconds.
const MAX_STALL_MS: f64 = 250.0;

/// Resources of this process.
#[derive(Debug, Clone, Copy)]
struct Held {
    descriptors: usize,
    threads: u64,
    resident_kib: u64,
    processes: usize,
    folders: usize,
}

impl std::fmt::Display for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { descriptors, threads, resident_kib, processes, folders } = self;
        write!(
            f,
            "{descriptors} descriptors, {threads} threads, {resident_kib} KiB resident, {processes} processes of Chromium, {folders} folders"
        )
    }
}

fn held(folder: &Path) -> Outcome<Held> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let field = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).unwrap_or_default()
    };
    let own = std::process::id().to_string();
    let processes = std::fs::read_dir("/proc")?.flatten().filter(|entry| {
        // The environment of its Chromium contains the folder of this run.
        std::fs::read(entry.path().join("environ")).is_ok_and(|environment| {
            let wanted = folder.as_os_str().as_encoded_bytes();
            entry.file_name().to_string_lossy() != own && environment.windows(wanted.len()).any(|part| part == wanted)
        })
    });
    Ok(Held {
        descriptors: std::fs::read_dir("/proc/self/fd")?.count(),
        threads: field("Threads:"),
        resident_kib: field("VmRSS:"),
        processes: processes.count(),
        folders: std::fs::read_dir(folder)?.count(),
    })
}

async fn cycles(options: &BrowserOptions, spawner: &Spawner, site: &Site, count: usize) -> Outcome<bool> {
    let mut first = None;
    let mut last = held(&options.temporary_directory)?;
    for cycle in 0..count.div_ceil(TABS_PER_BROWSER) {
        let browser = Browser::new(options.clone(), spawner.clone());
        for _ in 0..TABS_PER_BROWSER {
            let context = browser.context().await?;
            let tab = context.open_tab().await?;
            tab.act(Action::Goto { url: format!("{}/buttons?count=50", site.base()), wait_until: None }).await?;
            tab.snapshot(false).await?;
            tab.act(Action::Click { selector: "@7".to_owned() }).await?;
            context.close_tab(tab.id()).await?;
        }
        browser.close().await;
        drop(browser);
        last = settled(&options.temporary_directory).await?;
        if cycle == 1 {
            first = Some(last);
        }
    }
    let first = first.unwrap_or(last);
    println!("after {:>3} tabs: {first}\nafter {count:>3} tabs: {last}", 2 * TABS_PER_BROWSER);
    Ok(last.processes == 0 && last.folders == 0 && last.descriptors <= first.descriptors)
}

/// Waits after the end of a browser until its processes and its folder are gone.
async fn settled(folder: &Path) -> Outcome<Held> {
    for _ in 0..200 {
        let now = held(folder)?;
        if now.processes == 0 && now.folders == 0 {
            return Ok(now);
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    held(folder)
}

#[tokio::main]
async fn main() -> Outcome<ExitCode> {
    let (mut count, mut only) = (200, String::new());
    let mut given = std::env::args().skip(1);
    while let Some(name) = given.next() {
        let value = given.next().ok_or_else(|| format!("{name} needs a value"))?;
        match &*name {
            "--cycles" => count = value.parse()?,
            "--only" => only = value,
            other => return Err(format!("there is no {other}").into()),
        }
    }
    let site = Site::start(Vec::new()).await?;
    let (folder, downloads) = (tempfile::Builder::new().prefix("agentd-hostile").tempdir()?, tempfile::tempdir()?);
    // Chromium's user must be able to access it.
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    let limits = BrowserLimits { download_bytes: 8 << 20, process_bytes: 2 << 30, ..BrowserLimits::default() };
    let options = BrowserOptions {
        temporary_directory: folder.path().to_owned(),
        download_directory: Some(downloads.path().to_owned()),
        limits,
        ..BrowserOptions::default()
    };
    let spawner = Spawner::start()?;
    let mut is_well = true;
    if only.is_empty() {
        is_well = cycles(&options, &spawner, &site, count).await?;
    }
    println!(
        "milliseconds: how long this process stood still at most, a click in a new tab after the attack, clicks in another"
    );
    println!("tab of the same Chromium meanwhile (those that failed tenfold)");
    println!("{:<38} {:>6} {:>6} {:>8} {:>8} {:>5}  what it came to", "", "stall", "after", "median", "most", "times");
    let browser = Browser::new(options, spawner);
    for attack in ATTACKS.iter().filter(|attack| attack.name.contains(&only)) {
        let survived = survive(&browser, &site.base(), *attack).await?;
        let steps: Vec<String> =
            survived.steps.iter().map(|(step, came_to, took)| format!("{step} {came_to} {took} ms")).collect();
        let (median, most) = (survived.neighbour.median(), survived.neighbour.percentile(1.0));
        let (stall, after) = (survived.stall_ms, survived.afterwards_ms);
        // A Chromium that was ended by an attack is restarted.
        let is_closed =
            survived.steps.last().is_some_and(|(_, came_to, _)| ["done", "browser_ended"].contains(&&**came_to));
        let is_survived = is_closed && stall < MAX_STALL_MS;
        is_well &= is_survived;
        let mark = if is_survived { "" } else { "  FAILED" };
        println!(
            "{:<38} {stall:>6.0} {after:>6.0} {median:>8.0} {most:>8.0} {:>5}  {}{mark}",
            attack.name,
            survived.neighbour.len(),
            steps.join(", ")
        );
    }
    println!("Chromium was started {} times for these", browser.starts());
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
