//! Chromium process: user, sandbox, limits and cleanup.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use agentd_browser::{BrowserLimits, BrowserOptions, DownloadState};
use futures_util::future::join_all;
use serde_json::json;

use crate::support::{SOON, act, click, eventually, new_browser, options, page, run, try_act};

#[test]
fn page_that_blocks_the_browser_is_killed_alone() {
    run(async {
        let limits = BrowserLimits { response_timeout: Duration::from_secs(20), ..BrowserLimits::default() };
        let browser = new_browser(BrowserOptions { limits, ..options() });
        let context = browser.context().await.unwrap();
        let (calm, busy) = (context.open_tab().await.unwrap(), context.open_tab().await.unwrap());
        act(&calm, json!({"action": "goto", "url": page("<title>calm</title><button>b</button>").await})).await;
        let html = "<button onclick='setTimeout(() => { for (;;); }, 3000)'>Work</button>";
        // Another site, so that the two pages have separate processes.
        let url = page(html).await.replace("127.0.0.1", "localhost");
        act(&busy, json!({"action": "goto", "url": url})).await;
        click(&busy, "text=Work").await;
        let pid = browser.process().await.unwrap().1;
        let before = renderers(pid).len();
        // Simulates a browser that is flooded with work.
        signal(i32::try_from(pid).unwrap(), rustix::process::Signal::STOP);
        eventually("the end of a page's process", || (renderers(pid).len() < before).then_some(())).await;
        signal(i32::try_from(pid).unwrap(), rustix::process::Signal::CONT);
        let error = try_act(&busy, json!({"action": "click", "selector": "text=Work"})).await.unwrap_err();
        assert_eq!(error.code(), "tab_crashed", "{error}");
        assert_eq!(click(&calm, "text=b").await.title, "calm");
        assert_eq!((browser.starts(), context.is_ended()), (1, false));
    });
}

#[test]
fn page_in_a_reload_loop_is_closed_alone() {
    run(async {
        let browser = new_browser(options());
        let context = browser.context().await.unwrap();
        let (calm, busy) = (context.open_tab().await.unwrap(), context.open_tab().await.unwrap());
        act(&calm, json!({"action": "goto", "url": page("<title>calm</title><button>b</button>").await})).await;
        let again = "function again() { location.reload(); setTimeout(again, 0) } again()";
        let url = format!("data:text/html,<script>{again}</script>");
        let went = try_act(&busy, json!({"action": "goto", "url": url, "timeout_ms": 60_000})).await;
        let error = went.unwrap_err();
        assert_eq!(error.code(), "limit_exceeded", "{error}");
        eventually("the end of the tab", || (context.tabs().len() == 1).then_some(())).await;
        assert_eq!(click(&calm, "text=b").await.title, "calm");
        assert_eq!((browser.starts(), context.is_ended()), (1, false));
    });
}

/// Returns the renderer processes of a Chromium.
fn renderers(chromium: u32) -> Vec<String> {
    let parent = |process: &String| Some(format!("/proc/{}", status(process, "PPid"))).filter(|it| it != "/proc/");
    let mut all = processes("--type=renderer");
    all.retain(|process| {
        std::iter::successors(Some(process.clone()), parent).take(8).any(|at| at == format!("/proc/{chromium}"))
    });
    all
}

/// Returns the `/proc` directories of processes whose command line contains `needle`.
fn processes(needle: &str) -> Vec<String> {
    let entries = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    entries
        .filter(|path| fs::read(path.join("cmdline")).is_ok_and(|line| String::from_utf8_lossy(&line).contains(needle)))
        .filter(|path| !status(path, "State").starts_with('Z'))
        .map(|path| path.display().to_string())
        .collect()
}

fn status(process: impl AsRef<Path>, field: &str) -> String {
    let text = fs::read_to_string(process.as_ref().join("status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.unwrap_or_default().trim().to_owned()
}

fn kill(process: i32) {
    signal(process, rustix::process::Signal::KILL);
}

fn signal(process: i32, signal: rustix::process::Signal) {
    let process = rustix::process::Pid::from_raw(process).unwrap();
    rustix::process::kill_process(process, signal).unwrap();
}

/// Returns the temporary directory of a Chromium from its command line.
fn folder(pid: u32) -> String {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap();
    let line = String::from_utf8_lossy(&line).into_owned();
    let profile = line.split(['\0', ' ']).find_map(|argument| argument.strip_prefix("--user-data-dir=")).unwrap();
    profile.strip_suffix("/profile").unwrap().to_owned()
}

#[test]
fn chromium_has_a_dedicated_user_and_a_sandbox() {
    run(async {
        let browser = new_browser(options());
        let context = browser.context().await.unwrap();
        let tab = context.open_tab().await.unwrap();
        act(&tab, json!({"action": "goto", "url": page("<title>x</title>").await})).await;
        let (version, pid) = browser.process().await.unwrap();
        assert!(version.starts_with("Chrome/"), "{version}");
        let all = processes(&folder(pid));
        assert!(all.len() >= 3, "{all:?}");
        for process in &all {
            let line = String::from_utf8_lossy(&fs::read(format!("{process}/cmdline")).unwrap()).into_owned();
            assert!(!line.contains("--no-sandbox"), "{line}");
            if rustix::process::geteuid().is_root() {
                assert!(!status(process, "Uid").split_whitespace().any(|id| id == "0"), "{process} runs as root");
                assert_eq!(status(process, "Groups"), "");
            }
            if line.contains("--type=renderer") {
                assert_eq!(status(process, "Seccomp"), "2", "a renderer without a filter");
                assert_eq!(status(process, "CapEff"), "0000000000000000");
                assert!(status(process, "NSpid").split_whitespace().count() >= 2, "a renderer sees other processes");
            }
        }
    });
}

#[test]
fn dropped_browser_leaves_no_process_or_directory() {
    run(async {
        let browser = new_browser(options());
        let context = browser.context().await.unwrap();
        let tab = context.open_tab().await.unwrap();
        act(&tab, json!({"action": "goto", "url": page("<title>x</title>").await})).await;
        let folder = folder(browser.process().await.unwrap().1);
        assert!(Path::new(&folder).exists());
        drop((tab, context, browser));
        eventually("the end of its processes", || processes(&folder).is_empty().then_some(())).await;
        eventually("the removal of its folder", || (!Path::new(&folder).exists()).then_some(())).await;
    });
}

#[test]
fn killed_browser_is_detected_and_replaced() {
    run(async {
        let browser = new_browser(options());
        let context = browser.context().await.unwrap();
        let tab = context.open_tab().await.unwrap();
        let waiting = try_act(&tab, json!({"action": "wait_for_selector", "selector": "#never", "timeout_ms": 60_000}));
        let (_, pid) = browser.process().await.unwrap();
        let killing = async {
            tokio::task::yield_now().await;
            kill(i32::try_from(pid).unwrap());
        };
        let (waited, ()) = tokio::join!(waiting, killing);
        assert_eq!(waited.unwrap_err().code(), "browser_ended");
        assert_eq!(try_act(&tab, json!({"action": "reload"})).await.unwrap_err().code(), "browser_ended");
        assert!(context.is_ended());
        let context = browser.context().await.unwrap();
        assert_eq!(browser.starts(), 2);
        let tab = context.open_tab().await.unwrap();
        assert_eq!(
            act(&tab, json!({"action": "goto", "url": page("<title>again</title>").await})).await.title,
            "again"
        );
    });
}

#[test]
fn crashed_tab_is_reported_and_reusable() {
    run(async {
        let browser = new_browser(options());
        let context = browser.context().await.unwrap();
        let tab = context.open_tab().await.unwrap();
        act(&tab, json!({"action": "goto", "url": page("<title>x</title>").await})).await;
        let waiting = try_act(&tab, json!({"action": "wait_for_selector", "selector": "#never"}));
        let folder = folder(browser.process().await.unwrap().1);
        let killing = async {
            tokio::task::yield_now().await;
            for process in processes(&folder) {
                if fs::read_to_string(format!("{process}/cmdline")).is_ok_and(|line| line.contains("--type=renderer")) {
                    kill(process.rsplit('/').next().unwrap().parse().unwrap());
                }
            }
        };
        let (waited, ()) = tokio::join!(waiting, killing);
        assert_eq!(waited.unwrap_err().code(), "tab_crashed");
        assert!(tab.info().crashed);
        assert_eq!(try_act(&tab, json!({"action": "reload"})).await.unwrap_err().code(), "tab_crashed");
        let url = page("<title>back</title><button onclick=\"document.title = 'used'\">b</button>").await;
        assert_eq!(act(&tab, json!({"action": "goto", "url": url})).await.title, "back");
        assert_eq!(click(&tab, "text=b").await.title, "used");
    });
}

#[test]
fn page_that_exhausts_memory_crashes_alone() {
    run(async {
        let limits = BrowserLimits { process_bytes: 1 << 30, ..BrowserLimits::default() };
        let browser = new_browser(BrowserOptions { limits, ..options() });
        let context = browser.context().await.unwrap();
        let other = context.open_tab().await.unwrap();
        act(&other, json!({"action": "goto", "url": page("<title>other</title><button>b</button>").await})).await;
        let tab = context.open_tab().await.unwrap();
        let greedy = "<button onclick=\"try { for (const all = [];;) all.push(new Uint8Array(1 << 27).fill(1)) } \
            catch { document.title = 'refused' }\">Take</button>";
        // Another site, so that the two pages have separate processes.
        let url = page(greedy).await.replace("127.0.0.1", "localhost");
        act(&tab, json!({"action": "goto", "url": url})).await;
        match try_act(&tab, json!({"action": "click", "selector": "text=Take", "timeout_ms": 30_000})).await {
            Ok(outcome) => assert_eq!(outcome.title, "refused"),
            Err(error) => assert_eq!(error.code(), "tab_crashed", "{error}"),
        }
        assert_eq!(click(&other, "text=b").await.title, "other");
    });
}

#[test]
fn unresponsive_browser_is_killed() {
    run(async {
        // Startup may be slow; only the time after it is measured.
        let limits = BrowserLimits { response_timeout: Duration::from_secs(3), ..BrowserLimits::default() };
        let browser = new_browser(BrowserOptions { limits, ..options() });
        let context = browser.context().await.unwrap();
        let tab = context.open_tab().await.unwrap();
        let pid = browser.process().await.unwrap().1;
        let folder = folder(pid);
        signal(i32::try_from(pid).unwrap(), rustix::process::Signal::STOP);
        let error = try_act(&tab, json!({"action": "reload", "timeout_ms": 60_000})).await.unwrap_err();
        assert_eq!(error.code(), "browser_ended");
        assert!(error.to_string().contains("it does not respond"), "{error}");
        eventually("the end of its processes", || processes(&folder).is_empty().then_some(())).await;
        browser.context().await.unwrap();
    });
}

#[test]
fn tab_limit_is_enforced() {
    run(async {
        let limits = BrowserLimits { tabs: 2, ..BrowserLimits::default() };
        let browser = new_browser(BrowserOptions { limits, ..options() });
        let context = browser.context().await.unwrap();
        let opened = join_all((0..5).map(|_| context.open_tab())).await;
        let (there, refused): (Vec<_>, Vec<_>) = opened.into_iter().partition(Result::is_ok);
        let codes: Vec<_> = refused.into_iter().filter_map(|refused| Some(refused.err()?.code())).collect();
        assert_eq!((there.len(), codes), (2, vec!["too_many_tabs"; 3]));
        let [tab, other] = [0, 1].map(|index| there[index].as_ref().unwrap());
        context.close_tab(other.id()).await.unwrap();
        let url = page("<button onclick=\"window.open('/0'); document.title = 'opened'\">Open</button>").await;
        act(tab, json!({"action": "goto", "url": url})).await;
        for _ in 0..3 {
            assert_eq!(click(tab, "text=Open").await.title, "opened");
        }
        assert_eq!(context.tabs().len(), 2);
        assert_eq!(context.open_tab().await.unwrap_err().code(), "too_many_tabs");
    });
}

#[test]
fn total_download_size_is_limited() {
    run(async {
        let limits = BrowserLimits {
            downloads: 2,
            // Far above the limit, so that late accounting does not matter.
            download_bytes: 1 << 40,
            downloads_bytes: 30 << 20,
            ..BrowserLimits::default()
        };
        let browser = new_browser(BrowserOptions { limits, ..options() });
        let context = browser.context().await.unwrap();
        let tab = context.open_tab().await.unwrap();
        let html = "<script>const load = (path, name) => Object.assign(document.createElement('a'), { href: path,
            download: name }).click()</script><button onclick=\"for (let i = 0; i < 4; i++) load('/endless-file?' + i, 'b')\">
            Many</button><button onclick=\"load('data:,x', 'small')\">One</button>";
        act(&tab, json!({"action": "goto", "url": page(html).await})).await;
        click(&tab, "text=Many").await;
        eventually("the end of all downloads", || {
            let all = context.downloads();
            (all.len() == 4 && all.iter().all(|one| one.state == DownloadState::Failed)).then_some(())
        })
        .await;
        let errors: Vec<_> = context.downloads().into_iter().filter_map(|one| one.error).collect();
        let with = |words: &str| errors.iter().filter(|error| error.contains(words)).count();
        assert_eq!((with("concurrent downloads reached (2)"), with("downloads of this session")), (2, 2), "{errors:?}");
        // Failed downloads do not count towards the limit.
        click(&tab, "text=One").await;
        let kept = context.wait_for_download(SOON, |one| one.state == DownloadState::Done).await.unwrap();
        assert_eq!(kept.size_bytes, 1);
    });
}

#[test]
fn missing_chromium_error_names_the_package() {
    run(async {
        let missing = BrowserOptions { executable: Some("/nowhere/chromium".into()), ..options() };
        let error = new_browser(missing).context().await.unwrap_err();
        assert_eq!(error.code(), "browser_unavailable");
        assert!(error.to_string().contains("/nowhere/chromium"), "{error}");
        let other = BrowserOptions { executable: Some("/bin/true".into()), ..options() };
        assert_eq!(new_browser(other).context().await.unwrap_err().code(), "browser_unavailable");
    });
}

/// Not a test: the process that the next test kills.
#[test]
#[ignore = "started by the test that kills it"]
fn daemon_process() {
    run(async {
        let browser = new_browser(options());
        let context = browser.context().await.unwrap();
        let tab = context.open_tab().await.unwrap();
        act(&tab, json!({"action": "goto", "url": page("<title>x</title>").await})).await;
        println!("\nfolder {}", folder(browser.process().await.unwrap().1));
        std::future::pending::<()>().await;
    });
}

#[test]
#[allow(clippy::disallowed_methods, reason = "what is killed is a process of its own")]
fn killed_daemon_leaves_no_process_and_the_next_start_removes_its_directory() {
    run(async {
        let mut daemon = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "--nocapture", "process::daemon_process"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(daemon.stdout.take().unwrap()).lines();
        let folder =
            lines.map_while(Result::ok).find_map(|line| line.strip_prefix("folder ").map(str::to_owned)).unwrap();
        assert!(processes(&folder).len() >= 3);
        daemon.kill().unwrap();
        daemon.wait().unwrap();
        eventually("the end of its processes", || processes(&folder).is_empty().then_some(())).await;
        // The next browser to start removes it.
        let _context = new_browser(options()).context().await.unwrap();
        assert!(!Path::new(&folder).exists());
    });
}
