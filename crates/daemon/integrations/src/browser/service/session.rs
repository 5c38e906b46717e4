//! Session: a Chromium process with its context, proxy, active tabs and the attribution of downloads.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use agentd_base::Timestamp;
use agentd_browser::{Browser as Chromium, BrowserOptions, Context, Download, Environment, ProxyEndpoint, Tab};
use agentd_core::runtime::AppContext;
use agentd_engine::agents::AgentId;
use agentd_net::{FilteringProxy, NetError, PolicyHandle, ProxyListener, ProxyObserver, ProxyOptions, Trust};
use agentd_process::Spawner;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::browser::error::BrowserError;
use crate::browser::model::Actor;

/// Maximum number of proxy connections; pages load from many servers, and each socket is a tunnel.
const PROXY_CONNECTIONS: usize = 256;

/// Maximum number of remembered requests per kind.
const MAX_REFUSED_REQUESTS: usize = 64;

/// Running Chromium with its pages.
#[derive(Debug)]
pub struct Session {
    chromium: Chromium,
    context: Context,
    /// Stops when the session is dropped.
    _proxy: FilteringProxy,
    pub(super) refusals: Arc<Refusals>,
    is_headless: bool,
    started_at: Timestamp,
    /// Time of the last use in microseconds.
    last_used: AtomicI64,
    /// Time of the last automatic snapshot.
    last_snapshot: Mutex<Option<Timestamp>>,
    /// Active tab of each agent; the owner's is that of the context.
    active: Mutex<HashMap<Actor, String>>,
    /// Ensures that concurrent first actions open only one tab.
    open_lock: tokio::sync::Mutex<()>,
    downloads: Mutex<Attribution>,
    /// Cancelled when the session ends.
    pub(super) ended_token: CancellationToken,
}

impl Session {
    /// Starts a Chromium behind a separate proxy.
    pub(super) async fn start(
        app: &AppContext,
        policy: PolicyHandle,
        spawner: Spawner,
        mut options: BrowserOptions,
        environment: Arc<Environment>,
    ) -> Result<Self, BrowserError> {
        let refusals = Arc::<Refusals>::default();
        let mut proxy_options = ProxyOptions::new(policy, Trust::Untrusted);
        proxy_options.limits.connections = PROXY_CONNECTIONS;
        proxy_options.observer = Some(refusals.clone());
        let proxy = FilteringProxy::start(&ProxyListener::Loopback, proxy_options, &app.entropy)?;
        let credential = proxy.credential().map(|(user, password)| (user.to_owned(), password.clone()));
        options.proxy = proxy.address().map(|address| ProxyEndpoint { address, credential });
        let is_headless = options.headless;
        let chromium = Chromium::new(options, spawner);
        let context = chromium.context_in(environment).await?;
        let now = app.clock.now();
        Ok(Self {
            chromium,
            context,
            _proxy: proxy,
            refusals,
            is_headless,
            started_at: now,
            last_used: AtomicI64::new(now.as_micros()),
            last_snapshot: Mutex::default(),
            active: Mutex::default(),
            open_lock: tokio::sync::Mutex::default(),
            downloads: Mutex::default(),
            ended_token: CancellationToken::new(),
        })
    }

    /// Returns the context that controls the browser.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.context
    }

    #[must_use]
    pub fn started_at(&self) -> Timestamp {
        self.started_at
    }

    /// Returns a tab by id, or the owner's active tab, which is opened if necessary.
    ///
    /// # Errors
    /// The tab does not exist, or no tab can be opened.
    pub async fn tab(&self, id: Option<&str>) -> Result<Arc<Tab>, BrowserError> {
        self.tab_of(&Actor::Owner, id).await
    }

    /// Returns a tab by id, or the actor's active tab.
    ///
    /// # Errors
    /// Same as [`Self::tab`].
    pub async fn tab_of(&self, actor: &Actor, id: Option<&str>) -> Result<Arc<Tab>, BrowserError> {
        if let Some(id) = id {
            return Ok(self.context.tab(id)?);
        }
        let _guard = self.open_lock.lock().await;
        if let Some(tab) = self.active_tab_of(actor) {
            return Ok(tab);
        }
        self.open_tab(actor).await
    }

    /// Returns the owner's active tab: the one activated last, or opened last.
    #[must_use]
    pub fn active_tab(&self) -> Option<Arc<Tab>> {
        self.active_tab_of(&Actor::Owner)
    }

    /// Returns the actor's active tab; an agent starts without one, independent of the owner's.
    pub(super) fn active_tab_of(&self, actor: &Actor) -> Option<Arc<Tab>> {
        match actor {
            Actor::Owner => self.context.active_tab(),
            Actor::Agent(_) => {
                let active = self.active.lock().get(actor).cloned();
                active.and_then(|id| self.context.tab(&id).ok())
            }
        }
    }

    /// Returns the agent whose active tab this is; if there are several, the one with the smallest id.
    pub(super) fn agent_in(&self, tab_id: &str) -> Option<AgentId> {
        let active = self.active.lock();
        let agents = active.iter().filter(|(_, tab)| *tab == tab_id).filter_map(|(actor, _)| match actor {
            Actor::Agent(id) => Some(id),
            Actor::Owner => None,
        });
        agents.min_by_key(|id| id.as_str()).cloned()
    }

    /// Opens a blank tab and activates it.
    pub(super) async fn open_tab(&self, actor: &Actor) -> Result<Arc<Tab>, BrowserError> {
        let tab = self.context.open_tab().await?;
        self.activate(actor, &tab);
        Ok(tab)
    }

    pub(super) fn activate(&self, actor: &Actor, tab: &Tab) {
        match actor {
            // Fails if the tab was closed meanwhile.
            Actor::Owner => drop(self.context.activate(tab.id())),
            Actor::Agent(_) => drop(self.active.lock().insert(actor.clone(), tab.id().to_owned())),
        }
    }

    /// Returns whether an automatic snapshot is due, and records it if so.
    pub(super) fn take_snapshot_turn(&self, now: Timestamp, interval: std::time::Duration) -> bool {
        let mut last = self.last_snapshot.lock();
        let is_due = last.is_none_or(|last| now < last || now.since(last) >= interval);
        if is_due {
            *last = Some(now);
        }
        is_due
    }

    /// Returns whether Chromium has ended.
    pub(super) fn is_ended(&self) -> bool {
        self.context.is_ended()
    }

    pub(super) fn is_headless(&self) -> bool {
        self.is_headless
    }

    pub(super) fn mark_used(&self, now: Timestamp) {
        self.last_used.fetch_max(now.as_micros(), Ordering::Relaxed);
    }

    pub(super) fn last_used(&self) -> Timestamp {
        Timestamp::from_micros(self.last_used.load(Ordering::Relaxed))
    }

    /// Attributes later downloads to this actor.
    pub(super) fn attribute_downloads_to(&self, actor: &Actor) {
        let listed = self.context.downloads();
        let mut downloads = self.downloads.lock();
        downloads.attribute(&listed);
        downloads.actor = actor.clone();
    }

    /// Returns the actor whose action caused a download; a new one is attributed to the last actor.
    pub(super) fn owner_of(&self, download: &Download) -> Actor {
        let mut downloads = self.downloads.lock();
        let actor = downloads.actor.clone();
        downloads.owners.entry(download.id.clone()).or_insert(actor).clone()
    }

    /// Returns the path of a download in the workspace or an error; `None` until it was moved.
    pub(super) fn move_result(&self, download: &Download) -> Option<Result<String, String>> {
        self.downloads.lock().moved.get(&download.id).cloned()
    }

    pub(super) fn record_moved(&self, download: &Download, moved: Result<String, String>) {
        self.downloads.lock().moved.insert(download.id.clone(), moved);
    }

    /// Ends the session; returns after the process and its folder are gone.
    pub(super) async fn end(&self) {
        self.ended_token.cancel();
        self.chromium.close().await;
    }
}

/// Attribution of downloads to actors, and the results of moving them.
#[derive(Debug, Default)]
struct Attribution {
    /// Actor of the last action.
    actor: Actor,
    owners: HashMap<String, Actor>,
    moved: HashMap<String, Result<String, String>>,
}

impl Attribution {
    fn attribute(&mut self, listed: &[Download]) {
        for download in listed {
            if !self.owners.contains_key(&download.id) {
                self.owners.insert(download.id.clone(), self.actor.clone());
            }
        }
        let is_listed = |id: &String| listed.iter().any(|download| download.id == *id);
        self.owners.retain(|id, _| is_listed(id));
        self.moved.retain(|id, _| is_listed(id));
    }
}

/// Request that the proxy answered itself.
#[derive(Debug)]
struct RefusedRequest {
    number: u64,
    host: String,
    port: u16,
    error: NetError,
}

/// Last requests that the proxy blocked or could not deliver, so that a navigation that ends there reports the reason.
/// Blocked and failed requests have separate lists, so that one kind does not displace the other.
#[derive(Debug, Default)]
pub(super) struct Refusals(Mutex<RefusalLists>);

#[derive(Debug, Default)]
struct RefusalLists {
    count: u64,
    refused: VecDeque<RefusedRequest>,
    failed: VecDeque<RefusedRequest>,
}

impl Refusals {
    /// Number of entries so far.
    pub(super) fn count(&self) -> u64 {
        self.0.lock().count
    }

    /// Returns why the server of `url` was blocked, if that happened after the first `count` entries.
    pub(super) fn refused_since(&self, count: u64, url: &str) -> Option<NetError> {
        find(&self.0.lock().refused, count, url)
    }

    /// Returns why the server of `url` could not be reached, if that happened after the first `count` entries.
    pub(super) fn failed_since(&self, count: u64, url: &str) -> Option<NetError> {
        find(&self.0.lock().failed, count, url)
    }
}

fn find(refusals: &VecDeque<RefusedRequest>, count: u64, url: &str) -> Option<NetError> {
    let url = Url::parse(url).ok()?;
    let (host, port) = (url.host_str()?, url.port_or_known_default()?);
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let is_match = |refusal: &&RefusedRequest| {
        refusal.number > count && refusal.port == port && [host, bare].contains(&&*refusal.host)
    };
    refusals.iter().rev().find(is_match).map(|refusal| refusal.error.clone())
}

impl RefusalLists {
    fn next(&mut self, host: &str, port: u16, error: &NetError) -> RefusedRequest {
        self.count += 1;
        RefusedRequest { number: self.count, host: host.to_owned(), port, error: error.clone() }
    }
}

fn push(refusals: &mut VecDeque<RefusedRequest>, refusal: RefusedRequest) {
    if refusals.len() == MAX_REFUSED_REQUESTS {
        refusals.pop_front();
    }
    refusals.push_back(refusal);
}

impl ProxyObserver for Refusals {
    fn refused(&self, host: &str, port: u16, reason: &NetError) {
        let mut lists = self.0.lock();
        let refusal = lists.next(host, port, reason);
        push(&mut lists.refused, refusal);
    }

    fn failed(&self, host: &str, port: u16, error: &NetError) {
        let mut lists = self.0.lock();
        let refusal = lists.next(host, port, error);
        push(&mut lists.failed, refusal);
    }
}
