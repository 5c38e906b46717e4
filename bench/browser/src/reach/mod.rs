//! Attempts of pages to reach forbidden addresses, through the browser crate and the filtering proxy, with canaries on
//! this machine that report arrivals.
//!
//! Invariants: each attempt has its own port, so that blocks and arrivals can be attributed; a permitted attempt must
//! arrive, otherwise the canaries would prove nothing.

mod pages;
pub mod ways;
mod world;

use std::sync::Arc;
use std::time::{Duration, Instant};

use agentd_base::Entropy;
use agentd_browser::{Action, ActionRequest, Browser, BrowserOptions, Context, LoadState, ProxyEndpoint, Tab};
use agentd_net::{FilteringProxy, NetPolicy, PolicyHandle, ProxyListener, ProxyOptions, Trust};
use agentd_process::Spawner;
use futures_util::{StreamExt, stream};

use crate::Outcome;
use pages::Pages;
use ways::{Start, WAYS, Way};
use world::{Network, Seen};

const AT_ONCE: usize = 5;
const STEP_MS: u64 = 3_000;
/// Time limit for an attempt to be observed; attempts that are never sent take all of it.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(3);
/// Time for late arrivals.
const LATE_ARRIVAL_TIME: Duration = Duration::from_secs(2);

/// Result of an attempt.
#[derive(Debug, Clone)]
pub struct Try {
    pub name: String,
    /// Reason for the block; `None` if Chromium sent nothing.
    pub refused: Option<String>,
    /// Data that arrived at a forbidden address.
    pub arrived: Option<String>,
    port: u16,
}

/// Runs every `step`-th combination of techniques and hosts.
///
/// # Errors
/// The browser or the proxy does not work, or a permitted attempt does not arrive.
pub async fn tries(options: BrowserOptions, step: usize) -> Outcome<Vec<Try>> {
    let seen = Arc::new(Seen::default());
    let network = Arc::new(Network(Arc::clone(&seen)));
    let policy = PolicyHandle::default();
    let proxy_options = ProxyOptions {
        observer: Some(network.clone()),
        lookup: network.clone(),
        connect: network,
        ..ProxyOptions::new(policy.clone(), Trust::Untrusted)
    };
    let proxy = FilteringProxy::start(&ProxyListener::Loopback, proxy_options, &Entropy::system())?;
    let endpoint = ProxyEndpoint {
        address: proxy.address().ok_or("the proxy has no address")?,
        credential: proxy.credential().map(|(user, password)| (user.to_owned(), password.clone())),
    };
    let browser = Browser::new(BrowserOptions { proxy: Some(endpoint), ..options }, Spawner::start()?);
    let pages = Pages::start().await?;
    seen.pages_are_at(pages.address());
    let world = World { browser, seen, pages };

    let by_way = WAYS.iter().step_by(step).map(|way| (*way, "127.0.0.1", way.name.to_owned()));
    let by_host = ways::HOSTS.iter().step_by(step).map(|host| (HOST, *host, format!("http://{host}/")));
    let all: Vec<_> = by_way.chain(by_host).collect();
    let tried = stream::iter(all).map(|(way, host, name)| world.attempt(way, host, name)).buffered(AT_ONCE);
    let mut found: Vec<Try> = tried.collect::<Vec<_>>().await.into_iter().collect::<Outcome<_>>()?;
    tokio::time::sleep(LATE_ARRIVAL_TIME).await;
    for found in &mut found {
        found.arrived = world.seen.arrived(found.port);
        found.refused = world.seen.refused(found.port).or(found.refused.take());
    }
    if let Some(name) = world.seen.looked_up().into_iter().find(|name| name.starts_with("wpad")) {
        return Err(format!("Chromium asked for `{name}`, whose answer could name another proxy").into());
    }
    policy.set(NetPolicy { allowed_hosts: vec!["127.0.0.1".parse()?], ..NetPolicy::default() });
    let control = world.attempt(HOST, "127.0.0.1", "permitted".to_owned()).await?;
    if world.seen.arrived(control.port).is_none() {
        return Err("a try that is permitted does not arrive either: the canaries hear nothing".into());
    }
    drop(world);
    proxy.shutdown().await;
    Ok(found)
}

const HOST: Way = Way {
    name: "host",
    start: Start::Page("<img src='http://{at}/'><script>fetch('http://{at}/', {mode: 'no-cors'})</script>"),
    clicks: false,
    leaves: false,
};

struct World {
    browser: Browser,
    seen: Arc<Seen>,
    pages: Pages,
}

impl World {
    async fn attempt(&self, way: Way, host: &str, name: String) -> Outcome<Try> {
        let port = self.seen.canary().await?;
        let at = format!("{host}:{port}");
        let context = self.browser.context().await?;
        let tab = context.open_tab().await?;
        let refused = match way.start {
            Start::Goto(url) => goto(&tab, &url.replace("{at}", &at)).await,
            Start::Page(html) => {
                let path = self.pages.add(html, &at);
                // DNS rebinding needs a page of the same origin.
                let site = if host.starts_with("rebinding") { at } else { "site.example".to_owned() };
                goto(&tab, &format!("http://{site}{path}")).await
            }
        };
        self.interact(way, &tab, port).await;
        drop::<Context>(context);
        Ok(Try { name, refused, arrived: None, port })
    }

    async fn interact(&self, way: Way, tab: &Tab, port: u16) {
        if way.clicks {
            // A page that cannot be clicked shows as an attempt that is never sent.
            let _ = act(tab, Action::Click { selector: "a, button".to_owned() }).await;
        }
        if way.leaves {
            goto(tab, "http://other.example/").await;
        }
        let started = Instant::now();
        while started.elapsed() < ATTEMPT_TIMEOUT
            && self.seen.refused(port).is_none()
            && self.seen.arrived(port).is_none()
        {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

async fn act(tab: &Tab, action: Action) -> Result<(), agentd_browser::BrowserError> {
    tab.act(ActionRequest { action, timeout_ms: Some(STEP_MS) }).await.map(|_| ())
}

/// Returns why the navigation failed.
async fn goto(tab: &Tab, url: &str) -> Option<String> {
    let action = Action::Goto { url: url.to_owned(), wait_until: Some(LoadState::DomContentLoaded) };
    act(tab, action).await.err().map(|error| error.to_string())
}
