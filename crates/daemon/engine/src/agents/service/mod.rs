//! Service for agents.

mod change;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use agentd_core::parts::Detached;
use agentd_core::runtime::{AppContext, Slot, Slots};
use agentd_core::settings::{InterfaceSettings, Language, Section, Settings, ValidateReference};
use agentd_store::{NewItem, Recorder, Snapshot, StoreError, Topic, Tx};
use bytes::Bytes;
use futures_util::future::{BoxFuture, LocalBoxFuture};
use serde_json::json;
use tokio::sync::Notify;

use super::error::AgentError;
use super::model::{Agent, AgentId, CreateAgent, MAX_AGENTS, VersionSource};
use super::{prompt, store};
use crate::workspaces::{NamesLock, WorkspaceFolders};

pub use change::ReplaceInstructions;

const AGENTS: Topic = Topic::new("agents");
/// A purge is retried until it succeeds.
const PURGE_ATTEMPTS: u32 = u32::MAX;

/// Order in which the data of a deleted agent is hidden and purged; within a phase it is the order of composition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AgentDataPhase {
    /// Conversations. Purging one deletes the logs of its sessions.
    Conversations,
    /// Sessions that no conversation has.
    Sessions,
    Other,
}

/// A domain that stores data of agents.
pub trait AgentDataOwner: Send + Sync {
    fn name(&self) -> &'static str;

    fn phase(&self) -> AgentDataPhase {
        AgentDataPhase::Other
    }

    /// Makes the data unreachable, in the transaction that deletes the agent.
    fn hide<'t>(&'t self, tx: &'t mut Tx, agent: &'t AgentId) -> LocalBoxFuture<'t, Result<(), StoreError>>;

    /// Waits, for a few seconds at most, until work on the data in this process has stopped.
    fn after_hide<'t>(&'t self, _agent: &'t AgentId) -> BoxFuture<'t, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Deletes up to about `limit` rows of a hidden agent; returns whether more may remain.
    fn purge<'t>(
        &'t self,
        tx: &'t mut Tx,
        agent: &'t AgentId,
        limit: u32,
    ) -> LocalBoxFuture<'t, Result<bool, StoreError>>;
}

/// Field of the interface settings that contains the default agent.
const DEFAULT_AGENT: &str = "default_agent";

impl ValidateReference for Agents {
    fn named_by(&self) -> (&'static str, &'static str) {
        (InterfaceSettings::NAME, DEFAULT_AGENT)
    }

    fn problem<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Option<String>> {
        Box::pin(async move {
            match self.get(name).await {
                Err(AgentError::NotFound { .. }) => {
                    Some("must name an existing agent; list agents with GET /api/agents".to_owned())
                }
                _ => None,
            }
        })
    }
}

/// All live agents as of their last change.
#[derive(Debug)]
pub(super) struct AgentList {
    pub(super) agents: Vec<Arc<Agent>>,
    rendered: OnceLock<Bytes>,
}

impl AgentList {
    /// Returns the serialized list response, rendered once per state of the list.
    pub(super) fn rendered(&self, render: impl FnOnce(&[Arc<Agent>]) -> Bytes) -> Bytes {
        self.rendered.get_or_init(|| render(&self.agents)).clone()
    }

    fn find(&self, name_or_id: &str) -> Option<&Arc<Agent>> {
        // Names take precedence: names in the form of an id may exist from earlier versions.
        let named = self.agents.iter().find(|agent| agent.svc_name == name_or_id);
        named.or_else(|| self.agents.iter().find(|agent| agent.id.as_str() == name_or_id))
    }
}

struct Inner {
    context: AppContext,
    settings: Settings,
    workspaces: WorkspaceFolders,
    list: Snapshot<AgentList>,
    owners: Slot<dyn AgentDataOwner>,
    purge_wake: Arc<Notify>,
}

/// Service for agents. Cheap to clone.
#[derive(Clone)]
pub struct Agents(Arc<Inner>);

impl std::fmt::Debug for Agents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Agents").finish_non_exhaustive()
    }
}

impl Agents {
    pub fn new(context: AppContext, settings: Settings, slots: &mut Slots) -> Detached<Self> {
        Detached::new(Self(Arc::new(Inner {
            workspaces: WorkspaceFolders::new(Arc::clone(&context.data_dir)),
            list: Snapshot::new(&context.db, &[AGENTS]),
            owners: slots.create(),
            purge_wake: Arc::default(),
            context,
            settings,
        })))
    }

    /// Creates an agent and its workspace. The first agent becomes the default agent if the settings name none.
    ///
    /// # Errors
    /// `Invalid` with all invalid fields, `NameTaken`, `TooMany`, or a store error.
    pub async fn create(&self, request: CreateAgent, recorder: Recorder<Agent>) -> Result<Agent, AgentError> {
        let request = request.validated_as_new().map_err(|problems| AgentError::Invalid { problems })?;
        let agent = request.into_agent(AgentId::generate(&self.0.context.ids), self.0.context.clock.now());
        let svc_name = agent.svc_name.clone();
        let workspaces = &self.0.workspaces;
        let failed = |source| AgentError::Workspace { path: workspaces.path_of(&svc_name), source };
        let lock = workspaces.lock().await.map_err(failed)?;
        self.clear_name(&svc_name, &lock).await?;
        // The folder is created before the row: a row must never exist without one.
        let was_missing = workspaces.ensure(&svc_name).map_err(failed)?;
        let created = self.insert(agent, recorder).await;
        if created.is_err() && was_missing {
            workspaces.remove_if_empty(&svc_name, &lock);
        }
        let (agent, is_default) = created?;
        if is_default {
            self.0.settings.refresh_committed().await;
        }
        Ok(agent)
    }

    /// Stores an agent; also returns whether it became the default agent.
    async fn insert(&self, agent: Agent, recorder: Recorder<Agent>) -> Result<(Agent, bool), AgentError> {
        self.0
            .context
            .db
            .write(async move |tx: &mut Tx| {
                let others = store::count_agents(tx).await?;
                if others >= MAX_AGENTS {
                    return Err(AgentError::TooMany { limit: MAX_AGENTS });
                }
                if !store::insert_agent(tx, &agent).await? {
                    return Err(AgentError::NameTaken { svc_name: agent.svc_name.clone() });
                }
                let instructions = agent.instructions();
                store::insert_version(tx, &agent.id, instructions, VersionSource::Created, None, agent.created_at)
                    .await?;
                tx.touch(AGENTS);
                let is_default = others == 0
                    && Settings::set_if_unset::<InterfaceSettings>(tx, DEFAULT_AGENT, &agent.svc_name).await?;
                recorder.record(tx, &agent).await?;
                Ok((agent.clone(), is_default))
            })
            .await
    }

    /// Moves the folder of a deleted agent of this name to the trash.
    async fn clear_name(&self, svc_name: &str, lock: &NamesLock) -> Result<(), AgentError> {
        let deleted_agents = store::list_with_old_folder(&mut self.0.context.db.read().await?, svc_name).await?;
        for id in deleted_agents {
            self.move_to_trash(&id, svc_name, lock).await?;
        }
        Ok(())
    }

    async fn move_to_trash(&self, id: &AgentId, svc_name: &str, lock: &NamesLock) -> Result<(), AgentError> {
        let workspaces = &self.0.workspaces;
        workspaces
            .move_to_trash(svc_name, id.as_str(), lock)
            .map_err(|source| AgentError::Workspace { path: workspaces.path_of(svc_name), source })?;
        let id = id.clone();
        self.0.context.db.write(async move |tx: &mut Tx| store::mark_folder_moved(tx, &id).await).await?;
        Ok(())
    }

    /// Moves the folder of a deleted agent to the trash, unless that is already done.
    pub(super) async fn release_folder(&self, id: &AgentId, svc_name: &str) -> Result<(), AgentError> {
        let workspaces = &self.0.workspaces;
        let lock = workspaces
            .lock()
            .await
            .map_err(|source| AgentError::Workspace { path: workspaces.path_of(svc_name), source })?;
        let has_old_folder = store::has_old_folder(&mut self.0.context.db.read().await?, id).await?;
        if has_old_folder { self.move_to_trash(id, svc_name, &lock).await } else { Ok(()) }
    }

    pub(super) async fn all(&self) -> Result<Arc<AgentList>, AgentError> {
        self.0
            .list
            .get(async |read| {
                let agents = store::list_agents(read).await?.into_iter().map(Arc::new).collect();
                Ok(AgentList { agents, rendered: OnceLock::new() })
            })
            .await
    }

    /// Returns all live agents, oldest first.
    ///
    /// # Errors
    /// A store error.
    pub async fn list(&self) -> Result<Vec<Arc<Agent>>, AgentError> {
        Ok(self.all().await?.agents.clone())
    }

    /// Returns the agent with this `svc_name` or id.
    ///
    /// # Errors
    /// `NotFound`, or a store error.
    pub async fn get(&self, name_or_id: &str) -> Result<Arc<Agent>, AgentError> {
        let found = self.all().await?.find(name_or_id).cloned();
        found.ok_or_else(|| AgentError::NotFound { name: name_or_id.chars().take(80).collect() })
    }

    /// Whether the agent exists and is not deleted. Check it in the transaction that inserts a row for an agent, so
    /// that no row outlives its agent.
    ///
    /// # Errors
    /// A store error.
    pub async fn is_alive(&self, tx: &mut Tx, id: &AgentId) -> Result<bool, StoreError> {
        store::is_alive(tx, id).await
    }

    /// Whether the name is taken.
    ///
    /// # Errors
    /// A store error.
    pub async fn exists(&self, svc_name: &str) -> Result<bool, AgentError> {
        Ok(self.all().await?.agents.iter().any(|agent| agent.svc_name == svc_name))
    }

    /// Returns the agent for a request that names none: the `default_agent` of the interface settings, else the only
    /// agent.
    ///
    /// # Errors
    /// `NoDefault` if there is neither, or a store error.
    pub async fn default_agent(&self) -> Result<Arc<Agent>, AgentError> {
        let list = self.all().await?;
        if let Some(name) = &self.0.settings.interface().default_agent {
            return list.find(name).cloned().ok_or_else(|| AgentError::NoDefault {
                reason: format!("`default_agent` of the interface settings names `{name}`, which does not exist"),
            });
        }
        match list.agents.as_slice() {
            [only] => Ok(Arc::clone(only)),
            [] => Err(AgentError::NoDefault { reason: "no agents exist; create one with POST /api/agents".to_owned() }),
            many => Err(AgentError::NoDefault {
                reason: format!(
                    "{} agents exist; specify one, or set `default_agent` with PUT /api/settings/interface",
                    many.len()
                ),
            }),
        }
    }

    /// Deletes an agent: makes it and its data unreachable and clears the setting that names it. Rows and files are
    /// deleted afterwards.
    ///
    /// # Errors
    /// `NotFound`, or a store error.
    pub async fn delete(&self, name_or_id: &str) -> Result<(), AgentError> {
        let agent = self.get(name_or_id).await?;
        let owners = self.owners();
        let (id, svc_name) = (agent.id.clone(), agent.svc_name.clone());
        let was_default = self
            .0
            .context
            .db
            .write(async move |tx: &mut Tx| {
                let now = tx.clock().now();
                if !store::hide_agent(tx, &id, now).await? {
                    return Err(AgentError::NotFound { name: svc_name.clone() });
                }
                for owner in &owners {
                    owner.hide(tx, &id).await?;
                }
                let names = [id.as_str(), svc_name.as_str()];
                let was_default = Settings::clear_reference::<InterfaceSettings>(tx, DEFAULT_AGENT, &names).await?;
                tx.enqueue(NewItem {
                    queue: store::PURGE_QUEUE.to_owned(),
                    dedup_key: Some(id.to_string()),
                    payload: json!({"agent_id": id, "svc_name": svc_name}),
                    run_at: now,
                    max_attempts: PURGE_ATTEMPTS,
                })
                .await?;
                tx.touch(AGENTS);
                Ok(was_default)
            })
            .await?;
        if was_default {
            self.0.settings.refresh_committed().await;
        }
        for owner in self.owners() {
            owner.after_hide(&agent.id).await;
        }
        // The purge repeats this if the process ends here.
        if let Err(error) = self.release_folder(&agent.id, &agent.svc_name).await {
            tracing::warn!(%error, agent = %agent.id, "failed to move the folder of a deleted agent; the purge retries");
        }
        self.0.purge_wake.notify_one();
        Ok(())
    }

    /// Builds the system prompt: archetypes, owner, instructions, language.
    #[must_use]
    pub fn system_prompt(&self, agent: &Agent) -> String {
        let settings = &self.0.settings;
        let interface = settings.interface();
        let language = Language::parse(&interface.language).ok();
        let language = language.filter(|language| language.tag() != "en").map(|language| language.english_name());
        let (now, zone) = (self.0.context.clock.now(), settings.timezone());
        let weekday = now.to_jiff().to_zoned(zone.clone()).strftime("%A").to_string();
        let today = format!("{weekday}, {}", interface.date_format.day(now, &zone));
        let owner = &settings.profile().display_name;
        prompt::system_prompt(agent, owner, &settings.agent().instructions, language.as_deref(), &today)
    }

    /// Returns the workspace folder of the agent; recreates it if it was lost.
    ///
    /// # Errors
    /// The folder cannot be created.
    pub fn workspace(&self, agent: &Agent) -> Result<PathBuf, AgentError> {
        let path = self.0.workspaces.path_of(&agent.svc_name);
        match self.0.workspaces.ensure(&agent.svc_name) {
            Ok(_) => Ok(path),
            Err(source) => Err(AgentError::Workspace { path, source }),
        }
    }

    pub(super) fn context(&self) -> &AppContext {
        &self.0.context
    }

    pub(super) fn workspaces(&self) -> &WorkspaceFolders {
        &self.0.workspaces
    }

    pub(super) fn owners(&self) -> Vec<Arc<dyn AgentDataOwner>> {
        let mut owners = self.0.owners.all().to_vec();
        owners.sort_by_key(|owner| owner.phase());
        owners
    }

    pub(super) fn purge_wake(&self) -> Arc<Notify> {
        Arc::clone(&self.0.purge_wake)
    }
}
