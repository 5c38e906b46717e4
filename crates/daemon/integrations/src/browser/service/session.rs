//! The session: a Chromium, its context, its proxy, which tab is the active one, and whose downloads are.

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

/// Pages load from many servers at once, and each socket is a tunnel.
const PROXY_CONNECTIONS: usize = 256;

/// Requests that are remembered of each kind.
const MAX_REFUSALS: usize = 64;

/// A Chromium with its pages, from its start to its end.
#[derive(Debug)]
pub struct Session {
    chromium: Chromium,
    context: Context,
    /// Stops with the session.
    _proxy: FilteringProxy,
    pub(super) refusals: Arc<Refusals>,
    is_headless: bool,
    started_at: Timestamp,
    /// Microseconds.
    last_used: AtomicI64,
    /// When an action last came with a snapshot that nobody asked for.
    last_snapshot: Mutex<Option<Timestamp>>,
    /// The tab that each agent means that names none. The owner's is the context's.
    active: Mutex<HashMap<Actor, String>>,
    /// So that two first actions open one tab.
    opening: tokio::sync::Mutex<()>,
    downloads: Mutex<Attribution>,
    /// Cancelled at its end.
    pub(super) over: CancellationToken,
}

impl Session {
    /// Starts a Chromium behind a proxy of its own.
    pub(super) async fn start(
        app: &AppContext,
        policy: PolicyHandle,
        spawner: Spawner,
        mut options: BrowserOptions,
        environment: Arc<Environment>,
    ) -> Result<Self, BrowserError> {
        let refusals = Arc::<Refusals>::default();
        let mut proxy_options = ProxyOptions::new(policy, Trust::Steered);
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
            opening: tokio::sync::Mutex::default(),
            downloads: Mutex::default(),
            over: CancellationToken::new(),
        })
    }

    /// What is done in the browser is done here.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.context
    }

    #[must_use]
    pub fn started_at(&self) -> Timestamp {
        self.started_at
    }

    /// The tab of this id; without one the owner's active tab, which is opened if there is none.
    ///
    /// # Errors
    /// There is no such tab, or none can be opened.
    pub async fn tab(&self, id: Option<&str>) -> Result<Arc<Tab>, BrowserError> {
        self.tab_of(&Actor::Owner, id).await
    }

    /// As [`Self::tab`]; who names none means his own active tab.
    ///
    /// # Errors
    /// As [`Self::tab`].
    pub async fn tab_of(&self, actor: &Actor, id: Option<&str>) -> Result<Arc<Tab>, BrowserError> {
        if let Some(id) = id {
            return Ok(self.context.tab(id)?);
        }
        let _one = self.opening.lock().await;
        if let Some(tab) = self.active_tab_of(actor) {
            return Ok(tab);
        }
        self.open_tab(actor).await
    }

    /// The owner's: the tab that was activated, or else the one that was opened last.
    #[must_use]
    pub fn active_tab(&self) -> Option<Arc<Tab>> {
        self.active_tab_of(&Actor::Owner)
    }

    /// An agent begins in a tab of its own, whatever the owner looks at.
    pub(super) fn active_tab_of(&self, actor: &Actor) -> Option<Arc<Tab>> {
        match actor {
            Actor::Owner => self.context.active_tab(),
            Actor::Agent(_) => {
                let active = self.active.lock().get(actor).cloned();
                active.and_then(|id| self.context.tab(&id).ok())
            }
        }
    }

    /// The agent whose active tab this is. Of several the one whose id comes first.
    pub(super) fn agent_in(&self, tab_id: &str) -> Option<AgentId> {
        let active = self.active.lock();
        let agents = active.iter().filter(|(_, tab)| *tab == tab_id).filter_map(|(actor, _)| match actor {
            Actor::Agent(id) => Some(id),
            Actor::Owner => None,
        });
        agents.min_by_key(|id| id.as_str()).cloned()
    }

    /// Opens a blank tab, which is the active one then.
    pub(super) async fn open_tab(&self, actor: &Actor) -> Result<Arc<Tab>, BrowserError> {
        let tab = self.context.open_tab().await?;
        self.activate(actor, &tab);
        Ok(tab)
    }

    pub(super) fn activate(&self, actor: &Actor, tab: &Tab) {
        match actor {
            // It fails where the tab was closed meanwhile.
            Actor::Owner => drop(self.context.activate(tab.id())),
            Actor::Agent(_) => drop(self.active.lock().insert(actor.clone(), tab.id().to_owned())),
        }
    }

    /// Whether an action may come with a snapshot now; if so, the next ones may not for a while.
    pub(super) fn takes_snapshot(&self, now: Timestamp, interval: std::time::Duration) -> bool {
        let mut last = self.last_snapshot.lock();
        let is_due = last.is_none_or(|last| now < last || now.since(last) >= interval);
        if is_due {
            *last = Some(now);
        }
        is_due
    }

    /// Whether Chromium is gone.
    pub(super) fn is_ended(&self) -> bool {
        self.context.is_ended()
    }

    pub(super) fn is_headless(&self) -> bool {
        self.is_headless
    }

    pub(super) fn used(&self, now: Timestamp) {
        self.last_used.fetch_max(now.as_micros(), Ordering::Relaxed);
    }

    pub(super) fn last_used(&self) -> Timestamp {
        Timestamp::from_micros(self.last_used.load(Ordering::Relaxed))
    }

    /// From now on, downloads are those of this actor.
    pub(super) fn acts(&self, actor: &Actor) {
        let listed = self.context.downloads();
        let mut downloads = self.downloads.lock();
        downloads.attribute(&listed);
        downloads.actor = actor.clone();
    }

    /// The actor whose action led to a download; of one that was not listed before: who acted last.
    pub(super) fn owner_of(&self, download: &Download) -> Actor {
        let mut downloads = self.downloads.lock();
        let actor = downloads.actor.clone();
        downloads.owners.entry(download.id.clone()).or_insert(actor).clone()
    }

    /// The path of a download in the workspace, or why it is not there; `None` until it was moved.
    pub(super) fn moved(&self, download: &Download) -> Option<Result<String, String>> {
        self.downloads.lock().moved.get(&download.id).cloned()
    }

    pub(super) fn note_moved(&self, download: &Download, moved: Result<String, String>) {
        self.downloads.lock().moved.insert(download.id.clone(), moved);
    }

    /// Returns when the process and its folder are gone.
    pub(super) async fn end(&self) {
        self.over.cancel();
        self.chromium.close().await;
    }
}

/// Whose downloads are, and the results of moving those of agents.
#[derive(Debug, Default)]
struct Attribution {
    /// Who acted last.
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

/// A request that the proxy answered by itself.
#[derive(Debug)]
struct Refusal {
    number: u64,
    host: String,
    port: u16,
    error: NetError,
}

/// The last requests that the proxy refused or could not deliver, so that a navigation that ends there fails with the
/// reason. Refusals and failures have a list each, so that one kind does not push out the other.
#[derive(Debug, Default)]
pub(super) struct Refusals(Mutex<RefusalLists>);

#[derive(Debug, Default)]
struct RefusalLists {
    count: u64,
    refused: VecDeque<Refusal>,
    failed: VecDeque<Refusal>,
}

impl Refusals {
    /// Number of entries so far.
    pub(super) fn count(&self) -> u64 {
        self.0.lock().count
    }

    /// Returns why the server of `url` was refused, if that came after the first `count` entries.
    pub(super) fn refused_since(&self, count: u64, url: &str) -> Option<NetError> {
        find(&self.0.lock().refused, count, url)
    }

    /// Returns why the server of `url` could not be reached, if that came after the first `count` entries.
    pub(super) fn failed_since(&self, count: u64, url: &str) -> Option<NetError> {
        find(&self.0.lock().failed, count, url)
    }
}

fn find(refusals: &VecDeque<Refusal>, count: u64, url: &str) -> Option<NetError> {
    let url = Url::parse(url).ok()?;
    let (host, port) = (url.host_str()?, url.port_or_known_default()?);
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let is_match =
        |refusal: &&Refusal| refusal.number > count && refusal.port == port && [host, bare].contains(&&*refusal.host);
    refusals.iter().rev().find(is_match).map(|refusal| refusal.error.clone())
}

impl RefusalLists {
    fn next(&mut self, host: &str, port: u16, error: &NetError) -> Refusal {
        self.count += 1;
        Refusal { number: self.count, host: host.to_owned(), port, error: error.clone() }
    }
}

fn push(refusals: &mut VecDeque<Refusal>, refusal: Refusal) {
    if refusals.len() == MAX_REFUSALS {
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
