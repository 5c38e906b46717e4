//! Tab: a page with its frames, in any number of processes.
//!
//! Invariants
//! - The state follows the events of the browser in order.
//! - Actions run one at a time, in order of arrival.
//! - An open dialog, a crash, and the end of the tab or browser fail pending operations with a specific error.

mod dialogs;
mod events;
mod navigation;
mod setup;
mod state;
mod world;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::cdp::SessionId;
use crate::shared::Shared;
use crate::snapshot::{Pinned, Refs};
use crate::{BrowserError, Environment, address};
pub use state::{Dialog, DialogAnswer, LoadState};
pub(crate) use state::{FrameId, TabState};
use state::{LOADS_WINDOW, MAX_LOADS, PreparedAnswer};
pub(crate) use world::{ACTION_OBJECT_GROUP, Argument, Element, Invoked, is_gone};

/// Tab in a list of tabs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TabInfo {
    pub tab_id: String,
    pub url: String,
    pub title: String,
    pub loading: bool,
    pub crashed: bool,
    /// ID of the tab whose page opened it.
    pub opener_id: Option<String>,
}

pub struct Tab {
    id: Arc<str>,
    pub(crate) context: Arc<str>,
    /// `None` for an internal tab, which is not listed.
    pub(crate) environment: Option<Arc<Environment>>,
    opener: Option<Arc<str>>,
    session: SessionId,
    pub(crate) shared: Arc<Shared>,
    pub(crate) state: watch::Sender<TabState>,
    worlds: Mutex<HashMap<FrameId, World>>,
    /// Held by the running action. Fair.
    pub(crate) turn: tokio::sync::Mutex<()>,
    /// Whether it was opened through [`crate::Context::open_tab`] rather than by a page or Chromium.
    pub(crate) is_requested: AtomicBool,
    /// Whether the running action has sent a key or click.
    pub(crate) input_sent: AtomicBool,
    /// Held while a snapshot is taken.
    pub(crate) snapshots: tokio::sync::Mutex<()>,
    pub(crate) refs: Mutex<Refs>,
    pub(crate) pinned: Mutex<Pinned>,
}

/// Isolated world of a frame with the page functions.
#[derive(Debug, Clone)]
struct World {
    session: SessionId,
    context: i64,
    /// Remote object with the page functions.
    functions: Arc<str>,
}

impl std::fmt::Debug for Tab {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tab").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Deadline of an operation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline {
    started: Instant,
    limit: Duration,
}

impl Deadline {
    pub(crate) fn after(limit: Duration) -> Self {
        Self { started: Instant::now(), limit }
    }

    pub(crate) fn remaining(&self) -> Duration {
        self.limit.saturating_sub(self.started.elapsed())
    }

    pub(crate) fn is_over(&self) -> bool {
        self.remaining().is_zero()
    }

    pub(crate) fn waited_ms(&self) -> u64 {
        crate::error::millis(self.started.elapsed())
    }

    pub(crate) fn timeout(&self, what: impl Into<String>) -> BrowserError {
        BrowserError::Timeout { what: what.into(), waited_ms: self.waited_ms() }
    }
}

impl Tab {
    pub(crate) fn new(
        id: Arc<str>,
        context: Arc<str>,
        environment: Option<Arc<Environment>>,
        opener: Option<Arc<str>>,
        session: SessionId,
        url: String,
        shared: Arc<Shared>,
    ) -> Self {
        // The main frame has the ID of its target.
        let state = TabState::new(Arc::clone(&id), Arc::clone(&session), url);
        Self {
            id,
            context,
            environment,
            opener,
            session,
            shared,
            state: watch::Sender::new(state),
            worlds: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
            is_requested: AtomicBool::new(false),
            input_sent: AtomicBool::new(false),
            snapshots: tokio::sync::Mutex::default(),
            refs: Mutex::default(),
            pinned: Mutex::default(),
        }
    }

    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    #[must_use]
    pub fn info(&self) -> TabInfo {
        let state = self.state.borrow();
        TabInfo {
            tab_id: self.id.to_string(),
            url: state.url().to_owned(),
            title: state.title.clone(),
            loading: state.is_loading || state.is_navigating,
            crashed: state.is_crashed,
            opener_id: self.opener.as_deref().map(str::to_owned),
        }
    }

    /// Returns the last 20 dialogs; the last one may be open.
    #[must_use]
    pub fn dialogs(&self) -> Vec<Dialog> {
        self.state.borrow().dialogs.iter().cloned().collect()
    }

    /// HTTP status of the document; `None` if it had no response.
    #[must_use]
    pub fn document_status(&self) -> Option<u16> {
        self.state.borrow().document_status()
    }

    pub(crate) fn main_frame(&self) -> FrameId {
        Arc::clone(&self.state.borrow().main_frame)
    }

    pub(crate) fn main_session(&self) -> SessionId {
        Arc::clone(&self.session)
    }

    /// Whether this is the main session, with which the tab ends.
    pub(crate) fn is_session(&self, session: &str) -> bool {
        *self.session == *session
    }

    /// Returns all sessions of the page.
    pub(crate) fn sessions(&self) -> Vec<SessionId> {
        let state = self.state.borrow();
        let mut sessions: Vec<SessionId> = state.frames.values().map(|frame| Arc::clone(&frame.session)).collect();
        sessions.sort();
        sessions.dedup();
        sessions
    }

    /// Records that a frame moved to its own process and session.
    pub(crate) fn frame_moved(&self, frame: FrameId, parent: Option<FrameId>, session: SessionId) {
        self.forget_world(&frame);
        self.state.send_modify(|state| state.frame_attached(frame, parent, session));
    }

    fn forget_world(&self, frame: &str) {
        self.worlds.lock().remove(frame);
    }

    /// Returns the session of a frame.
    pub(crate) fn session_of(&self, frame: &str) -> Option<SessionId> {
        self.state.borrow().frames.get(frame).map(|frame| Arc::clone(&frame.session))
    }

    /// Sends a command to the main session of the page.
    pub(crate) async fn call<R: DeserializeOwned>(
        &self,
        method: &'static str,
        parameters: impl Serialize,
        limit: Duration,
    ) -> Result<R, BrowserError> {
        self.call_in(&self.session, method, parameters, limit).await
    }

    /// Sends a command to a session of the page. Returns early if it cannot be answered.
    pub(crate) async fn call_in<R: DeserializeOwned>(
        &self,
        session: &str,
        method: &'static str,
        parameters: impl Serialize,
        limit: Duration,
    ) -> Result<R, BrowserError> {
        let answer = self.shared.connection.call(Some(session), method, parameters, limit);
        self.guarded(async { Ok(answer.await?) }).await
    }

    /// Runs work until it is done or the page can no longer answer.
    pub(crate) async fn guarded<T>(
        &self,
        work: impl Future<Output = Result<T, BrowserError>>,
    ) -> Result<T, BrowserError> {
        self.check_address()?;
        let mut state = self.state.subscribe();
        let obstacle = async {
            let _ = state.wait_for(|state| obstacle(state).is_some()).await;
            let found = obstacle(&state.borrow());
            found.unwrap_or(BrowserError::TabCrashed)
        };
        tokio::select! {
            biased;
            done = work => {
                // Discard the answer of a page that has been refused in the meantime.
                self.check_address()?;
                done
            }
            error = obstacle => Err(error),
        }
    }

    /// Fails while the tab shows a refused address.
    pub(crate) fn check_address(&self) -> Result<(), BrowserError> {
        self.state.borrow().refused_address().map_or(Ok(()), |url| Err(address::refused(url)))
    }

    /// Waits until `probe` returns a value for the state.
    pub(crate) async fn wait_until<T>(
        &self,
        deadline: Deadline,
        what: &str,
        mut probe: impl FnMut(&TabState) -> Option<T>,
    ) -> Result<T, BrowserError> {
        let mut state = self.state.subscribe();
        let waiting = async {
            loop {
                if let Some(found) = probe(&state.borrow_and_update()) {
                    return Ok(found);
                }
                if state.changed().await.is_err() {
                    return Err(BrowserError::NoTab(self.id.to_string()));
                }
            }
        };
        match tokio::time::timeout(deadline.remaining(), self.guarded(waiting)).await {
            Ok(found) => found,
            Err(_) => Err(deadline.timeout(what)),
        }
    }
}

/// Returns the reason why a page cannot answer.
fn obstacle(state: &TabState) -> Option<BrowserError> {
    if let Some(reason) = &state.ended {
        return Some(BrowserError::Ended(Arc::clone(reason)));
    }
    if state.is_looping {
        let why = format!(
            "the page reloaded itself more than {MAX_LOADS} times within {} seconds; its tab was closed",
            LOADS_WINDOW.as_secs()
        );
        return Some(BrowserError::LimitExceeded(why));
    }
    if state.is_closed {
        return Some(BrowserError::NoTab(state.main_frame.to_string()));
    }
    if state.is_crashed {
        return Some(BrowserError::TabCrashed);
    }
    if let Some(url) = state.refused_address() {
        return Some(address::refused(url));
    }
    let dialog = state.open_dialog()?;
    Some(BrowserError::DialogOpen { kind: dialog.kind.clone(), message: dialog.message.clone() })
}
