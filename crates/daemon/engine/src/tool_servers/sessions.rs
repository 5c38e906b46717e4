//! Sessions with tool servers: connecting, testing, listing, disconnecting.

use std::sync::Arc;
use std::time::Duration;

use agentd_base::Timestamp;
use agentd_mcp::McpError;
use tokio::sync::{Notify, mpsc};

use super::change::ToolServerId;
use super::error::{Failure, ToolServerError};
use super::link::{COMMAND_QUEUE_CAPACITY, Command, Link, Requester, Shared};
use super::listing::Listing;
use super::listings::Listings;
use super::load::{LoadedServer, Spec};
use super::model::ToolServer;
use super::service::{ToolServers, not_found};
use super::state::{TestReport, ToolServerState};
use super::supervisor::Supervisor;

/// Sessions without a call for this duration are closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(600);
/// Interval between pings of servers over HTTP.
const PING_INTERVAL: Duration = Duration::from_secs(60);
/// Maximum time to verify an existing session by a ping.
const PING_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for sessions to close gracefully at shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(4);

impl ToolServers {
    /// Returns the link to the supervisor of a server; creates one if there is none.
    pub(super) fn link(&self, id: &ToolServerId) -> Arc<Link> {
        let mut links = self.0.links.lock();
        if let Some(link) = links.by_id.get(id)
            && (link.is_alive() || links.is_closed)
        {
            return Arc::clone(link);
        }
        let (sender, commands) = mpsc::channel(COMMAND_QUEUE_CAPACITY);
        let link = Arc::new(Link { commands: sender, shared: Shared::new(self.0.clock.clone()) });
        let supervisor = Supervisor {
            opener: Arc::clone(&self.0.opener),
            listings: self.listings(id),
            clock: self.0.clock.clone(),
            entropy: self.0.entropy.clone(),
            shared: Arc::clone(&link.shared),
            commands,
            failures: 0,
        };
        // Without a supervisor, requests fail because the daemon shuts down.
        if !links.is_closed {
            self.0.supervisors.spawn(supervisor.run());
        }
        links.by_id.insert(id.clone(), Arc::clone(&link));
        self.0.link_created.notify_one();
        link
    }

    fn listings(&self, id: &ToolServerId) -> Listings {
        Listings { db: self.0.db.clone(), clock: self.0.clock.clone(), id: id.clone() }
    }

    /// Connects in the background if the server is enabled and its tools are unknown.
    pub(super) async fn start_connecting(&self, id: &str) -> Result<(), ToolServerError> {
        if let Some(loaded) = self.loaded().await?.find(id)
            && loaded.server.enabled
            && loaded.listing.is_none()
        {
            self.connect_in_background(loaded, true);
        }
        Ok(())
    }

    /// Connects without waiting; `skips_backoff` ignores the delay after a failure.
    pub(super) fn connect_in_background(&self, loaded: &LoadedServer, skips_backoff: bool) {
        let Ok(spec) = &loaded.spec else { return };
        let link = self.link(&loaded.server.id);
        let state = link.state();
        let must_wait = state.retry_at.is_some_and(|(at, _)| at > tokio::time::Instant::now());
        if state.session.is_none() && (skips_backoff || !must_wait) {
            // A full queue already contains the command.
            let _ = link.send(Command::Connect(Arc::clone(spec)));
        }
    }

    pub(super) fn remove_link(&self, id: &ToolServerId) -> Option<Arc<Link>> {
        let mut links = self.0.links.lock();
        links.last_pings.remove(id);
        links.by_id.remove(id)
    }

    /// Returns the current registration of an enabled server, for a call.
    pub(super) async fn find_enabled(
        &self,
        id: &ToolServerId,
    ) -> Result<(Arc<ToolServer>, Arc<Spec>), ToolServerError> {
        let loaded = self.loaded().await?;
        let found = loaded.find(id.as_str()).ok_or_else(|| not_found(id.as_str()))?;
        if !found.server.enabled {
            return Err(ToolServerError::Disabled);
        }
        Ok((Arc::clone(&found.server), spec_of(found)?))
    }

    /// Connects and waits for the session.
    ///
    /// # Errors
    /// `NotFound`, `Disabled`, or the reason why the connection failed.
    pub async fn connect(&self, id: &str) -> Result<ToolServerState, ToolServerError> {
        let (server, spec) = self.find_enabled(&ToolServerId::from(id)).await?;
        let link = self.link(&server.id);
        let existing = link.state().session;
        let session = link.session(&spec, Requester::Owner).await?;
        // An existing session may have lost its server unnoticed.
        if existing.is_some_and(|existing| Arc::ptr_eq(&existing, &session))
            && let Err(error) = session.connection.ping(PING_TIMEOUT).await
            && !(matches!(error, McpError::Timeout { .. }) && link.has_calls())
        {
            link.disconnect().await?;
            link.session(&spec, Requester::Owner).await?;
        }
        self.get(id).await
    }

    /// Closes the session and waits until the program has exited. The next call connects again.
    ///
    /// # Errors
    /// `NotFound`, or the daemon is shutting down.
    pub async fn disconnect(&self, id: &str) -> Result<ToolServerState, ToolServerError> {
        let state = self.get(id).await?;
        let link = self.0.links.lock().by_id.get(&state.server.id).cloned();
        if let Some(link) = link.filter(|link| link.is_alive()) {
            link.disconnect().await?;
        }
        self.get(id).await
    }

    /// Lists the tools again.
    ///
    /// # Errors
    /// `NotFound`, or the reason why the server did not list its tools.
    pub async fn discover(&self, id: &str) -> Result<ToolServerState, ToolServerError> {
        let loaded = self.loaded().await?;
        let found = loaded.find(id).ok_or_else(|| not_found(id))?;
        let (spec, listings) = (spec_of(found)?, self.listings(&found.server.id));
        if found.server.enabled {
            let session = self.link(&found.server.id).session(&spec, Requester::Owner).await?;
            let listing = session.list().await.map_err(ToolServerError::Failed)?;
            listings.store_for_spec(&spec, &listing).await;
        } else {
            let (listed, _) = self.probe(&spec).await?;
            listings.store_for_spec(&spec, &listed.map_err(ToolServerError::Failed)?).await;
        }
        self.get(id).await
    }

    /// Opens a separate session, lists the tools, and closes it. Changes nothing.
    ///
    /// # Errors
    /// `NotFound`, `Busy`, or a store error. Failures of the server are in the report.
    pub async fn test(&self, id: &str) -> Result<TestReport, ToolServerError> {
        let loaded = self.loaded().await?;
        let found = loaded.find(id).ok_or_else(|| not_found(id))?;
        let begun = self.0.clock.now();
        let (listed, stderr_tail) = match spec_of(found) {
            Ok(spec) => self.probe(&spec).await?,
            Err(ToolServerError::Failed(failure)) => (Err(failure), String::new()),
            Err(error) => return Err(error),
        };
        let tools = self.0.loader.tools();
        let outcome = listed.map(|listing| {
            let (tools, _) = listing
                .offered(&found.server, Duration::ZERO, |name| tools.is_reserved(name) || found.taken.contains(name));
            (listing, tools)
        });
        Ok(TestReport { duration: self.0.clock.now().since(begun), outcome, stderr_tail })
    }

    async fn probe(&self, spec: &Spec) -> Result<(Result<Listing, Failure>, String), ToolServerError> {
        let _permit = self.0.tests.try_acquire().map_err(|_| ToolServerError::Busy)?;
        let session = match self.0.opener.open(spec).await {
            Ok(session) => session,
            Err(failure) => {
                let diagnosis = failure.diagnosis.clone();
                return Ok((Err(failure), diagnosis));
            }
        };
        let listed = session.list().await;
        let diagnosis = session.diagnosis();
        session.end().await;
        Ok((listed, diagnosis))
    }

    /// Closes sessions that are idle, deleted, disabled or outdated; pings servers over HTTP.
    ///
    /// # Errors
    /// A store error.
    pub async fn reconcile(&self) -> Result<usize, ToolServerError> {
        let links: Vec<(ToolServerId, Arc<Link>)> =
            self.0.links.lock().by_id.iter().map(|(id, link)| (id.clone(), Arc::clone(link))).collect();
        if links.is_empty() {
            return Ok(0);
        }
        let mut commands_sent = 0;
        let (loaded, now) = (self.loaded().await?, self.0.clock.now());
        for (id, link) in links {
            let Some(found) = loaded.find(id.as_str()).filter(|found| found.server.enabled) else {
                self.remove_link(&id);
                let _ = link.send(Command::Close);
                commands_sent += 1;
                continue;
            };
            let state = link.state();
            let (Some(session), Ok(spec)) = (&state.session, &found.spec) else { continue };
            let command = if session.revision != spec.revision {
                Command::Connect(Arc::clone(spec))
            } else if now.since(link.last_used()) >= IDLE_TIMEOUT {
                Command::DisconnectIfIdle
            } else if spec.is_http() && self.is_ping_due(&id, now) {
                Command::Ping
            } else {
                continue;
            };
            // A full queue is processed before the next run.
            let _ = link.send(command);
            commands_sent += 1;
        }
        Ok(commands_sent)
    }

    fn is_ping_due(&self, id: &ToolServerId, now: Timestamp) -> bool {
        let mut links = self.0.links.lock();
        let last_ping = links.last_pings.entry(id.clone()).or_insert(now);
        let is_due = now.since(*last_ping) >= PING_INTERVAL;
        if is_due {
            *last_ping = now;
        }
        is_due
    }

    /// Whether there are no links to reconcile.
    pub(super) fn has_no_links(&self) -> bool {
        self.0.links.lock().by_id.is_empty()
    }

    /// Notified when a link is created.
    pub(super) fn link_created(&self) -> Arc<Notify> {
        Arc::clone(&self.0.link_created)
    }

    /// Closes all sessions, gracefully within the time limit.
    pub async fn shut_down(&self) {
        let links: Vec<Arc<Link>> = {
            let mut links = self.0.links.lock();
            links.is_closed = true;
            links.by_id.values().cloned().collect()
        };
        for link in links {
            let _ = link.send(Command::Close);
        }
        self.0.supervisors.close();
        let _ = tokio::time::timeout(SHUTDOWN_TIMEOUT, self.0.supervisors.wait()).await;
    }

    /// Returns the number of servers with a session on this daemon.
    #[must_use]
    pub fn connected(&self) -> usize {
        self.0.links.lock().by_id.values().filter(|link| link.shared.state.borrow().session.is_some()).count()
    }
}

fn spec_of(found: &LoadedServer) -> Result<Arc<Spec>, ToolServerError> {
    let missing = |problem: &String| ToolServerError::Failed(Failure::local("secret_missing", problem.as_str()));
    found.spec.as_ref().map(Arc::clone).map_err(missing)
}
