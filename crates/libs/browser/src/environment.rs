//! What a session keeps whatever becomes of its Chromium: how it appears, its mocks, what was requested.
//!
//! Every tab, frame and worker of a context follows its environment from its first request on. A context
//! that takes the place of one whose Chromium has ended is given the same environment.

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
use crate::emulation::{Appearance, Emulation, Kind, Profile, is_shared};
use crate::network::{HarRecorder, Mock, Mocks, NetworkLog, NetworkRequest, RequestFilter};
use crate::shared::{QUICK, Shared};

/// Sites whose storage is saved and cleared; the oldest are forgotten.
const MAX_ORIGINS: usize = 200;
/// For bodies that are on their way when a HAR is stopped.
const LAST_BODIES: Duration = Duration::from_secs(3);

#[derive(Debug, Default)]
pub struct Environment {
    pub(crate) appearance: Mutex<Appearance>,
    pub(crate) mocks: Mutex<Mocks>,
    pub(crate) log: Mutex<NetworkLog>,
    pub(crate) har: Mutex<Option<HarRecorder>>,
    /// Bodies that are asked for and have not come.
    pub(crate) awaited_bodies: watch::Sender<usize>,
    origins: Mutex<VecDeque<String>>,
}

impl Environment {
    #[must_use]
    pub fn emulation(&self) -> Emulation {
        self.appearance.lock().emulation.clone()
    }

    /// For what is opened from now on; [`Context::apply_environment`](crate::Context::apply_environment) for what is
    /// open already.
    pub fn set_emulation(&self, emulation: Emulation) {
        self.appearance.lock().emulation = emulation;
    }

    #[must_use]
    pub fn profile(&self) -> Profile {
        self.appearance.lock().profile.clone()
    }

    /// As [`Self::set_emulation`].
    pub fn set_profile(&self, profile: Profile) {
        self.appearance.lock().profile = profile;
    }

    /// In the order of their making.
    #[must_use]
    pub fn mocks(&self) -> Vec<Arc<Mock>> {
        self.mocks.lock().list()
    }

    /// Adds a mock, or replaces the one with its pattern. As [`Self::set_emulation`].
    ///
    /// # Errors
    /// [`BrowserError::Invalid`] when there are too many or they are too large.
    pub fn add_mock(&self, mock: Mock) -> Result<Arc<Mock>, BrowserError> {
        self.mocks.lock().add(mock)
    }

    /// Removes the mock with this pattern, or all; answers how many. As [`Self::set_emulation`].
    pub fn remove_mocks(&self, pattern: Option<&str>) -> usize {
        self.mocks.lock().remove(pattern)
    }

    /// The last ones, in the order of their sending.
    #[must_use]
    pub fn requests(&self, filter: &RequestFilter) -> Vec<NetworkRequest> {
        self.log.lock().list(filter)
    }

    /// Begins to keep what is requested, with headers and bodies; false if it does already. As [`Self::set_emulation`].
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

    /// What was requested since the start; `None` without one. As [`Self::set_emulation`].
    pub async fn stop_har(&self, browser: &str) -> Option<Value> {
        if self.records_har() {
            let mut awaited = self.awaited_bodies.subscribe();
            // What has not come by then is left out, and the entry says so.
            let _ = tokio::time::timeout(LAST_BODIES, awaited.wait_for(|count| *count == 0)).await;
        }
        self.har.lock().take().map(|recorder| recorder.finish(browser))
    }

    /// Tells a session how it is to be. A new one is as a browser is from the start.
    pub(crate) fn tell(
        &self,
        shared: &Shared,
        session: &SessionId,
        kind: Kind,
        is_new: bool,
    ) -> impl Future<Output = Result<(), BrowserError>> + Send + 'static {
        let told = self.commands(shared, kind, is_new).into_iter().map(|(method, parameters)| {
            let (connection, session) = (shared.connection.clone(), Arc::clone(session));
            async move { connection.call::<IgnoredAny>(Some(&session), method, parameters, QUICK).await }
        });
        // Sent in this order, and answered in any.
        let told = join_all(told);
        async move {
            for outcome in told.await {
                match outcome.map_err(BrowserError::from) {
                    Ok(IgnoredAny) => {}
                    Err(error) if is_shared(&error) => {}
                    // A worker has not all that a page has, and a page begins even where Chromium knows a name less.
                    Err(error @ BrowserError::Protocol(_))
                        if is_new || matches!(kind, Kind::Worker | Kind::SharedWorker) =>
                    {
                        tracing::debug!(%error, "a session does not follow its environment in all");
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

    /// Something happened to a request. Called in the order of the events, by the task that reads the pipe.
    pub(crate) fn observe(self: &Arc<Self>, event: &Event, tab: Option<&Arc<str>>, connection: &Connection) {
        self.log.lock().event(event);
        let wanted = self.har.lock().as_mut().and_then(|har| har.event(event, tab));
        if let Some(wanted) = wanted {
            self.awaited_bodies.send_modify(|count| *count += 1);
            let (environment, connection) = (Arc::clone(self), connection.clone());
            tokio::spawn(async move {
                let body = wanted.fetch(&connection).await;
                if let Some(har) = environment.har.lock().as_mut() {
                    har.body(&wanted, body);
                }
                environment.awaited_bodies.send_modify(|count| *count -= 1);
            });
        }
    }

    /// A page or frame was shown; its site may have stored something.
    pub(crate) fn saw(&self, url: &str) {
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

/// Of addresses that can store something.
pub(crate) fn origin_of(url: &str) -> Option<String> {
    let url = Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
    Some(url.origin().ascii_serialization())
}
