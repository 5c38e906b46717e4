//! Registry of the sessions, tabs, workers and downloads of a running Chromium, updated by its events.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use futures_util::future::join_all;
use parking_lot::Mutex;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;
use tokio::sync::watch;

use crate::cdp::{Event, Observer, SessionId};
use crate::downloads::Downloads;
use crate::emulation::Kind;
use crate::network::handle_paused_request;
use crate::shared::{COMMAND_TIMEOUT, Command, Shared, send_in_order};
use crate::tab::Tab;
use crate::{Environment, address};

/// Initial URL of an internal tab.
pub(crate) const INTERNAL_TAB_URL: &str = "about:blank#agentd-own-tab";
/// Maximum number of workers; further ones are not started, so that a page cannot occupy every processor.
const MAX_WORKERS: usize = 64;

/// Contexts, tabs and workers of one Chromium.
#[derive(Debug)]
pub(crate) struct Registry {
    /// Set before the first tab is attached.
    pub(crate) shared: OnceLock<Arc<Shared>>,
    tab_limit: usize,
    /// Serializes opening tabs.
    pub(crate) opening: tokio::sync::Mutex<()>,
    inner: Mutex<Inner>,
    /// Environments by context.
    environments: Mutex<HashMap<Arc<str>, Arc<Environment>>>,
    /// Counter of changes to the list of tabs and their contents.
    pub(crate) changes: watch::Sender<u64>,
    pub(crate) downloads: Downloads,
}

#[derive(Debug, Default)]
struct Inner {
    /// Tabs in opening order.
    tabs: Vec<Arc<Tab>>,
    sessions: HashMap<SessionId, Arc<Tab>>,
    workers: HashMap<SessionId, Worker>,
}

/// Attached worker.
#[derive(Debug, Clone)]
struct Worker {
    kind: Kind,
    environment: Arc<Environment>,
    /// Tab of the page that owns it.
    tab: Option<Arc<Tab>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AttachedToTarget {
    session_id: SessionId,
    target_info: TargetInfo,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TargetInfo {
    target_id: Arc<str>,
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    title: String,
    #[serde(default)]
    url: String,
    #[serde(default)]
    opener_id: Option<Arc<str>>,
    #[serde(default)]
    browser_context_id: Option<Arc<str>>,
    #[serde(default)]
    parent_frame_id: Option<Arc<str>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DetachedFromTarget {
    session_id: SessionId,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TargetInfoChanged {
    target_info: TargetInfo,
}

impl Registry {
    pub(crate) fn new(tab_limit: usize, downloads: Downloads) -> Self {
        Self {
            shared: OnceLock::new(),
            tab_limit,
            opening: tokio::sync::Mutex::default(),
            inner: Mutex::default(),
            environments: Mutex::default(),
            changes: watch::Sender::new(0),
            downloads,
        }
    }

    /// Returns the listed tabs of a context, which are those with an environment.
    pub(crate) fn tabs(&self, context: &str) -> Vec<Arc<Tab>> {
        let inner = self.inner.lock();
        inner.tabs.iter().filter(|tab| &*tab.context == context && tab.environment.is_some()).cloned().collect()
    }

    /// Sets the environment of targets opened in this context from now on.
    pub(crate) fn set_environment(&self, context: &Arc<str>, environment: &Arc<Environment>) {
        self.environments.lock().insert(Arc::clone(context), Arc::clone(environment));
    }

    pub(crate) fn forget_environment(&self, context: &str) {
        self.environments.lock().remove(context);
    }

    /// Returns all sessions that use this environment.
    pub(crate) fn sessions_in(&self, environment: &Arc<Environment>) -> Vec<(SessionId, Kind)> {
        let inner = self.inner.lock();
        let is_in = |tab: &Arc<Tab>| tab.environment.as_ref().is_some_and(|other| Arc::ptr_eq(other, environment));
        let pages = inner.sessions.iter().filter(|(_, tab)| is_in(tab));
        let pages = pages.map(|(session, tab)| {
            (Arc::clone(session), if tab.is_session(session) { Kind::Page } else { Kind::Frame })
        });
        let workers = inner.workers.iter().filter(|(_, worker)| Arc::ptr_eq(&worker.environment, environment));
        pages.chain(workers.map(|(session, worker)| (Arc::clone(session), worker.kind))).collect()
    }

    pub(crate) fn tab(&self, id: &str) -> Option<Arc<Tab>> {
        self.inner.lock().tabs.iter().find(|tab| tab.id() == id).cloned()
    }

    pub(crate) fn tab_limit(&self) -> usize {
        self.tab_limit
    }

    pub(crate) fn count(&self) -> usize {
        self.inner.lock().tabs.len()
    }

    fn attached(&self, event: &Event) {
        let Some(AttachedToTarget { session_id, target_info }) = event.read() else { return };
        let Some(shared) = self.shared.get() else { return };
        let outer = event.session.as_ref().and_then(|session| self.inner.lock().sessions.get(session).cloned());
        let context = target_info.browser_context_id.clone().unwrap_or_else(|| "".into());
        // A page cannot fake an internal tab, since its popups have an opener.
        let is_internal = target_info.url == INTERNAL_TAB_URL && target_info.opener_id.is_none();
        if let Some(worker) = self.worker_of(&target_info, event.session.as_ref(), &context) {
            self.inner.lock().workers.insert(Arc::clone(&session_id), worker.clone());
            tokio::spawn(set_up_worker(worker, session_id, Arc::clone(shared)));
            return;
        }
        match (&*target_info.kind, outer) {
            ("iframe", Some(tab)) => {
                self.inner.lock().sessions.insert(Arc::clone(&session_id), Arc::clone(&tab));
                let (frame, session) = (target_info.target_id, Arc::clone(&session_id));
                tab.frame_moved(frame, target_info.parent_frame_id, session);
                tokio::spawn(tab.set_up_frame(session_id));
            }
            ("page", _) if !address::is_permitted(&target_info.url) => {
                log_refused(&target_info.url);
                run_and_close(shared, session_id, &target_info.target_id);
            }
            ("page", None) if is_internal || self.count() < self.tab_limit => {
                let environment = self.environments.lock().get(&context).filter(|_| !is_internal).cloned();
                let session = Arc::clone(&session_id);
                let (id, opener) = (target_info.target_id, target_info.opener_id);
                let tab =
                    Arc::new(Tab::new(id, context, environment, opener, session, target_info.url, Arc::clone(shared)));
                {
                    let mut inner = self.inner.lock();
                    inner.tabs.push(Arc::clone(&tab));
                    inner.sessions.insert(session_id, Arc::clone(&tab));
                }
                self.notify_changed();
                let changes = self.changes.clone();
                tokio::spawn(async move {
                    tab.set_up().await;
                    changes.send_modify(|count| *count += 1);
                });
            }
            ("page", _) => {
                tracing::warn!("tab limit reached; popup closed");
                run_and_close(shared, session_id, &target_info.target_id);
            }
            // The worker stays paused until its page is gone.
            ("worker" | "service_worker" | "shared_worker", _) if self.inner.lock().workers.len() >= MAX_WORKERS => {
                tracing::debug!("worker limit reached; worker not started");
            }
            _ => {
                let detach = json!({"sessionId": session_id});
                send_in_order(
                    shared,
                    vec![
                        (Some(session_id), "Runtime.runIfWaitingForDebugger", json!({})),
                        (None, "Target.detachFromTarget", detach),
                    ],
                );
            }
        }
    }

    fn detached(&self, event: &Event) {
        let Some(DetachedFromTarget { session_id }) = event.read() else { return };
        let worker = self.inner.lock().workers.remove(&session_id);
        if worker.is_some() {
            return;
        }
        let Some(tab) = self.inner.lock().sessions.remove(&session_id) else { return };
        if let Some(environment) = &tab.environment {
            self.restore_process_overrides(environment);
        }
        if tab.is_session(&session_id) {
            self.inner.lock().tabs.retain(|other| !Arc::ptr_eq(other, &tab));
            tab.state.send_modify(|state| state.is_closed = true);
            self.notify_changed();
        } else {
            tab.state.send_modify(|state| state.session_detached(&session_id));
        }
    }

    /// Returns the worker to attach, unless the limit is reached.
    fn worker_of(&self, target: &TargetInfo, outer: Option<&SessionId>, context: &str) -> Option<Worker> {
        let kind = match &*target.kind {
            "worker" => Kind::Worker,
            "service_worker" | "shared_worker" => Kind::SharedWorker,
            _ => return None,
        };
        let inner = self.inner.lock();
        if inner.workers.len() >= MAX_WORKERS {
            return None;
        }
        // A nested worker belongs to the same page.
        let parent = outer.and_then(|outer| inner.workers.get(outer));
        let tab = outer.and_then(|outer| inner.sessions.get(outer)).or(parent.and_then(|parent| parent.tab.as_ref()));
        let environment = match (tab, parent) {
            (Some(tab), _) => tab.environment.clone()?,
            (None, Some(parent)) => Arc::clone(&parent.environment),
            (None, None) => self.environments.lock().get(context).cloned()?,
        };
        Some(Worker { kind, environment, tab: tab.cloned() })
    }

    /// Reapplies process-wide overrides: they may have ended with the session that set them.
    fn restore_process_overrides(&self, environment: &Arc<Environment>) {
        let commands = {
            let appearance = environment.appearance.lock();
            if !appearance.has_process_overrides() {
                return;
            }
            appearance.process_overrides()
        };
        let Some(shared) = self.shared.get() else { return };
        for (session, _) in
            self.sessions_in(environment).into_iter().filter(|(_, kind)| matches!(kind, Kind::Page | Kind::Frame))
        {
            let commands =
                commands.clone().map(|(method, parameters)| (Some(Arc::clone(&session)), method, parameters));
            send_in_order(shared, commands.into());
        }
    }

    /// Removes an address that tabs may not show: a tab that a client opened becomes blank, any other one is closed.
    fn remove_refused_address(&self, tab: &Tab) {
        let mut removal = None;
        tab.state.send_if_modified(|state| {
            removal = state.take_removal();
            false
        });
        let (Some(url), Some(shared)) = (removal, self.shared.get()) else { return };
        log_refused(&url);
        let command: Command = if tab.is_requested.load(Ordering::Relaxed) {
            (Some(tab.main_session()), "Page.navigate", json!({"url": "about:blank"}))
        } else {
            (None, "Target.closeTarget", json!({"targetId": tab.id()}))
        };
        send_in_order(shared, vec![command]);
    }

    /// Closes a tab whose page is in a reload loop.
    fn close_looping(&self, tab: &Tab) {
        let Some(shared) = self.shared.get() else { return };
        tracing::warn!(tab = tab.id(), "reload loop detected; tab closed");
        send_in_order(shared, vec![(None, "Target.closeTarget", json!({"targetId": tab.id()}))]);
    }

    fn notify_changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }
}

impl Observer for Registry {
    fn event(&self, event: &Event) {
        match &*event.method {
            "Target.attachedToTarget" => self.attached(event),
            "Target.detachedFromTarget" => self.detached(event),
            "Target.targetInfoChanged" => {
                let Some(TargetInfoChanged { target_info }) = event.read() else { return };
                if let Some(tab) = self.tab(&target_info.target_id) {
                    tab.state.send_modify(|state| {
                        state.check_target(&target_info.url);
                        if state.refused_address().is_none() {
                            state.title = target_info.title;
                        }
                    });
                    self.remove_refused_address(&tab);
                    self.notify_changed();
                }
            }
            "Browser.downloadWillBegin" | "Browser.downloadProgress" => {
                if let Some(shared) = self.shared.get() {
                    self.downloads.event(event, shared);
                }
            }
            _ => {
                let Some(session) = &event.session else { return };
                let (tab, worker) = {
                    let inner = self.inner.lock();
                    (inner.sessions.get(session).cloned(), inner.workers.get(session).cloned())
                };
                self.observe(event, tab.as_ref(), worker.as_ref());
                if let Some(tab) = tab {
                    let was_looping = tab.state.borrow().is_looping;
                    tab.apply(event, session);
                    if !was_looping && tab.state.borrow().is_looping {
                        self.close_looping(&tab);
                    }
                    if &*event.method == "Page.frameNavigated" {
                        self.remove_refused_address(&tab);
                        self.notify_changed();
                        if let Some(environment) = &tab.environment {
                            self.restore_process_overrides(environment);
                        }
                    }
                }
            }
        }
    }

    fn ended(&self, reason: &str) {
        let inner = std::mem::take(&mut *self.inner.lock());
        for tab in inner.tabs {
            tab.state.send_modify(|state| state.ended = Some(reason.into()));
        }
        self.notify_changed();
    }
}

impl Registry {
    /// Processes network events of tabs and workers.
    fn observe(&self, event: &Event, tab: Option<&Arc<Tab>>, worker: Option<&Worker>) {
        let tab = tab.or(worker.and_then(|worker| worker.tab.as_ref()));
        let environment = worker.map(|worker| &worker.environment).or(tab.and_then(|tab| tab.environment.as_ref()));
        let (Some(environment), Some(shared)) = (environment, self.shared.get()) else { return };
        match &*event.method {
            "Fetch.requestPaused" => handle_paused_request(event, environment, &shared.connection),
            method if method.starts_with("Network.") || method == "Page.lifecycleEvent" => {
                environment.observe(event, tab.map(|tab| tab.main_frame()).as_ref(), &shared.connection);
            }
            _ => {}
        }
    }
}

/// Configures a worker before it runs.
async fn set_up_worker(worker: Worker, session: SessionId, shared: Arc<Shared>) {
    let configured = worker.environment.configure_session(&shared, &session, worker.kind, true);
    let attach = json!({
        "autoAttach": true, "waitForDebuggerOnStart": true, "flatten": true,
        "filter": [{"type": "worker"}, {"exclude": true}],
    });
    let connection = &shared.connection;
    let rest = [("Target.setAutoAttach", attach), ("Runtime.runIfWaitingForDebugger", json!({}))];
    let rest = rest
        .map(|(method, parameters)| connection.call::<IgnoredAny>(Some(&session), method, parameters, COMMAND_TIMEOUT));
    let (configured, rest) = tokio::join!(configured, join_all(rest));
    if let Some(error) = configured.err().or_else(|| rest.into_iter().find_map(Result::err).map(Into::into)) {
        tracing::debug!(%error, "failed to configure worker");
    }
}

/// Logs only the scheme, since the rest of a URL may be secret.
fn log_refused(url: &str) {
    let scheme = url.split_once(':').map_or("", |(scheme, _)| scheme);
    tracing::warn!(scheme, "tab navigated to a refused address");
}

/// Closes a refused page. It must run first, since its opener is blocked until then.
fn run_and_close(shared: &Arc<Shared>, session: SessionId, target: &str) {
    send_in_order(
        shared,
        vec![
            (Some(session), "Runtime.runIfWaitingForDebugger", json!({})),
            (None, "Target.closeTarget", json!({"targetId": target})),
        ],
    );
}
