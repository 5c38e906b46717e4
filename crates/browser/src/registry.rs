//! Which sessions, tabs and downloads a running Chromium has, by its events.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::cdp::{Event, Observer, SessionId};
use crate::downloads::Downloads;
use crate::tab::{QUICK, Shared, Tab};

/// Contexts and tabs of one Chromium.
#[derive(Debug)]
pub(crate) struct Registry {
    /// Set before the first tab is attached to.
    pub(crate) shared: OnceLock<Arc<Shared>>,
    tab_limit: usize,
    inner: Mutex<Inner>,
    /// Counts changes of the list of tabs and of what they show.
    pub(crate) changes: watch::Sender<u64>,
    pub(crate) downloads: Downloads,
}

#[derive(Debug, Default)]
struct Inner {
    /// In the order of their opening.
    tabs: Vec<Arc<Tab>>,
    sessions: HashMap<SessionId, Arc<Tab>>,
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
        Self { shared: OnceLock::new(), tab_limit, inner: Mutex::default(), changes: watch::Sender::new(0), downloads }
    }

    pub(crate) fn tabs(&self, context: &str) -> Vec<Arc<Tab>> {
        self.inner.lock().tabs.iter().filter(|tab| &*tab.context == context).cloned().collect()
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
        match (&*target_info.kind, outer) {
            ("iframe", Some(tab)) => {
                self.inner.lock().sessions.insert(Arc::clone(&session_id), Arc::clone(&tab));
                let (frame, session) = (target_info.target_id, Arc::clone(&session_id));
                tab.frame_moved(frame, target_info.parent_frame_id, session);
                tokio::spawn(tab.set_up_frame(session_id));
            }
            ("page", None) if self.count() < self.tab_limit => {
                let context = target_info.browser_context_id.unwrap_or_else(|| "".into());
                let session = Arc::clone(&session_id);
                let (id, opener) = (target_info.target_id, target_info.opener_id);
                let tab = Arc::new(Tab::new(id, context, opener, session, target_info.url, Arc::clone(shared)));
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
                // The page that opened it stands still until it runs.
                tell_in_order(
                    shared,
                    vec![
                        (Some(session_id), "Runtime.runIfWaitingForDebugger", json!({})),
                        (None, "Target.closeTarget", json!({"targetId": target_info.target_id})),
                    ],
                );
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
        let Some(tab) = self.inner.lock().sessions.remove(&session_id) else { return };
        if tab.is_session(&session_id) {
            self.inner.lock().tabs.retain(|other| !Arc::ptr_eq(other, &tab));
            tab.state.send_modify(|state| state.is_closed = true);
            self.changed();
        } else {
            tab.state.send_modify(|state| state.session_detached(&session_id));
        }
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
                    tab.state.send_modify(|state| state.title = target_info.title);
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
                let tab = self.inner.lock().sessions.get(session).cloned();
                if let Some(tab) = tab {
                    tab.apply(event, session);
                    if &*event.method == "Page.frameNavigated" {
                        self.changed();
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

type Command = (Option<SessionId>, &'static str, Value);

/// A command whose outcome changes nothing here.
pub(crate) fn tell(shared: &Arc<Shared>, method: &'static str, parameters: Value) {
    tell_in_order(shared, vec![(None, method, parameters)]);
}

/// Each when the one before is done, or has failed.
fn tell_in_order(shared: &Arc<Shared>, commands: Vec<Command>) {
    let connection = shared.connection.clone();
    tokio::spawn(async move {
        for (session, method, parameters) in commands {
            if let Err(error) = connection.call::<IgnoredAny>(session.as_deref(), method, parameters, QUICK).await {
                tracing::debug!(%error, "a command was not carried out");
            }
        }
    });
}
