//! Sessions with servers: connecting, trying, asking, ending.

use std::sync::Arc;
use std::time::Duration;

use agentd_base::Timestamp;
use agentd_mcp::McpError;
use tokio::sync::{Notify, mpsc};

use super::change::ToolServerId;
use super::error::{Failure, ToolServerError};
use super::link::{Command, Link, QUEUED_COMMANDS, Shared, Wanted};
use super::listing::Listing;
use super::listings::Listings;
use super::load::{LoadedServer, Spec};
use super::model::ToolServer;
use super::service::{ToolServers, not_found};
use super::state::{TestReport, ToolServerState};
use super::supervisor::Supervisor;

/// A session that nothing was called in for as long is ended.
const IDLE: Duration = Duration::from_secs(600);
/// Servers over HTTP are asked for a sign of life so often.
const CHECK_INTERVAL: Duration = Duration::from_secs(60);
/// Whoever asks for a session that stands waits as long for proof of it.
const SIGN_OF_LIFE: Duration = Duration::from_secs(5);
/// For sessions to end in order when the daemon goes down.
const SHUT_DOWN: Duration = Duration::from_secs(4);

impl ToolServers {
    /// The supervisor's handle, made anew if there is none.
    pub(super) fn link(&self, id: &ToolServerId) -> Arc<Link> {
        let mut links = self.0.links.lock();
        if let Some(link) = links.by_id.get(id)
            && (link.is_alive() || links.is_closed)
        {
            return Arc::clone(link);
        }
        let (sender, commands) = mpsc::channel(QUEUED_COMMANDS);
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
        // Without a supervisor whoever asks hears that the daemon goes down.
        if !links.is_closed {
            self.0.supervisors.spawn(supervisor.run());
        }
        links.by_id.insert(id.clone(), Arc::clone(&link));
        self.0.link_made.notify_one();
        link
    }

    fn listings(&self, id: &ToolServerId) -> Listings {
        Listings { db: self.0.db.clone(), clock: self.0.clock.clone(), id: id.clone() }
    }

    /// Connects in the background, if the server is enabled and nobody knows its tools.
    pub(super) async fn begin_connecting(&self, id: &str) -> Result<(), ToolServerError> {
        if let Some(loaded) = self.loaded().await?.find(id)
            && loaded.server.enabled
            && loaded.listing.is_none()
        {
            self.connect_aside(loaded, true);
        }
        Ok(())
    }

    /// Connects without waiting; `at_once` also before the pause after a failure is over.
    pub(super) fn connect_aside(&self, loaded: &LoadedServer, at_once: bool) {
        let Ok(spec) = &loaded.spec else { return };
        let link = self.link(&loaded.server.id);
        let state = link.state();
        let must_wait = state.retry_at.is_some_and(|(at, _)| at > tokio::time::Instant::now());
        if state.session.is_none() && (at_once || !must_wait) {
            // A full queue holds the command already.
            let _ = link.tell(Command::Connect(Arc::clone(spec)));
        }
    }

    pub(super) fn forget(&self, id: &ToolServerId) -> Option<Arc<Link>> {
        let mut links = self.0.links.lock();
        links.checked.remove(id);
        links.by_id.remove(id)
    }

    /// The registration in force, for a call.
    pub(super) async fn in_force(&self, id: &ToolServerId) -> Result<(Arc<ToolServer>, Arc<Spec>), ToolServerError> {
        let loaded = self.loaded().await?;
        let found = loaded.find(id.as_str()).ok_or_else(|| not_found(id.as_str()))?;
        if !found.server.enabled {
            return Err(ToolServerError::Disabled);
        }
        Ok((Arc::clone(&found.server), spec_of(found)?))
    }

    /// Connects now and waits for it.
    ///
    /// # Errors
    /// `NotFound`, `Disabled`, or why there is no session.
    pub async fn connect(&self, id: &str) -> Result<ToolServerState, ToolServerError> {
        let (server, spec) = self.in_force(&ToolServerId::from(id)).await?;
        let link = self.link(&server.id);
        let standing = link.state().session;
        let session = link.session(&spec, Wanted::ByOwner).await?;
        // One that stands may have lost its server without a sign of it.
        if standing.is_some_and(|standing| Arc::ptr_eq(&standing, &session))
            && let Err(error) = session.connection.ping(SIGN_OF_LIFE).await
            && !(matches!(error, McpError::Timeout { .. }) && link.has_calls())
        {
            link.disconnect().await?;
            link.session(&spec, Wanted::ByOwner).await?;
        }
        self.get(id).await
    }

    /// Ends the session and waits for the program's end. The next call connects again.
    ///
    /// # Errors
    /// `NotFound`, or the daemon is going down.
    pub async fn disconnect(&self, id: &str) -> Result<ToolServerState, ToolServerError> {
        let state = self.get(id).await?;
        let link = self.0.links.lock().by_id.get(&state.server.id).cloned();
        if let Some(link) = link.filter(|link| link.is_alive()) {
            link.disconnect().await?;
        }
        self.get(id).await
    }

    /// Asks for the tools anew.
    ///
    /// # Errors
    /// `NotFound`, or why the server cannot be asked.
    pub async fn discover(&self, id: &str) -> Result<ToolServerState, ToolServerError> {
        let loaded = self.loaded().await?;
        let found = loaded.find(id).ok_or_else(|| not_found(id))?;
        let (spec, listings) = (spec_of(found)?, self.listings(&found.server.id));
        if found.server.enabled {
            let session = self.link(&found.server.id).session(&spec, Wanted::ByOwner).await?;
            let listing = session.list().await.map_err(ToolServerError::Failed)?;
            listings.keep(&spec, &listing).await;
        } else {
            let (listed, _) = self.probe(&spec).await?;
            listings.keep(&spec, &listed.map_err(ToolServerError::Failed)?).await;
        }
        self.get(id).await
    }

    /// Connects beside any session that stands, asks for the tools, and ends it again. Changes
    /// nothing.
    ///
    /// # Errors
    /// `NotFound`, `Busy`, or the database is away. What the server does wrong is in the report.
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
        let _test = self.0.tests.try_acquire().map_err(|_| ToolServerError::Busy)?;
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

    /// Ends what is idle, gone, switched off or changed elsewhere; asks servers over HTTP for a sign
    /// of life.
    ///
    /// # Errors
    /// The database is away.
    pub async fn look_after(&self) -> Result<usize, ToolServerError> {
        let links: Vec<(ToolServerId, Arc<Link>)> =
            self.0.links.lock().by_id.iter().map(|(id, link)| (id.clone(), Arc::clone(link))).collect();
        if links.is_empty() {
            return Ok(0);
        }
        let mut told = 0;
        let (loaded, now) = (self.loaded().await?, self.0.clock.now());
        for (id, link) in links {
            let Some(found) = loaded.find(id.as_str()).filter(|found| found.server.enabled) else {
                self.forget(&id);
                let _ = link.tell(Command::Close);
                told += 1;
                continue;
            };
            let state = link.state();
            let (Some(session), Ok(spec)) = (&state.session, &found.spec) else { continue };
            let command = if session.revision != spec.revision {
                Command::Connect(Arc::clone(spec))
            } else if now.since(link.last_used()) >= IDLE {
                Command::Rest
            } else if spec.is_http() && self.is_check_due(&id, now) {
                Command::Check
            } else {
                continue;
            };
            // A full queue has been seen to by the next time.
            let _ = link.tell(command);
            told += 1;
        }
        Ok(told)
    }

    fn is_check_due(&self, id: &ToolServerId, now: Timestamp) -> bool {
        let mut links = self.0.links.lock();
        let checked = links.checked.entry(id.clone()).or_insert(now);
        let is_due = now.since(*checked) >= CHECK_INTERVAL;
        if is_due {
            *checked = now;
        }
        is_due
    }

    /// There is nothing to look after.
    pub(super) fn has_no_links(&self) -> bool {
        self.0.links.lock().by_id.is_empty()
    }

    /// Wakes who looks after them.
    pub(super) fn link_made(&self) -> Arc<Notify> {
        Arc::clone(&self.0.link_made)
    }

    /// Ends every session, in order as far as there is time.
    pub async fn shut_down(&self) {
        let links: Vec<Arc<Link>> = {
            let mut links = self.0.links.lock();
            links.is_closed = true;
            links.by_id.values().cloned().collect()
        };
        for link in links {
            let _ = link.tell(Command::Close);
        }
        self.0.supervisors.close();
        let _ = tokio::time::timeout(SHUT_DOWN, self.0.supervisors.wait()).await;
    }

    /// Servers with a session on this daemon.
    #[must_use]
    pub fn connected(&self) -> usize {
        self.0.links.lock().by_id.values().filter(|link| link.shared.state.borrow().session.is_some()).count()
    }
}

fn spec_of(found: &LoadedServer) -> Result<Arc<Spec>, ToolServerError> {
    let missing = |problem: &String| ToolServerError::Failed(Failure::ours("secret_missing", problem.as_str()));
    found.spec.as_ref().map(Arc::clone).map_err(missing)
}
