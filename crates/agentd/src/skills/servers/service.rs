//! Tool servers: registering, connecting, asking, offering.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use agentd_base::id::IdGenerator;
use agentd_base::{Clock, Entropy, Timestamp};
use agentd_sandbox::Tier;
use agentd_store::{Db, Read, Recorder, Snapshot, Tx};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, mpsc};
use tokio_util::task::TaskTracker;

use super::connect::{Opener, Session};
use super::error::{Failure, ToolServerError};
use super::link::{Command, Link, QUEUED_COMMANDS, ServerStatus, Shared, Wanted};
use super::listing::{LeftOut, Listing, OfferedTool, ServerIdentity};
use super::load::{Loaded, LoadedListing, LoadedServer, Loader, Spec};
use super::model::{ToolServer, ToolServerChange, ToolServerId};
use super::supervisor::Supervisor;
use super::tool::ServerTool;
use super::{secrets, store};
use crate::agents::Agent;
use crate::ground::Ground;
use crate::settings::{Settings, Vault};
use crate::skills::Skills;
use crate::skills::sandbox::CodeRunner;
use crate::skills::tool::{Tool, ToolSource};

/// Each may take a place among the sandbox's runs, of which there are more.
const MAX_SERVERS: usize = 50;
/// A session that nothing was called in for as long is ended.
const IDLE: Duration = Duration::from_secs(600);
/// Servers over HTTP are asked for a sign of life so often.
const CHECK_INTERVAL: Duration = Duration::from_secs(60);
/// Programs that may be starting at once.
const STARTS: usize = 4;
/// Tests of registrations at once.
const TESTS: usize = 4;
/// For sessions to end in order when the daemon goes down.
const SHUT_DOWN: Duration = Duration::from_secs(4);

struct Inner {
    db: Db,
    clock: Clock,
    ids: IdGenerator,
    entropy: Entropy,
    vault: Vault,
    opener: Arc<Opener>,
    loader: Loader,
    loaded: Snapshot<Loaded>,
    links: Mutex<Links>,
    supervisors: TaskTracker,
    starts: Arc<Semaphore>,
    tests: Semaphore,
    calls: Calls,
}

#[derive(Default)]
struct Links {
    by_id: HashMap<ToolServerId, Arc<Link>>,
    /// When a server was last asked for a sign of life.
    checked: HashMap<ToolServerId, Timestamp>,
    is_closed: bool,
}

/// The tool servers. Cheap to clone.
#[derive(Clone)]
pub struct ToolServers(Arc<Inner>);

impl std::fmt::Debug for ToolServers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ToolServers")
    }
}

/// How it stands with a server, on this daemon.
#[derive(Debug, Clone)]
pub struct ToolServerState {
    pub server: Arc<ToolServer>,
    pub status: ServerStatus,
    pub failure: Option<Failure>,
    /// `None`: it was never asked.
    pub identity: Option<ServerIdentity>,
    pub tools: Vec<Arc<OfferedTool>>,
    pub left_out: Vec<LeftOut>,
    pub cut_short: Option<String>,
    pub listed_at: Option<Timestamp>,
    pub connected_at: Option<Timestamp>,
    pub last_used_at: Option<Timestamp>,
    pub retry_at: Option<Timestamp>,
    pub losses: u64,
    /// Of the box around the program.
    pub process_id: Option<u32>,
    pub tier: Option<Tier>,
    /// The end of what the program wrote beside the protocol.
    pub stderr_tail: String,
}

/// What a test found.
#[derive(Debug)]
pub struct TestReport {
    pub duration: Duration,
    pub outcome: Result<(Listing, Vec<Arc<OfferedTool>>), Failure>,
    pub stderr_tail: String,
}

/// Calls since the daemon started, by how they ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CallCounts {
    pub ok: u64,
    pub failed: u64,
    pub timed_out: u64,
    pub cancelled: u64,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum CallOutcome {
    Ok,
    Failed,
    TimedOut,
    Cancelled,
}

#[derive(Default)]
struct Calls([AtomicU64; 4]);

/// Counts a call when it is over, also when it was given up.
pub(super) struct CountedCall {
    servers: ToolServers,
    pub(super) outcome: CallOutcome,
}

impl Drop for CountedCall {
    fn drop(&mut self) {
        self.servers.0.calls.0[self.outcome as usize].fetch_add(1, Ordering::Relaxed);
    }
}

/// Keeps what servers say that they offer.
#[derive(Clone)]
pub(super) struct Listings {
    db: Db,
    clock: Clock,
    id: ToolServerId,
}

impl Listings {
    pub(super) async fn keep(&self, spec: &Spec, listing: &Listing) {
        self.keep_revision(spec.revision, listing).await;
    }

    pub(super) async fn keep_of(&self, session: &Session, listing: &Listing) {
        self.keep_revision(session.revision, listing).await;
    }

    async fn keep_revision(&self, revision: i64, listing: &Listing) {
        let Ok(text) = serde_json::to_string(listing) else { return };
        let (id, now) = (self.id.clone(), self.clock.now());
        let kept = self.db.write(async move |tx: &mut Tx| {
            let known = store::find_listing(tx, &id).await?;
            if known.is_none_or(|(known, _)| known != text) {
                store::upsert_listing(tx, &id, revision, &text, now).await?;
            }
            Ok::<_, agentd_store::StoreError>(())
        });
        if let Err(error) = kept.await {
            tracing::warn!(%error, "what a tool server offers cannot be stored");
        }
    }
}

impl ToolServers {
    #[must_use]
    pub fn new(ground: &Ground, settings: &Settings, runner: CodeRunner, skills: Skills) -> Self {
        Self(Arc::new(Inner {
            db: ground.db.clone(),
            clock: ground.clock.clone(),
            ids: ground.ids.clone(),
            entropy: ground.entropy.clone(),
            vault: settings.vault().clone(),
            opener: Arc::new(Opener::new(runner, settings.policy(), Arc::clone(&ground.data_dir))),
            loader: Loader::new(settings.vault().clone(), skills),
            loaded: Snapshot::new(&ground.db, &[store::TOOL_SERVERS]),
            links: Mutex::default(),
            supervisors: TaskTracker::new(),
            starts: Arc::new(Semaphore::new(STARTS)),
            tests: Semaphore::new(TESTS),
            calls: Calls::default(),
        }))
    }

    async fn loaded(&self) -> Result<Arc<Loaded>, ToolServerError> {
        let loader = self.0.loader.clone();
        self.0.loaded.get(async move |read: &mut Read| loader.load(read).await).await
    }

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
            starts: Arc::clone(&self.0.starts),
            failures: 0,
        };
        // Without a supervisor whoever asks hears that the daemon goes down.
        if !links.is_closed {
            self.0.supervisors.spawn(supervisor.run());
        }
        links.by_id.insert(id.clone(), Arc::clone(&link));
        link
    }

    fn listings(&self, id: &ToolServerId) -> Listings {
        Listings { db: self.0.db.clone(), clock: self.0.clock.clone(), id: id.clone() }
    }

    /// Every server, oldest first.
    ///
    /// # Errors
    /// The database is away.
    pub async fn list(&self) -> Result<Vec<ToolServerState>, ToolServerError> {
        Ok(self.loaded().await?.0.iter().map(|loaded| self.state(loaded)).collect())
    }

    /// # Errors
    /// `NotFound`, or the database is away.
    pub async fn get(&self, id: &str) -> Result<ToolServerState, ToolServerError> {
        self.loaded().await?.find(id).map(|loaded| self.state(loaded)).ok_or_else(|| not_found(id))
    }

    fn state(&self, loaded: &LoadedServer) -> ToolServerState {
        let link = self.0.links.lock().by_id.get(&loaded.server.id).cloned();
        let mut state = ToolServerState::unconnected(&loaded.server, loaded.listing.as_deref());
        if let Err(problem) = &loaded.spec {
            state.status = ServerStatus::Failed;
            state.failure = Some(Failure::ours("secret_missing", problem.as_str()));
        }
        if let Some(link) = link {
            let now = link.state();
            state.status = now.status;
            state.failure = now.failure.as_deref().cloned().or(state.failure);
            state.connected_at = now.connected_at;
            state.last_used_at = Some(link.last_used());
            state.retry_at = now.retry_at.map(|(_, at)| at);
            state.losses = now.losses;
            state.process_id = now.session.as_ref().and_then(|session| session.process_id());
            state.tier = now.session.as_ref().and_then(|session| session.tier());
            let failure = now.failure.as_ref().map(|failure| failure.diagnosis.clone());
            state.stderr_tail = now.session.map(|session| session.diagnosis()).or(failure).unwrap_or_default();
        }
        if !loaded.server.enabled && !matches!(state.status, ServerStatus::Connected | ServerStatus::Disconnecting) {
            state.status = ServerStatus::Disabled;
        }
        state
    }

    /// Registers a server. One that is enabled is connected to in the background.
    ///
    /// # Errors
    /// `Invalid` with every bad field, `NameTaken`, `TooMany`, or the database is away.
    pub async fn create(
        &self,
        change: ToolServerChange,
        catalog_entry: Option<&str>,
        recorder: Recorder<ToolServer>,
    ) -> Result<ToolServerState, ToolServerError> {
        let mut server = ToolServer::blank(ToolServerId::generate(&self.0.ids), self.0.clock.now());
        server.catalog_entry = catalog_entry.map(str::to_owned);
        let writes = server.change(change).map_err(|problems| ToolServerError::Invalid { problems })?;
        let (vault, id) = (self.0.vault.clone(), server.id.clone());
        self.0
            .db
            .write(async move |tx: &mut Tx| {
                if store::count_tool_servers(tx).await? >= MAX_SERVERS {
                    return Err(ToolServerError::TooMany { limit: MAX_SERVERS });
                }
                if !store::insert_tool_server(tx, &server).await? {
                    return Err(ToolServerError::NameTaken { prefix: server.prefix.clone() });
                }
                secrets::write(tx, &vault, &server.id, &writes).await?;
                recorder.record(tx, &server).await?;
                Ok(())
            })
            .await?;
        self.begin_connecting(id.as_str()).await?;
        self.get(id.as_str()).await
    }

    /// Changes a registration; what the change leaves out stays. Where it is reached otherwise now,
    /// what was known of its tools is forgotten, and it is connected to anew.
    ///
    /// # Errors
    /// `NotFound`, `Invalid` with every bad field, `NameTaken`, or the database is away.
    pub async fn update(&self, id: &str, change: ToolServerChange) -> Result<ToolServerState, ToolServerError> {
        let (vault, wanted, now) = (self.0.vault.clone(), ToolServerId::from(id), self.0.clock.now());
        self.0
            .db
            .write(async move |tx: &mut Tx| {
                let found = store::find_tool_server(tx, &wanted).await?;
                let mut server = found.ok_or_else(|| not_found(wanted.as_str()))?;
                let before = server.revision;
                let writes =
                    server.change(change.clone()).map_err(|problems| ToolServerError::Invalid { problems })?;
                if store::is_prefix_taken(tx, &server.prefix, &server.id).await? {
                    return Err(ToolServerError::NameTaken { prefix: server.prefix });
                }
                server.updated_at = now;
                store::update_tool_server(tx, &server).await?;
                if server.revision != before {
                    store::delete_listing(tx, &server.id).await?;
                }
                secrets::write(tx, &vault, &server.id, &writes).await?;
                Ok(())
            })
            .await?;
        self.look_after().await?;
        self.begin_connecting(id).await?;
        self.get(id).await
    }

    /// Deletes a registration with its secrets and its folder, and ends what runs of it.
    ///
    /// # Errors
    /// `NotFound`, or the database is away.
    pub async fn delete(&self, id: &str) -> Result<(), ToolServerError> {
        let (vault, wanted) = (self.0.vault.clone(), ToolServerId::from(id));
        let deleted = wanted.clone();
        self.0
            .db
            .write(async move |tx: &mut Tx| {
                let found = store::find_tool_server(tx, &wanted).await?;
                let server = found.ok_or_else(|| not_found(wanted.as_str()))?;
                secrets::write(tx, &vault, &wanted, &server.reach.clear_secrets()).await?;
                store::delete_tool_server(tx, &wanted).await?;
                Ok::<_, ToolServerError>(())
            })
            .await?;
        if let Some(link) = self.forget(&deleted)
            && link.disconnect().await.is_ok()
        {
            let _ = link.tell(Command::Close);
        }
        let home = self.0.opener.home(&deleted);
        let removed = tokio::task::spawn_blocking(move || std::fs::remove_dir_all(home)).await;
        if let Ok(Err(error)) = removed
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(%error, server = %deleted, "the folder of a deleted tool server cannot be removed");
        }
        Ok(())
    }

    fn forget(&self, id: &ToolServerId) -> Option<Arc<Link>> {
        let mut links = self.0.links.lock();
        links.checked.remove(id);
        links.by_id.remove(id)
    }

    /// Connects in the background, if the server is enabled and nobody knows its tools.
    async fn begin_connecting(&self, id: &str) -> Result<(), ToolServerError> {
        if let Some(loaded) = self.loaded().await?.find(id)
            && loaded.server.enabled
            && loaded.listing.is_none()
        {
            self.connect_aside(loaded, true);
        }
        Ok(())
    }

    /// Connects without waiting; `at_once` also before the pause after a failure is over.
    fn connect_aside(&self, loaded: &LoadedServer, at_once: bool) {
        let Ok(spec) = &loaded.spec else { return };
        let link = self.link(&loaded.server.id);
        let state = link.state();
        let must_wait = state.retry_at.is_some_and(|(at, _)| at > tokio::time::Instant::now());
        if state.session.is_none() && (at_once || !must_wait) {
            // A full queue holds the wish already.
            let _ = link.tell(Command::Connect(Arc::clone(spec)));
        }
    }

    /// The registration in force, for a call.
    pub(super) async fn in_force(
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

    /// Connects now and waits for it.
    ///
    /// # Errors
    /// `NotFound`, `Disabled`, or why there is no session.
    pub async fn connect(&self, id: &str) -> Result<ToolServerState, ToolServerError> {
        let (server, spec) = self.in_force(&ToolServerId::from(id)).await?;
        let link = self.link(&server.id);
        link.session(&spec, Wanted::ByOwner).await?;
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
        let skills = self.0.loader.skills();
        let outcome = listed.map(|listing| {
            let (tools, _) = listing.offered(&found.server, Duration::ZERO, skills);
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
    pub async fn look_after(&self) -> Result<(), ToolServerError> {
        let links: Vec<(ToolServerId, Arc<Link>)> =
            self.0.links.lock().by_id.iter().map(|(id, link)| (id.clone(), Arc::clone(link))).collect();
        if links.is_empty() {
            return Ok(());
        }
        let (loaded, now) = (self.loaded().await?, self.0.clock.now());
        for (id, link) in links {
            let Some(found) = loaded.find(id.as_str()).filter(|found| found.server.enabled) else {
                self.forget(&id);
                let _ = link.tell(Command::Close);
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
        }
        Ok(())
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

    #[must_use]
    pub fn call_counts(&self) -> CallCounts {
        let count = |outcome: CallOutcome| self.0.calls.0[outcome as usize].load(Ordering::Relaxed);
        CallCounts {
            ok: count(CallOutcome::Ok),
            failed: count(CallOutcome::Failed),
            timed_out: count(CallOutcome::TimedOut),
            cancelled: count(CallOutcome::Cancelled),
        }
    }

    pub(super) fn count_call(&self) -> CountedCall {
        // Whoever drops the call gave it up.
        CountedCall { servers: self.clone(), outcome: CallOutcome::Cancelled }
    }
}

impl ToolServerState {
    /// What is known without looking at what runs.
    pub(super) fn unconnected(server: &Arc<ToolServer>, known: Option<&LoadedListing>) -> Self {
        Self {
            server: Arc::clone(server),
            status: if server.enabled { ServerStatus::Disconnected } else { ServerStatus::Disabled },
            failure: None,
            identity: known.map(|known| known.listing.server.clone()),
            tools: known.map(|known| known.tools.clone()).unwrap_or_default(),
            left_out: known.map(|known| known.left_out.clone()).unwrap_or_default(),
            cut_short: known.and_then(|known| known.listing.cut_short.clone()),
            listed_at: known.map(|known| known.listed_at),
            connected_at: None,
            last_used_at: None,
            retry_at: None,
            losses: 0,
            process_id: None,
            tier: None,
            stderr_tail: String::new(),
        }
    }

    /// A registration as a stored answer shows it.
    #[must_use]
    pub fn fresh(server: &ToolServer) -> Self {
        Self::unconnected(&Arc::new(server.clone()), None)
    }
}

fn spec_of(found: &LoadedServer) -> Result<Arc<Spec>, ToolServerError> {
    let missing = |problem: &String| ToolServerError::Failed(Failure::ours("secret_missing", problem.as_str()));
    found.spec.as_ref().map(Arc::clone).map_err(missing)
}

fn not_found(id: &str) -> ToolServerError {
    ToolServerError::NotFound { id: id.chars().take(80).collect() }
}

impl ToolSource for ToolServers {
    fn name(&self) -> &'static str {
        "tool_servers"
    }

    fn tools<'a>(&'a self, _agent: &'a Agent) -> BoxFuture<'a, Vec<Arc<dyn Tool>>> {
        async move {
            let loaded = match self.loaded().await {
                Ok(loaded) => loaded,
                Err(error) => {
                    tracing::warn!(%error, "the tool servers cannot be read; none of their tools is offered");
                    return Vec::new();
                }
            };
            let mut tools: Vec<Arc<dyn Tool>> = Vec::new();
            for found in loaded.0.iter().filter(|found| found.server.enabled && found.spec.is_ok()) {
                let Some(known) = &found.listing else {
                    self.connect_aside(found, false);
                    continue;
                };
                tools.extend(known.tools.iter().map(|tool| {
                    let (servers, server) = (self.clone(), found.server.id.clone());
                    Arc::new(ServerTool { servers, server, tool: Arc::clone(tool) }) as Arc<dyn Tool>
                }));
            }
            tools
        }
        .boxed()
    }
}
