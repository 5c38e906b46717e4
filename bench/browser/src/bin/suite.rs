//! Browser suite: pages with a task each, compared with Playwright and the same Chromium in the same run, alternating
//! by task; and the duration of a launch, a click and a snapshot.
//!
//! Options: `--runs N`, `--only WORDS` of a task's name, `--alone` without Playwright.

#![allow(clippy::print_stdout, reason = "the program prints its results")]

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Instant;

use agentd_browser::{Action, Browser, BrowserOptions, ElementState, StorageState};
use agentd_browser_bench::Outcome;
use agentd_browser_bench::figures::Sample;
use agentd_browser_bench::peer::Playwright;
use agentd_browser_bench::runner::{Ran, Runner};
use agentd_browser_bench::server::Site;
use agentd_browser_bench::suite::{Task, tasks};
use agentd_process::Spawner;

const LAUNCHES: usize = 7;
const CLICKS: usize = 60;
const SNAPSHOTS: usize = 15;

struct Arguments {
    runs: usize,
    only: String,
    is_alone: bool,
}

fn arguments() -> Outcome<Arguments> {
    let mut arguments = Arguments { runs: 3, only: String::new(), is_alone: false };
    let mut given = std::env::args().skip(1);
    while let Some(name) = given.next() {
        match &*name {
            "--runs" => arguments.runs = given.next().ok_or("--runs needs a number")?.parse()?,
            "--only" => arguments.only = given.next().ok_or("--only needs words")?,
            "--alone" => arguments.is_alone = true,
            other => return Err(format!("there is no {other}").into()),
        }
    }
    Ok(arguments)
}

/// Results of all runs of one side.
#[derive(Default)]
struct Side {
    done: usize,
    failures: BTreeMap<String, String>,
    /// Milliseconds by kind of action, of tasks completed by both sides.
    by_action: BTreeMap<String, Vec<f64>>,
}

impl Side {
    fn count(&mut self, task: &Task, ran: &Ran) {
        match &ran.error {
            None => self.done += 1,
            Some(error) => {
                self.failures.insert(task.name.clone(), error.clone());
            }
        }
    }

    fn time(&mut self, task: &Task, ran: &Ran) {
        let kinds = std::iter::once("goto").chain(task.steps.iter().filter_map(|step| step["action"].as_str()));
        for (kind, took) in kinds.zip(&ran.steps) {
            self.by_action.entry(kind.to_owned()).or_default().push(*took);
        }
    }

    #[allow(clippy::cast_precision_loss, reason = "counts are small")]
    fn mean(&self) -> f64 {
        let all: Vec<f64> = self.by_action.values().flatten().copied().collect();
        all.iter().sum::<f64>() / all.len().max(1) as f64
    }

    fn report(&self, who: &str, of: usize) {
        println!("{who}: {} of {of} tasks done", self.done);
        for (task, error) in &self.failures {
            println!("  not done: {task}: {error}");
        }
    }
}

async fn suite(
    arguments: &Arguments,
    browser: &Browser,
    peer: &mut Option<Playwright>,
    site: &Site,
    all: &[Task],
) -> Outcome<bool> {
    let (mut ours, mut theirs) = (Side::default(), Side::default());
    let folder = tempfile::tempdir()?;
    let runner = Runner::new(browser, site.base(), folder.path().to_owned()).await?;
    for _ in 0..arguments.runs {
        for task in all {
            let ran = runner.run(task).await;
            if let Some(error) = &ran.error {
                println!("not done: {}: {error}", task.name);
            }
            ours.count(task, &ran);
            let Some(peer) = peer.as_mut() else {
                ours.time(task, &ran);
                continue;
            };
            let other = peer.run(task).await?;
            theirs.count(task, &other);
            if ran.error.is_none() && other.error.is_none() {
                ours.time(task, &ran);
                theirs.time(task, &other);
            }
        }
    }
    let of = all.len() * arguments.runs;
    println!("{} tasks, {} runs", all.len(), arguments.runs);
    ours.report("agentd", of);
    if peer.is_some() {
        theirs.report("Playwright", of);
    }
    println!("{:<24} {:>6} {:>12} {:>14}", "milliseconds, median", "times", "agentd", "Playwright");
    for (kind, times) in &ours.by_action {
        let other = theirs.by_action.get(kind).map(|times| Sample::new(times.clone()).median());
        let (count, median) = (times.len(), Sample::new(times.clone()).median());
        println!("{kind:<24} {count:>6} {median:>12.1} {:>14.1}", other.unwrap_or_default());
    }
    println!(
        "time an action, mean: agentd {:.1} ms, Playwright {:.1} ms, ratio {:.2}",
        ours.mean(),
        theirs.mean(),
        ours.mean() / theirs.mean()
    );
    Ok(ours.done == of)
}

/// Whether each side accepts the saved state of the other.
async fn states(browser: &Browser, peer: &mut Playwright, site: &Site) -> Outcome<bool> {
    const KEPT: &str = "kept=yes ä \u{2603} 250 12 7";
    let url = format!("{}/remember", site.base());
    let goto = || Action::Goto { url: url.clone(), wait_until: None };
    let done = || Action::WaitForSelector { selector: "#done".to_owned(), state: Some(ElementState::Attached) };
    let context = browser.context().await?;
    let tab = context.open_tab().await?;
    tab.act(goto()).await?;
    tab.act(done()).await?;
    let state = serde_json::to_value(context.storage_state().await?.state)?;
    let there = peer.title_with(&state, &url).await?;
    let state: StorageState = serde_json::from_value(peer.state_after(&url).await?)?;
    let context = browser.context().await?;
    context.restore_storage_state(&state).await?;
    let tab = context.open_tab().await?;
    tab.act(goto()).await?;
    let here = tab.act(done()).await?.title;
    println!("states: ours in Playwright {there:?}, Playwright's here {here:?}");
    Ok(there == KEPT && here == KEPT)
}

async fn timed(times: usize, mut work: impl AsyncFnMut() -> Outcome<()>) -> Outcome<Sample> {
    let mut taken = Vec::new();
    for _ in 0..times {
        let started = Instant::now();
        work().await?;
        taken.push(started.elapsed().as_secs_f64() * 1e3);
    }
    Ok(Sample::new(taken))
}

fn print(what: &str, ours: &Sample, theirs: Option<Sample>) {
    let theirs = theirs.map(|sample| format!("   Playwright: {sample}")).unwrap_or_default();
    println!("{what:<40} {ours}{theirs}");
}

async fn figures(browser: &Browser, spawner: &Spawner, peer: &mut Option<Playwright>, site: &Site) -> Outcome<()> {
    let here = || Action::Goto { url: format!("{}/here", site.base()), wait_until: None };
    let mut open = Vec::new();
    let launch = timed(LAUNCHES, async || {
        let browser = Browser::new(BrowserOptions::default(), spawner.clone());
        let context = browser.context().await?;
        context.open_tab().await?.act(here()).await?;
        open.push((browser, context));
        Ok(())
    })
    .await?;
    for (browser, _) in &open {
        browser.close().await;
    }
    let mut others = BTreeMap::new();
    if let Some(peer) = peer.as_mut() {
        others.insert("launch", Sample::new(peer.measure("launch", LAUNCHES).await?));
        others.insert("click", Sample::new(peer.measure("click", CLICKS).await?));
    }
    let context = browser.context().await?;
    let tab = context.open_tab().await?;
    tab.act(here()).await?;
    let click = timed(CLICKS, async || {
        tab.act(Action::Click { selector: "text=Here".to_owned() }).await?;
        Ok(())
    })
    .await?;
    println!("milliseconds");
    print("launch to the first page", &launch, others.remove("launch"));
    print("click with all waits", &click, others.remove("click"));
    for count in [10, 500, 2_000] {
        let url = format!("{}/buttons?count={count}", site.base());
        tab.act(Action::Goto { url, wait_until: None }).await?;
        let snapshot = timed(SNAPSHOTS, async || {
            tab.snapshot(false).await?;
            Ok(())
        })
        .await?;
        print(&format!("snapshot of {count} buttons"), &snapshot, None);
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Outcome<ExitCode> {
    let arguments = arguments()?;
    let all = tasks()?;
    let site = Site::start(all.clone()).await?;
    let chosen: Vec<Task> = all.into_iter().filter(|task| task.name.contains(&arguments.only)).collect();
    let folder = tempfile::tempdir()?;
    let upload = folder.path().join("upload.txt");
    std::fs::write(&upload, [b'u'; 1_000])?;
    let mut peer = match arguments.is_alone {
        true => None,
        false => Some(Playwright::start(&site.base(), &upload.display().to_string()).await?),
    };
    let spawner = Spawner::start()?;
    let options = BrowserOptions { download_directory: Some(folder.path().to_owned()), ..BrowserOptions::default() };
    let browser = Browser::new(options, spawner.clone());
    let mut is_whole = suite(&arguments, &browser, &mut peer, &site, &chosen).await?;
    if let Some(peer) = peer.as_mut() {
        is_whole &= states(&browser, peer, &site).await?;
    }
    if arguments.only.is_empty() {
        figures(&browser, &spawner, &mut peer, &site).await?;
    }
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
