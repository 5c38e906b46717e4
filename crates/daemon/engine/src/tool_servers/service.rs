//! Service for tool servers and their status.

use std::collections::HashMap;
use std::sync::Arc;

use agentd_base::id::IdGenerator;
use agentd_base::{Clock, Entropy, Timestamp};
use agentd_core::runtime::AppContext;
use agentd_core::settings::Settings;
use agentd_core::vault::Vault;
use agentd_store::{Db, Read, Snapshot};
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore};
use tokio_util::task::TaskTracker;

use super::change::ToolServerId;
use super::connect::Opener;
use super::error::{Failure, ToolServerError};
use super::link::{Link, ServerStatus};
use super::load::{LoadedServer, LoadedServers, Loader};
use super::state::{CallCounts, Calls, CountedCall, ToolServerState};
use super::store::TOOL_SERVERS;
use crate::code_runner::CodeRunner;
use crate::tools::{CUSTOM_TOOLS, Tools};

/// Maximum number of concurrent tests.
const MAX_CONCURRENT_TESTS: usize = 4;

pub(super) struct Inner {
    pub(super) db: Db,
    pub(super) clock: Clock,
    pub(super) ids: IdGenerator,
    pub(super) entropy: Entropy,
    pub(super) vault: Vault,
    pub(super) opener: Arc<Opener>,
    pub(super) loader: Loader,
    pub(super) loaded: Snapshot<LoadedServers>,
    pub(super) links: Mutex<Links>,
    pub(super) link_created: Arc<Notify>,
    pub(super) supervisors: TaskTracker,
    pub(super) tests: Semaphore,
    pub(super) calls: Arc<Calls>,
}

#[derive(Default)]
pub(super) struct Links {
    pub(super) by_id: HashMap<ToolServerId, Arc<Link>>,
    /// Time of the last ping of each server.
    pub(super) last_pings: HashMap<ToolServerId, Timestamp>,
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
            loaded: Snapshot::new(&context.db, &[TOOL_SERVERS, CUSTOM_TOOLS]),
            links: Mutex::default(),
            link_created: Arc::default(),
            supervisors: TaskTracker::new(),
            tests: Semaphore::new(MAX_CONCURRENT_TESTS),
            calls: Arc::default(),
        }))
    }

    pub(super) async fn loaded(&self) -> Result<Arc<LoadedServers>, ToolServerError> {
        let loader = self.0.loader.clone();
        self.0.loaded.get(async move |read: &mut Read| loader.load(read).await).await
    }

    /// Returns all servers, oldest first.
    ///
    /// # Errors
    /// A store error.
    pub async fn list(&self) -> Result<Vec<ToolServerState>, ToolServerError> {
        Ok(self.loaded().await?.0.iter().map(|loaded| self.state(loaded)).collect())
    }

    /// Returns a tool server.
    ///
    /// # Errors
    /// `NotFound`, or a store error.
    pub async fn get(&self, id: &str) -> Result<ToolServerState, ToolServerError> {
        self.loaded().await?.find(id).map(|loaded| self.state(loaded)).ok_or_else(|| not_found(id))
    }

    fn state(&self, loaded: &LoadedServer) -> ToolServerState {
        let link = self.0.links.lock().by_id.get(&loaded.server.id).cloned();
        let mut state = ToolServerState::unconnected(&loaded.server, loaded.listing.as_deref());
        state.missing.clone_from(&loaded.missing);
        if let Err(problem) = &loaded.spec {
            state.status = ServerStatus::Failed;
            state.failure = Some(Failure::local("secret_missing", problem.as_str()));
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
