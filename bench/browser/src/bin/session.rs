//! Browser as offered by the daemon: cost of a session, duration of actions over HTTP, cost of a stream for one client
//! and for twenty, and growth over many actions.
//!
//! Runs `--minutes N` of actions (2 by default), after 200 opened and closed tabs. A failed round of actions (for
//! example a page that did not load in time) is printed and counted; one in a thousand is tolerated.

#![allow(clippy::print_stdout, reason = "the program prints its results")]

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use agentd_browser_bench::Outcome;
use agentd_browser_bench::daemon::{DaemonUnderTest, processor_time_of};
use agentd_browser_bench::figures::Sample;
use agentd_browser_bench::load::request;
use agentd_browser_bench::server::Site;
use futures_util::StreamExt;
use serde_json::{Value, json};
use tokio_tungstenite::client_async;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

const CLICKS: usize = 60;
const SNAPSHOTS: usize = 15;
const TABS: usize = 200;
const CLIENTS: usize = 20;
const STREAM: Duration = Duration::from_secs(20);
/// Pause between two rounds of actions, which keeps the machine usable for hours.
const REST: Duration = Duration::from_millis(200);
const MAX_GROWTH_MIB: f64 = 10.0;
const MAX_STREAM_RATIO: f64 = 1.3;
/// Page that changes continuously.
const CHANGING: &str = "<h1 id=a style='font-size:80px'>0</h1><script>setInterval(() => a.textContent = Number(a.textContent) + 1, 50)</script>";

struct Session {
    daemon: DaemonUnderTest,
    /// Parent of its Chromium's folder.
    temporary: PathBuf,
    base: String,
}

/// Resources of the daemon and its browser.
#[derive(Debug, Clone, Copy)]
struct Held {
    resident_mib: f64,
    descriptors: usize,
    processes: usize,
}

impl Session {
    fn act(&self, action: &Value) -> Outcome<Value> {
        self.daemon.call("POST", "/api/browser/action", action)
    }

    fn goto(&self, path: &str) -> Outcome<Value> {
        self.act(&json!({"action": "goto", "url": format!("{}{path}", self.base)}))
    }

    /// Shows a page without a server.
    fn show(&self, html: &str) -> Outcome<Value> {
        let encoded: String = url::form_urlencoded::byte_serialize(html.as_bytes()).collect();
        let url = format!("data:text/html,{}", encoded.replace('+', "%20"));
        self.act(&json!({"action": "goto", "url": url}))
    }

    fn click(&self) -> Outcome<Value> {
        self.act(&json!({"action": "click", "selector": "text=Here"}))
    }

    fn snapshot(&self) -> Outcome<Value> {
        self.daemon.call("GET", "/api/browser/snapshot", &Value::Null)
    }

    /// Performs five requests.
    fn round(&self) -> Outcome<()> {
        self.goto("/here")?;
        self.click()?;
        self.snapshot()?;
        self.goto("/buttons?count=100")?;
        self.act(&json!({"action": "scroll", "x": 0, "y": 400}))?;
        Ok(())
    }

    fn timed(&self, times: usize, mut work: impl FnMut() -> Outcome<Value>) -> Outcome<Sample> {
        let mut taken = Vec::new();
        for _ in 0..times {
            let started = Instant::now();
            work()?;
            taken.push(started.elapsed().as_secs_f64() * 1e3);
        }
        Ok(Sample::new(taken))
    }

    #[allow(clippy::cast_precision_loss, reason = "memory in MiB")]
    fn held(&self) -> Held {
        Held {
            resident_mib: self.daemon.own_resident_bytes() as f64 / f64::from(1 << 20),
            descriptors: self.daemon.descriptors(),
            processes: chromium_of(&self.temporary).len(),
        }
    }

    async fn watch(&self, until: Instant) -> Outcome<usize> {
        let ticket = self.daemon.call("POST", "/api/auth/ticket", &Value::Null)?;
        let ticket = ticket["ticket"].as_str().ok_or("no ticket")?;
        let address = &self.daemon.address;
        let request = format!("ws://{address}/api/browser/stream?ticket={ticket}").into_client_request()?;
        let (mut socket, _) = client_async(request, tokio::net::TcpStream::connect(address).await?).await?;
        let mut frames = 0;
        while let Ok(Some(message)) = tokio::time::timeout_at(until.into(), socket.next()).await {
            frames += usize::from(matches!(message?, Message::Binary(_)));
        }
        Ok(frames)
    }

    /// Returns the CPU time of the daemon and its Chromium while `clients` clients watch.
    async fn stream(&self, clients: usize) -> Outcome<Duration> {
        let used = || {
            let chromium = chromium_of(&self.temporary).into_iter().map(processor_time_of).sum::<Duration>();
            chromium + self.daemon.processor_time()
        };
        let before = used();
        let until = Instant::now() + STREAM;
        let all = futures_util::future::try_join_all((0..clients).map(|_| self.watch(until))).await?;
        let used = used().saturating_sub(before);
        let frames: usize = all.iter().sum();
        println!(
            "stream to {clients:>2}: {:>6.2} s of processor time in {} s, {:.1} frames a second each",
            used.as_secs_f64(),
            STREAM.as_secs(),
            frames as f64 / clients as f64 / STREAM.as_secs_f64()
        );
        Ok(used)
    }

    fn tab(&self) -> Outcome<()> {
        let tab = self.daemon.call("POST", "/api/browser/tabs", &json!({"url": format!("{}/here", self.base)}))?;
        let id = tab["tab_id"].as_str().ok_or("no tab")?;
        let path = format!("/api/browser/tabs/{id}");
        let (status, answer) = request(&self.daemon.address, "DELETE", &path, &self.daemon.key, None)?;
        if status >= 300 { Err(format!("closing a tab answered {status}: {answer}").into()) } else { Ok(()) }
    }
}

/// Returns the processes of the Chromium whose folder is inside `temporary`.
fn chromium_of(temporary: &Path) -> Vec<u32> {
    let name = temporary.as_os_str().as_encoded_bytes();
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter(|entry| {
            let is_chromium =
                std::fs::read(entry.path().join("cmdline")).is_ok_and(|line| line.starts_with(b"/usr/lib/chromium"));
            is_chromium
                && std::fs::read(entry.path().join("environ"))
                    .is_ok_and(|environment| environment.windows(name.len()).any(|part| part == name))
        })
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

fn minutes() -> Outcome<f64> {
    let mut given = std::env::args().skip(1);
    match (given.next().as_deref(), given.next()) {
        (None, _) => Ok(2.0),
        (Some("--minutes"), Some(count)) => Ok(count.parse()?),
        _ => Err("the only argument is --minutes N".into()),
    }
}

#[tokio::main]
async fn main() -> Outcome<ExitCode> {
    let minutes = minutes()?;
    let folder = tempfile::tempdir()?;
    let site = Site::start(Vec::new()).await?;
    let temporary = folder.path().join("tmp");
    std::fs::create_dir(&temporary)?;
    for folder in [folder.path(), &temporary] {
        // Chromium's user must be able to access it.
        std::fs::set_permissions(folder, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    }
    let data = folder.path().join("data");
    let variables = [("TMPDIR", &*temporary.display().to_string())];
    let daemon = DaemonUnderTest::spawn_with(&data, &variables)?.with_owner()?;
    let allowed = json!({"allowed_hosts": ["127.0.0.1"]});
    daemon.call("PUT", "/api/settings/security", &allowed)?;
    let session = Session { daemon, temporary: temporary.clone(), base: site.base() };
    let idle = session.held();
    let started = Instant::now();
    session.goto("/here")?;
    println!("first action, with the launch: {:.0} ms", started.elapsed().as_secs_f64() * 1e3);
    println!("click over HTTP, ms:           {}", session.timed(CLICKS, || session.click())?);
    session.goto("/buttons?count=2000")?;
    println!("snapshot of 2000 over HTTP:    {}", session.timed(SNAPSHOTS, || session.snapshot())?);
    let open = session.held();
    let growth = open.resident_mib - idle.resident_mib;
    println!(
        "resident, the daemon itself: {:.1} MiB idle, {:.1} MiB with a browser ({growth:+.1})",
        idle.resident_mib, open.resident_mib
    );

    session.show(CHANGING)?;
    let one = session.stream(1).await?;
    let many = session.stream(CLIENTS).await?;
    let ratio = many.as_secs_f64() / one.as_secs_f64();
    println!("stream to {CLIENTS} clients against one: {ratio:.2}");

    session.tab()?;
    let before = session.held();
    for _ in 0..TABS {
        session.tab()?;
    }
    let after = session.held();
    println!("before {TABS} tabs: {before:?}\nafter {TABS} tabs:  {after:?}");

    let until = Instant::now() + Duration::from_secs_f64(minutes * 60.0);
    let (mut rounds, mut refused) = (0, 0);
    while Instant::now() < until {
        if let Err(error) = session.round() {
            refused += 1;
            println!("round {rounds} was refused: {error}");
        }
        std::thread::sleep(REST);
        rounds += 1;
        if rounds % 200 == 0 {
            println!("{rounds} rounds of five requests: {:?}", session.held());
        }
    }
    let last = session.held();
    println!("after {minutes} minutes, {rounds} rounds, {refused} refused: {last:?}");
    session.daemon.call("POST", "/api/browser/close", &Value::Null)?;
    let closed = session.held();
    println!("closed: {closed:?}, {} folders left", std::fs::read_dir(&temporary)?.count());
    // Timers of the daemon's workers start one after the other, when each is idle for the first time.
    let is_flat = last.resident_mib - before.resident_mib < MAX_GROWTH_MIB && last.descriptors <= after.descriptors + 4;
    let is_clean = closed.processes == 0 && std::fs::read_dir(&temporary)?.count() == 0;
    let is_served = refused * 1_000 <= rounds;
    let is_well = growth <= MAX_GROWTH_MIB && ratio <= MAX_STREAM_RATIO && is_flat && is_clean && is_served;
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
