//! Session state that outlives a Chromium: appearance, mocks and the log of requests.
//!
//! Every tab, frame and worker of a context uses its environment from the first request on. A context that replaces one
//! whose Chromium has ended receives the same environment.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use parking_lot::Mutex;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use tokio::sync::watch;
use url::Url;

use crate::BrowserError;
use crate::cdp::{Connection, Event, SessionId};
use crate::emulation::{Appearance, Emulation, Kind, Profile, is_already_in_effect};
use crate::network::{HarRecorder, Mock, Mocks, NetworkLog, NetworkRequest, RequestFilter};
use crate::shared::{COMMAND_TIMEOUT, Shared};

/// Maximum number of origins whose storage is saved and cleared; the oldest are forgotten.
const MAX_ORIGINS: usize = 200;
/// Time limit for pending response bodies when a HAR is stopped.
const PENDING_BODIES_TIMEOUT: Duration = Duration::from_secs(3);

#[derive(Debug, Default)]
pub struct Environment {
    pub(crate) appearance: Mutex<Appearance>,
    pub(crate) mocks: Mutex<Mocks>,
    pub(crate) log: Mutex<NetworkLog>,
    pub(crate) har: Mutex<Option<HarRecorder>>,
    /// Number of requested response bodies that have not arrived.
    pub(crate) pending_bodies: watch::Sender<usize>,
    origins: Mutex<VecDeque<String>>,
}

impl Environment {
    #[must_use]
    pub fn emulation(&self) -> Emulation {
        self.appearance.lock().emulation.clone()
    }

    /// Sets the emulation for targets opened from now on. Use
    /// [`Context::apply_environment`](crate::Context::apply_environment) for targets that are already open.
    pub fn set_emulation(&self, emulation: Emulation) {
        self.appearance.lock().emulation = emulation;
    }

    #[must_use]
    pub fn profile(&self) -> Profile {
        self.appearance.lock().profile.clone()
    }

    /// Applies as described at [`Self::set_emulation`].
    pub fn set_profile(&self, profile: Profile) {
        self.appearance.lock().profile = profile;
    }

    /// Returns the mocks in the order of creation.
    #[must_use]
    pub fn mocks(&self) -> Vec<Arc<Mock>> {
        self.mocks.lock().list()
    }

    /// Adds a mock, or replaces the one with the same pattern. Applies as described at [`Self::set_emulation`].
    ///
    /// # Errors
    /// [`BrowserError::LimitExceeded`] if there are too many mocks or they are too large.
    pub fn add_mock(&self, mock: Mock) -> Result<Arc<Mock>, BrowserError> {
        self.mocks.lock().add(mock)
    }

    /// Removes the mock with this pattern, or all, and returns the number removed. Applies as described at
    /// [`Self::set_emulation`].
    pub fn remove_mocks(&self, pattern: Option<&str>) -> usize {
        self.mocks.lock().remove(pattern)
    }

    /// Returns the most recent matching requests in the order of sending.
    #[must_use]
    pub fn requests(&self, filter: &RequestFilter) -> Vec<NetworkRequest> {
        self.log.lock().list(filter)
    }

    /// Starts recording requests with headers and bodies. Returns false if a recording is already active. Applies as
    /// described at [`Self::set_emulation`].
    pub fn start_har(&self) -> bool {
        let mut har = self.har.lock();
        let is_new = har.is_none();
        har.get_or_insert_default();
        is_new
    }

    #[must_use]
    pub fn records_har(&self) -> bool {
        self.har.lock().is_some()
    }

    /// Stops the recording and returns the HAR, or `None` if none was active. Applies as described at
    /// [`Self::set_emulation`].
    pub async fn stop_har(&self, browser: &str) -> Option<Value> {
        if self.records_har() {
            let mut pending = self.pending_bodies.subscribe();
            // Bodies that are still missing are omitted, which their entries state.
            let _ = tokio::time::timeout(PENDING_BODIES_TIMEOUT, pending.wait_for(|count| *count == 0)).await;
        }
        self.har.lock().take().map(|recorder| recorder.finish(browser))
    }

    /// Sends the settings of the environment to a session. A new session has the browser's defaults.
    pub(crate) fn configure_session(
        &self,
        shared: &Shared,
        session: &SessionId,
        kind: Kind,
        is_new: bool,
    ) -> impl Future<Output = Result<(), BrowserError>> + Send + 'static {
        let calls = self.commands(shared, kind, is_new).into_iter().map(|(method, parameters)| {
            let (connection, session) = (shared.connection.clone(), Arc::clone(session));
            async move { connection.call::<IgnoredAny>(Some(&session), method, parameters, COMMAND_TIMEOUT).await }
        });
        // Sent in this order; responses may arrive in any order.
        let calls = join_all(calls);
        async move {
            for outcome in calls.await {
                match outcome.map_err(BrowserError::from) {
                    Ok(IgnoredAny) => {}
                    Err(error) if is_already_in_effect(&error) => {}
                    // Workers lack some domains, and a new page must start even if Chromium rejects a setting.
                    Err(error @ BrowserError::Protocol(_))
                        if is_new || matches!(kind, Kind::Worker | Kind::SharedWorker) =>
                    {
                        tracing::debug!(%error, "session rejected an environment setting");
                    }
                    Err(error) => return Err(error),
                }
            }
            Ok(())
        }
    }

    fn commands(&self, shared: &Shared, kind: Kind, is_new: bool) -> Vec<(&'static str, Value)> {
        let mut commands = self.appearance.lock().commands(kind, shared.viewport, &shared.version, is_new);
        if kind != Kind::Worker {
            match self.mocks.lock().interception() {
                Some(patterns) => commands.push(("Fetch.enable", patterns)),
                None if !is_new => commands.push(("Fetch.disable", json!({}))),
                None => {}
            }
        }
        let buffers = if self.records_har() {
            HarRecorder::buffers()
        } else {
            json!({"maxTotalBufferSize": 0, "maxResourceBufferSize": 0, "maxPostDataSize": 1})
        };
        commands.push(("Network.enable", buffers));
        commands
    }

    /// Processes a network event. Called in event order by the task that reads the pipe.
    pub(crate) fn observe(self: &Arc<Self>, event: &Event, tab: Option<&Arc<str>>, connection: &Connection) {
        self.log.lock().event(event);
        let requested = self.har.lock().as_mut().and_then(|har| har.event(event, tab));
        if let Some(requested) = requested {
            self.pending_bodies.send_modify(|count| *count += 1);
            let (environment, connection) = (Arc::clone(self), connection.clone());
            tokio::spawn(async move {
                let body = requested.fetch(&connection).await;
                if let Some(har) = environment.har.lock().as_mut() {
                    har.body(&requested, body);
                }
                environment.pending_bodies.send_modify(|count| *count -= 1);
            });
        }
    }

    /// Records the origin of a page or frame, which may have stored data.
    pub(crate) fn record_origin(&self, url: &str) {
        let Some(origin) = origin_of(url) else { return };
        let mut origins = self.origins.lock();
        if origins.contains(&origin) {
            return;
        }
        if origins.len() == MAX_ORIGINS {
            origins.pop_front();
        }
        origins.push_back(origin);
    }

    pub(crate) fn origins(&self) -> Vec<String> {
        self.origins.lock().iter().cloned().collect()
    }
}

/// Returns the origin of a URL that can have storage.
pub(crate) fn origin_of(url: &str) -> Option<String> {
    let url = Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
    Some(url.origin().ascii_serialization())
}
