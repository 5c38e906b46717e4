//! Which sessions, tabs and downloads a running Chromium has, by its events.

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
use crate::network::paused;
use crate::shared::{Command, QUICK, Shared, tell_in_order};
use crate::tab::Tab;
use crate::{Environment, address};

/// What a tab of our own begins with.
pub(crate) const OWN_TAB: &str = "about:blank#agentd-own-tab";
/// Those beyond do not run: a page must not take every processor by its threads.
const MAX_WORKERS: usize = 64;

/// Contexts and tabs of one Chromium.
#[derive(Debug)]
pub(crate) struct Registry {
    /// Set before the first tab is attached to.
    pub(crate) shared: OnceLock<Arc<Shared>>,
    tab_limit: usize,
    /// Held by who opens a tab.
    pub(crate) opening: tokio::sync::Mutex<()>,
    inner: Mutex<Inner>,
    /// Of each context that is in use.
    environments: Mutex<HashMap<Arc<str>, Arc<Environment>>>,
    /// Counts changes of the list of tabs and of what they show.
    pub(crate) changes: watch::Sender<u64>,
    pub(crate) downloads: Downloads,
}

#[derive(Debug, Default)]
struct Inner {
    /// In the order of their opening.
    tabs: Vec<Arc<Tab>>,
    sessions: HashMap<SessionId, Arc<Tab>>,
    workers: HashMap<SessionId, Worker>,
}

/// A worker whose requests are seen.
#[derive(Debug, Clone)]
struct Worker {
    kind: Kind,
    environment: Arc<Environment>,
    /// The page that it belongs to.
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

    /// Those that are shown, which have an environment.
    pub(crate) fn tabs(&self, context: &str) -> Vec<Arc<Tab>> {
        let inner = self.inner.lock();
        inner.tabs.iter().filter(|tab| &*tab.context == context && tab.environment.is_some()).cloned().collect()
    }

    /// What is opened in this context from now on follows this environment.
    pub(crate) fn set_environment(&self, context: &Arc<str>, environment: &Arc<Environment>) {
        self.environments.lock().insert(Arc::clone(context), Arc::clone(environment));
    }

    pub(crate) fn forget_environment(&self, context: &str) {
        self.environments.lock().remove(context);
    }

    /// Everything that follows this environment.
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
        // A page's own has an opener, whatever it is opened with.
        let is_ours = target_info.url == OWN_TAB && target_info.opener_id.is_none();
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
            ("page", None) if is_ours || self.count() < self.tab_limit => {
                let environment = self.environments.lock().get(&context).filter(|_| !is_ours).cloned();
                let session = Arc::clone(&session_id);
                let (id, opener) = (target_info.target_id, target_info.opener_id);
                let tab =
                    Arc::new(Tab::new(id, context, environment, opener, session, target_info.url, Arc::clone(shared)));
                {
                    let mut inner = self.inner.lock();
                    inner.tabs.push(Arc::clone(&tab));
                    inner.sessions.insert(session_id, Arc::clone(&tab));
                }
                self.changed();
                let changes = self.changes.clone();
                tokio::spawn(async move {
                    tab.set_up().await;
                    changes.send_modify(|count| *count += 1);
                });
            }
            ("page", _) => {
                tracing::warn!("a page opened more tabs than there may be; one was closed");
                run_and_close(shared, session_id, &target_info.target_id);
            }
            // It waits for the debugger as long as its page is there.
            ("worker" | "service_worker" | "shared_worker", _) if self.inner.lock().workers.len() >= MAX_WORKERS => {
                tracing::debug!("a page started more workers than there may be; one does not run");
            }
            _ => {
                let detach = json!({"sessionId": session_id});
                tell_in_order(
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
            self.restore_of_process(environment);
        }
        if tab.is_session(&session_id) {
            self.inner.lock().tabs.retain(|other| !Arc::ptr_eq(other, &tab));
            tab.state.send_modify(|state| state.is_closed = true);
            self.changed();
        } else {
            tab.state.send_modify(|state| state.session_detached(&session_id));
        }
    }

    /// A worker to be looked at, unless there are too many.
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
        // A worker of a worker belongs to the same page.
        let above = outer.and_then(|outer| inner.workers.get(outer));
        let tab = outer.and_then(|outer| inner.sessions.get(outer)).or(above.and_then(|above| above.tab.as_ref()));
        let environment = match (tab, above) {
            (Some(tab), _) => tab.environment.clone()?,
            (None, Some(above)) => Arc::clone(&above.environment),
            (None, None) => self.environments.lock().get(context).cloned()?,
        };
        Some(Worker { kind, environment, tab: tab.cloned() })
    }

    /// What a process has as a whole may have gone with the page that it came through; others of it stay.
    fn restore_of_process(&self, environment: &Arc<Environment>) {
        let commands = {
            let appearance = environment.appearance.lock();
            if !appearance.has_of_process() {
                return;
            }
            appearance.of_process()
        };
        let Some(shared) = self.shared.get() else { return };
        for (session, _) in
            self.sessions_in(environment).into_iter().filter(|(_, kind)| matches!(kind, Kind::Page | Kind::Frame))
        {
            let commands =
                commands.clone().map(|(method, parameters)| (Some(Arc::clone(&session)), method, parameters));
            tell_in_order(shared, commands.into());
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
        tell_in_order(shared, vec![command]);
    }

    /// Closes a tab whose page is in a reload loop.
    fn close_looping(&self, tab: &Tab) {
        let Some(shared) = self.shared.get() else { return };
        tracing::warn!(tab = tab.id(), "a page loaded itself without end; its tab is closed");
        tell_in_order(shared, vec![(None, "Target.closeTarget", json!({"targetId": tab.id()}))]);
    }

    fn changed(&self) {
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
                        state.judge_target(&target_info.url);
                        if state.refused_address().is_none() {
                            state.title = target_info.title;
                        }
                    });
                    self.remove_refused_address(&tab);
                    self.changed();
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
                        self.changed();
                        if let Some(environment) = &tab.environment {
                            self.restore_of_process(environment);
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
        self.changed();
    }
}

impl Registry {
    /// Requests, whoever sends them.
    fn observe(&self, event: &Event, tab: Option<&Arc<Tab>>, worker: Option<&Worker>) {
        let tab = tab.or(worker.and_then(|worker| worker.tab.as_ref()));
        let environment = worker.map(|worker| &worker.environment).or(tab.and_then(|tab| tab.environment.as_ref()));
        let (Some(environment), Some(shared)) = (environment, self.shared.get()) else { return };
        match &*event.method {
            "Fetch.requestPaused" => paused(event, environment, &shared.connection),
            method if method.starts_with("Network.") || method == "Page.lifecycleEvent" => {
                environment.observe(event, tab.map(|tab| tab.main_frame()).as_ref(), &shared.connection);
            }
            _ => {}
        }
    }
}

/// Before it runs.
async fn set_up_worker(worker: Worker, session: SessionId, shared: Arc<Shared>) {
    let told = worker.environment.tell(&shared, &session, worker.kind, true);
    let attach = json!({
        "autoAttach": true, "waitForDebuggerOnStart": true, "flatten": true,
        "filter": [{"type": "worker"}, {"exclude": true}],
    });
    let connection = &shared.connection;
    let rest = [("Target.setAutoAttach", attach), ("Runtime.runIfWaitingForDebugger", json!({}))];
    let rest =
        rest.map(|(method, parameters)| connection.call::<IgnoredAny>(Some(&session), method, parameters, QUICK));
    let (told, rest) = tokio::join!(told, join_all(rest));
    if let Some(error) = told.err().or_else(|| rest.into_iter().find_map(Result::err).map(Into::into)) {
        tracing::debug!(%error, "a worker could not be prepared");
    }
}

/// Logs the scheme; the rest of an address may be secret.
fn log_refused(url: &str) {
    let scheme = url.split_once(':').map_or("", |(scheme, _)| scheme);
    tracing::warn!(scheme, "tab went to a refused address");
}

/// Closes a page that is not to be shown. The page that opened it stands still until it runs.
fn run_and_close(shared: &Arc<Shared>, session: SessionId, target: &str) {
    tell_in_order(
        shared,
        vec![
            (Some(session), "Runtime.runIfWaitingForDebugger", json!({})),
            (None, "Target.closeTarget", json!({"targetId": target})),
        ],
    );
}
