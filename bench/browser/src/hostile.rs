//! Hostile pages, and their effect on themselves and on another tab.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use agentd_browser::{Action, ActionRequest, Browser, BrowserError, Context, Tab};

use crate::Outcome;
use crate::figures::Sample;

const STEP_MS: u64 = 3_000;
/// Pause between two clicks in the other tab.
const PAUSE: Duration = Duration::from_millis(20);

/// Page with the actions performed on it.
#[derive(Debug, Clone, Copy)]
pub struct Attack {
    pub name: &'static str,
    /// Address or content of the page.
    pub page: &'static str,
    pub clicks: bool,
}

const fn attack(name: &'static str, page: &'static str) -> Attack {
    Attack { name, page, clicks: false }
}

pub const ATTACKS: &[Attack] = &[
    attack("loop of alerts", "<script>for (;;) alert('again')</script>"),
    attack("alert of 10 MB", "<script>alert('x'.repeat(1e7))</script>"),
    attack("print dialogs", "<script>for (let i = 0; i < 100; i++) print()</script>"),
    Attack {
        name: "10,000 popups",
        page: "<button onclick=\"for (let i = 0; i < 10000; i++) open('about:blank')\">x</button>",
        clicks: true,
    },
    attack(
        "10,000 popups that are not asked for",
        "<script>for (let i = 0; i < 10000; i++) open('about:blank')</script>",
    ),
    attack("file that does not end", "/endless"),
    Attack {
        name: "1,000 downloads",
        page: "<button onclick=\"for (let i = 0; i < 1000; i++) { const a = document.createElement('a'); a.href = 'data:,x'; a.download = 'f' + i; a.click() }\">x</button>",
        clicks: true,
    },
    attack("page that never stops loading", "/hanging"),
    attack("redirects without end", "/again"),
    attack("reloads without end", "<script>location.reload()</script>"),
    attack("100,000 elements", "<body><script>document.body.innerHTML = '<a href=x>y</a>'.repeat(100000)</script>"),
    attack(
        "elements 20,000 deep",
        "<body><script>let at = document.body; for (let i = 0; i < 20000; i++) { const e = document.createElement('div'); at.append(e); at = e } at.innerHTML = '<button>x</button>'</script>",
    ),
    attack(
        "1,000 frames",
        "<body><script>for (let i = 0; i < 1000; i++) document.body.append(document.createElement('iframe'))</script>",
    ),
    attack(
        "1,000 workers",
        "<script>for (let i = 0; i < 1000; i++) new Worker('data:text/javascript,for(;;);')</script>",
    ),
    attack("loop without end", "<script>setTimeout(() => { for (;;); })</script><button>x</button>"),
    Attack { name: "loop after a click", page: "<button onclick='for (;;);'>x</button>", clicks: true },
    attack(
        "4 GB of memory",
        "<script>const all = []; setInterval(() => all.push(new Uint8Array(1 << 28).fill(1)))</script>",
    ),
    attack("title of 10 MB", "<script>document.title = 'x'.repeat(1e7)</script><button>x</button>"),
    attack("name of 10 MB", "<button id=b>x</button><script>b.setAttribute('aria-label', 'x'.repeat(1e7))</script>"),
    attack(
        "flood of history",
        "<script>setInterval(() => { for (let i = 0; i < 1000; i++) history.pushState(0, '', '#' + Math.random()) }, 1)</script>",
    ),
    attack(
        "flood of messages",
        "<script>setInterval(() => { for (let i = 0; i < 1000; i++) console.log('x'.repeat(1000)) }, 1)</script>",
    ),
    attack(
        "page that does not let go",
        "<script>onbeforeunload = e => { e.preventDefault(); return 'stay' }</script><button onclick=1>x</button>",
    ),
    attack("page that closes itself", "<script>setTimeout(() => close(), 50)</script>"),
];

/// Result of an attack.
#[derive(Debug)]
pub struct Survived {
    /// Result of each step, and its duration in milliseconds.
    pub steps: Vec<(&'static str, String, u128)>,
    /// Durations of clicks in another tab meanwhile, in milliseconds; failed ones count tenfold.
    pub neighbour: Sample,
    /// Longest stall of this process meanwhile, in milliseconds.
    pub stall_ms: f64,
    /// Duration of a click in a new tab afterwards, in milliseconds.
    pub afterwards_ms: f64,
}

/// Runs one attack, closes its page, and measures the effect on others.
///
/// # Errors
/// The browser provides no tab, before or after.
pub async fn survive(browser: &Browser, base: &str, attack: Attack) -> Outcome<Survived> {
    let victim = browser.context().await?;
    let tab = victim.open_tab().await?;
    let neighbour = browser.context().await?;
    let other = neighbour.open_tab().await?;
    act(&other, goto(&format!("{base}/here"))).await?;
    let is_over = Arc::new(AtomicBool::new(false));
    let clicks = tokio::spawn(click_until(other, Arc::clone(&is_over)));
    let stall = tokio::spawn(stall_until(Arc::clone(&is_over)));
    let url = if attack.page.starts_with('/') {
        format!("{base}{}", attack.page)
    } else {
        let encoded: String = url::form_urlencoded::byte_serialize(attack.page.as_bytes()).collect();
        format!("data:text/html,{}", encoded.replace('+', "%20"))
    };
    let mut steps = Vec::new();
    timed(&mut steps, "goto", act(&tab, goto(&url))).await;
    if attack.clicks {
        timed(&mut steps, "click", act(&tab, Action::Click { selector: "button".to_owned() })).await;
    }
    timed(&mut steps, "snapshot", async { tab.snapshot(false).await.map(drop) }).await;
    timed(&mut steps, "text", async { tab.readable_text().await.map(drop) }).await;
    timed(&mut steps, "close", close(&victim, &tab)).await;
    is_over.store(true, Ordering::Relaxed);
    let neighbour = Sample::new(clicks.await?);
    let started = Instant::now();
    let context = browser.context().await?;
    let tab = context.open_tab().await?;
    act(&tab, goto(&format!("{base}/here"))).await?;
    act(&tab, Action::Click { selector: "text=Here".to_owned() }).await?;
    let afterwards_ms = started.elapsed().as_secs_f64() * 1e3;
    Ok(Survived { steps, neighbour, stall_ms: stall.await?, afterwards_ms })
}

/// Returns the maximum delay of a timer in this process, which other users would experience.
async fn stall_until(is_over: Arc<AtomicBool>) -> f64 {
    let mut most = Duration::ZERO;
    while !is_over.load(Ordering::Relaxed) {
        let started = Instant::now();
        tokio::time::sleep(PAUSE).await;
        most = most.max(started.elapsed().saturating_sub(PAUSE));
    }
    most.as_secs_f64() * 1e3
}

async fn close(context: &Context, tab: &Tab) -> Result<(), BrowserError> {
    match context.close_tab(tab.id()).await {
        // The tab has closed itself.
        Err(BrowserError::NoTab(_)) => Ok(()),
        other => other,
    }
}

async fn click_until(tab: Arc<Tab>, is_over: Arc<AtomicBool>) -> Vec<f64> {
    let mut taken = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        let started = Instant::now();
        let done = act(&tab, Action::Click { selector: "text=Here".to_owned() }).await;
        // A failed click counts with a multiple of its duration.
        let penalty = if done.is_ok() { 1.0 } else { 10.0 };
        taken.push(started.elapsed().as_secs_f64() * 1e3 * penalty);
        tokio::time::sleep(PAUSE).await;
    }
    taken
}

fn goto(url: &str) -> Action {
    Action::Goto { url: url.to_owned(), wait_until: None }
}

async fn act(tab: &Tab, action: Action) -> Result<(), BrowserError> {
    tab.act(ActionRequest { action, timeout_ms: Some(STEP_MS) }).await.map(drop)
}

async fn timed(
    steps: &mut Vec<(&'static str, String, u128)>,
    name: &'static str,
    work: impl Future<Output = Result<(), BrowserError>>,
) {
    let started = Instant::now();
    let came_to = match work.await {
        Ok(()) => "done".to_owned(),
        Err(error) => error.code().to_owned(),
    };
    steps.push((name, came_to, started.elapsed().as_millis()));
}
