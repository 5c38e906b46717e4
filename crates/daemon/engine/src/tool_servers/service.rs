//! Tool servers: registering, changing, showing.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use agentd_base::id::IdGenerator;
use agentd_base::{Clock, Entropy, Problems, Timestamp};
use agentd_core::runtime::AppContext;
use agentd_core::settings::Settings;
use agentd_core::vault::Vault;
use agentd_store::{Db, Read, Recorder, Snapshot, Tx};
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore};
use tokio_util::task::TaskTracker;

use super::change::{ToolServerChange, ToolServerId};
use super::connect::Opener;
use super::error::{Failure, ToolServerError};
use super::link::{Command, Link, ServerStatus};
use super::load::{Loaded, LoadedServer, Loader};
use super::model::ToolServer;
use super::reach::Reach;
use super::state::{CallCounts, Calls, CountedCall, ToolServerState};
use super::{secrets, store};
use crate::code_runner::CodeRunner;
use crate::tools::{CUSTOM_TOOLS, Tools};

/// Each may take a place among the sandbox's runs, of which there are more.
pub(super) const MAX_SERVERS: usize = 50;
/// Tests of registrations at once.
const TESTS: usize = 4;

pub(super) struct Inner {
    pub(super) db: Db,
    pub(super) clock: Clock,
    pub(super) ids: IdGenerator,
    pub(super) entropy: Entropy,
    pub(super) vault: Vault,
    pub(super) opener: Arc<Opener>,
    pub(super) loader: Loader,
    pub(super) loaded: Snapshot<Loaded>,
    pub(super) links: Mutex<Links>,
    pub(super) link_made: Arc<Notify>,
    pub(super) supervisors: TaskTracker,
    pub(super) tests: Semaphore,
    pub(super) calls: Arc<Calls>,
}

#[derive(Default)]
pub(super) struct Links {
    pub(super) by_id: HashMap<ToolServerId, Arc<Link>>,
    /// When a server was last asked for a sign of life.
    pub(super) checked: HashMap<ToolServerId, Timestamp>,
    pub(super) is_closed: bool,
}

/// The tool servers. Cheap to clone.
#[derive(Clone)]
pub struct ToolServers(pub(super) Arc<Inner>);

impl std::fmt::Debug for ToolServers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ToolServers")
    }
}

impl ToolServers {
    #[must_use]
    pub fn new(context: &AppContext, settings: &Settings, runner: CodeRunner, tools: Tools) -> Self {
        Self(Arc::new(Inner {
            db: context.db.clone(),
            clock: context.clock.clone(),
            ids: context.ids.clone(),
            entropy: context.entropy.clone(),
            vault: settings.vault().clone(),
            opener: Arc::new(Opener::new(runner, settings.policy(), Arc::clone(&context.data_dir))),
            loader: Loader::new(settings.vault().clone(), tools),
            loaded: Snapshot::new(&context.db, &[store::TOOL_SERVERS, CUSTOM_TOOLS]),
            links: Mutex::default(),
            link_made: Arc::default(),
            supervisors: TaskTracker::new(),
            tests: Semaphore::new(TESTS),
            calls: Arc::default(),
        }))
    }

    pub(super) async fn loaded(&self) -> Result<Arc<Loaded>, ToolServerError> {
        let loader = self.0.loader.clone();
        self.0.loaded.get(async move |read: &mut Read| loader.load(read).await).await
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
        state.missing.clone_from(&loaded.missing);
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
        self.refuse_own_data(&server.reach, None)?;
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
        let here = self.clone();
        self.0
            .db
            .write(async move |tx: &mut Tx| {
                let found = store::find_tool_server(tx, &wanted).await?;
                let mut server = found.ok_or_else(|| not_found(wanted.as_str()))?;
                let (before, reach) = (server.revision, server.reach.clone());
                let writes = server.change(change.clone()).map_err(|problems| ToolServerError::Invalid { problems })?;
                here.refuse_own_data(&server.reach, Some(&reach))?;
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

    /// Refuses what a registration newly gives its program of the daemon's own data.
    fn refuse_own_data(&self, reach: &Reach, before: Option<&Reach>) -> Result<(), ToolServerError> {
        let Reach::Stdio(stdio) = reach else { return Ok(()) };
        let is_known = |path: &String| match before {
            Some(Reach::Stdio(before)) => before.paths().any(|(_, known)| known == path),
            _ => false,
        };
        let mut problems = Problems::new();
        for (field, path) in stdio.paths().filter(|(_, path)| !is_known(path)) {
            let is_own = self.0.opener.is_own_data(Path::new(path));
            problems.require(!is_own, &field, "must not be the daemon's own data, nor hold it or lie in it");
        }
        problems.into_result().map_err(|problems| ToolServerError::Invalid { problems })
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
        let removed = tokio::task::spawn_blocking(move || agentd_sandbox::folder::remove_path(&home)).await;
        if let Ok(Err(error)) = removed
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(%error, server = %deleted, "the folder of a deleted tool server cannot be removed");
        }
        Ok(())
    }

    #[must_use]
    pub fn call_counts(&self) -> CallCounts {
        self.0.calls.counts()
    }

    pub(super) fn count_call(&self) -> CountedCall {
        self.0.calls.begin()
    }
}

pub(super) fn not_found(id: &str) -> ToolServerError {
    ToolServerError::NotFound { id: id.chars().take(80).collect() }
}
