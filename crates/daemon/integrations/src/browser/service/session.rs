//! The session: a Chromium, its context, its proxy, and which tab is the active one.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use agentd_base::Timestamp;
use agentd_browser::{Browser as Chromium, BrowserOptions, Context, ProxyEndpoint, Tab};
use agentd_engine::agents::AgentId;
use agentd_net::{FilteringProxy, ProxyListener, ProxyOptions, Trust};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::Browser;
use super::downloads::Handed;
use super::refusals::Refusals;
use crate::browser::error::BrowserError;
use crate::browser::model::Actor;

/// Pages load from many servers at once, and each socket is a tunnel.
const PROXY_CONNECTIONS: usize = 256;

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
    pub(super) handed: Mutex<Handed>,
    /// Cancelled at its end.
    pub(super) over: CancellationToken,
}

impl Session {
    pub(super) async fn start(browser: &Browser) -> Result<Self, BrowserError> {
        let inner = &browser.0;
        let downloads = browser.download_folder();
        inner.context.data_dir.make_folder(&downloads).map_err(BrowserError::Folder)?;
        let refusals = Arc::<Refusals>::default();
        let mut options = ProxyOptions::new(inner.policy.clone(), Trust::Steered);
        options.limits.connections = PROXY_CONNECTIONS;
        options.observer = Some(refusals.clone());
        let proxy = FilteringProxy::start(&ProxyListener::Loopback, options, &inner.context.entropy)?;
        let is_headless = browser.settings().headless;
        let credential = proxy.credential().map(|(user, password)| (user.to_owned(), password.clone()));
        let options = BrowserOptions {
            executable: inner.executable.clone(),
            headless: is_headless,
            download_directory: Some(downloads),
            proxy: proxy.address().map(|address| ProxyEndpoint { address, credential }),
            ..BrowserOptions::default()
        };
        let chromium = Chromium::new(options, inner.spawner.clone());
        let context = chromium.context_in(browser.environment()).await?;
        let now = browser.now();
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
            handed: Mutex::default(),
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

    /// Returns when the process and its folder are gone.
    pub(super) async fn end(&self) {
        self.over.cancel();
        self.chromium.close().await;
    }
}
