//! Service for custom tools.

use std::collections::BTreeSet;
use std::sync::Arc;

use agentd_base::Clock;
use agentd_base::id::IdGenerator;
use agentd_core::runtime::AppContext;
use agentd_core::settings::Settings;
use agentd_core::vault::{Vault, VaultError, open_url};
use agentd_store::{Db, Read, Recorder, Snapshot, StoreError, Tx};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::model::{CustomTool, CustomToolChange, CustomToolId, SecretChanges};
use super::run::{RunnableTool, ToolRuntime};
use super::store;
use crate::agents::Agent;
use crate::code_runner::CodeRunner;
use crate::tools::Tools;
use crate::tools::error::ToolsError;
use crate::tools::tool::{Tool, ToolSource};

const MAX_CUSTOM_TOOLS: usize = 200;

/// A tool with its availability.
#[derive(Debug, Clone)]
pub struct ListedTool {
    pub tool: Arc<CustomTool>,
    pub problem: Option<String>,
    /// Secret headers without a value.
    pub missing: BTreeSet<String>,
}

struct LoadedTools(Vec<LoadedTool>);

struct LoadedTool {
    tool: Arc<CustomTool>,
    /// The callable tool, or the reason why it cannot be called in its current form.
    runnable: Result<Arc<RunnableTool>, String>,
    missing: BTreeSet<String>,
}

struct Inner {
    db: Db,
    clock: Clock,
    ids: IdGenerator,
    vault: Vault,
    runtime: ToolRuntime,
    loaded: Snapshot<LoadedTools>,
    /// All tools, to check for name conflicts.
    tools: Tools,
}

/// The custom tools. Cheap to clone.
#[derive(Clone)]
pub struct CustomTools(Arc<Inner>);

impl std::fmt::Debug for CustomTools {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CustomTools")
    }
}

/// Vault scope of a tool's secrets.
fn scope(id: &CustomToolId) -> String {
    format!("custom_tools.{id}")
}

impl CustomTools {
    #[must_use]
    pub fn new(context: &AppContext, settings: &Settings, runner: CodeRunner, tools: Tools) -> Self {
        Self(Arc::new(Inner {
            db: context.db.clone(),
            clock: context.clock.clone(),
            ids: context.ids.clone(),
            vault: settings.vault().clone(),
            runtime: ToolRuntime::new(runner, context.entropy.clone(), &settings.policy()),
            loaded: Snapshot::new(&context.db, &[store::CUSTOM_TOOLS]),
            tools,
        }))
    }

    async fn loaded(&self) -> Result<Arc<LoadedTools>, ToolsError> {
        let (vault, runtime) = (self.0.vault.clone(), self.0.runtime.clone());
        self.0.loaded.get(async move |read: &mut Read| load(&vault, &runtime, read).await).await
    }

    fn listed(&self, loaded: &LoadedTool) -> ListedTool {
        let problem = match &loaded.runnable {
            Ok(_) => self.0.runtime.problem(loaded.tool.kind),
            Err(problem) => Some(problem.clone()),
        };
        ListedTool { tool: Arc::clone(&loaded.tool), problem, missing: loaded.missing.clone() }
    }

    /// Returns all custom tools, oldest first.
    ///
    /// # Errors
    /// A store error.
    pub async fn list(&self) -> Result<Vec<ListedTool>, ToolsError> {
        Ok(self.loaded().await?.0.iter().map(|loaded| self.listed(loaded)).collect())
    }

    /// Returns a custom tool.
    ///
    /// # Errors
    /// `NotFound`, or a store error.
    pub async fn get(&self, id: &str) -> Result<ListedTool, ToolsError> {
        let loaded = self.loaded().await?;
        let found = loaded.0.iter().find(|loaded| loaded.tool.id.as_str() == id);
        found.map(|loaded| self.listed(loaded)).ok_or_else(|| not_found(id))
    }

    /// Describes a tool for a stored response, without checking its secrets.
    #[must_use]
    pub fn to_listed(&self, tool: &CustomTool) -> ListedTool {
        ListedTool {
            tool: Arc::new(tool.clone()),
            problem: self.0.runtime.problem(tool.kind),
            missing: BTreeSet::new(),
        }
    }

    /// Creates a tool.
    ///
    /// # Errors
    /// `Invalid` with all invalid fields, `NameTaken`, `TooMany`, or a store error.
    pub async fn create(
        &self,
        change: CustomToolChange,
        recorder: Recorder<CustomTool>,
    ) -> Result<ListedTool, ToolsError> {
        let mut tool = CustomTool::blank(CustomToolId::generate(&self.0.ids), self.0.clock.now());
        let secrets = tool.change(change).map_err(|problems| ToolsError::Invalid { problems })?;
        self.require_name_available(&tool.name).await?;
        let (vault, id) = (self.0.vault.clone(), tool.id.clone());
        self.0
            .db
            .write(async move |tx: &mut Tx| {
                if store::count_custom_tools(tx).await? >= MAX_CUSTOM_TOOLS {
                    return Err(ToolsError::TooMany { limit: MAX_CUSTOM_TOOLS });
                }
                if !store::insert_custom_tool(tx, &tool).await? {
                    return Err(ToolsError::NameTaken { name: tool.name.clone() });
                }
                write_secrets(tx, &vault, &tool.id, &secrets).await?;
                recorder.record(tx, &tool).await?;
                Ok(())
            })
            .await?;
        self.get(id.as_str()).await
    }

    /// Updates a tool; absent fields keep their values.
    ///
    /// # Errors
    /// `NotFound`, `Invalid` with all invalid fields, `NameTaken`, or a store error.
    pub async fn update(&self, id: &str, change: CustomToolChange) -> Result<ListedTool, ToolsError> {
        if let Some(name) = &change.name {
            self.require_name_available(name.trim()).await?;
        }
        let (vault, wanted, now) = (self.0.vault.clone(), CustomToolId::from(id), self.0.clock.now());
        self.0
            .db
            .write(async move |tx: &mut Tx| {
                let found = store::find_custom_tool(tx, &wanted).await?;
                let mut tool = found.ok_or_else(|| not_found(wanted.as_str()))?;
                let secrets = tool.change(change.clone()).map_err(|problems| ToolsError::Invalid { problems })?;
                if store::is_name_taken(tx, &tool.name, &tool.id).await? {
                    return Err(ToolsError::NameTaken { name: tool.name.clone() });
                }
                tool.updated_at = now;
                store::update_custom_tool(tx, &tool).await?;
                write_secrets(tx, &vault, &tool.id, &secrets).await?;
                Ok(())
            })
            .await?;
        self.get(id).await
    }

    pub(crate) async fn find_named(&self, read: &mut Read, name: &str) -> Result<Option<CustomTool>, StoreError> {
        Ok(store::list_custom_tools(read).await?.into_iter().find(|tool| tool.name == name.trim()))
    }

    /// Creates or updates a tool in the caller's transaction. `secret_headers` are its secret headers afterwards,
    /// including those without a value yet.
    ///
    /// # Errors
    /// See [`Self::create`] and [`Self::update`].
    pub(crate) async fn write(
        &self,
        tx: &mut Tx,
        before: Option<CustomTool>,
        change: CustomToolChange,
        secret_headers: BTreeSet<String>,
    ) -> Result<(), ToolsError> {
        let is_new = before.is_none();
        let now = self.0.clock.now();
        let mut tool = before.unwrap_or_else(|| CustomTool::blank(CustomToolId::generate(&self.0.ids), now));
        let mut secrets = tool.change(change).map_err(|problems| ToolsError::Invalid { problems })?;
        if let Some(request) = &mut tool.request {
            request.secret_headers = secret_headers;
            // Validates again with the secret headers.
            let unchanged = CustomToolChange::default();
            secrets.extend(tool.change(unchanged).map_err(|problems| ToolsError::Invalid { problems })?);
        }
        // A custom tool takes precedence over a tool server's tool of that name, so only reserved names are rejected.
        if self.0.tools.is_reserved(&tool.name) {
            return Err(ToolsError::NameTaken { name: tool.name });
        }
        tool.updated_at = now;
        if !is_new {
            store::update_custom_tool(tx, &tool).await?;
        } else if store::count_custom_tools(tx).await? >= MAX_CUSTOM_TOOLS {
            return Err(ToolsError::TooMany { limit: MAX_CUSTOM_TOOLS });
        } else if !store::insert_custom_tool(tx, &tool).await? {
            return Err(ToolsError::NameTaken { name: tool.name });
        }
        write_secrets(tx, &self.0.vault, &tool.id, &secrets).await
    }

    /// Sets whether a tool is enabled; toggles it if `enabled` is `None`.
    ///
    /// # Errors
    /// `NotFound`, or a store error.
    pub async fn toggle(
        &self,
        id: &str,
        enabled: Option<bool>,
        recorder: Recorder<CustomTool>,
    ) -> Result<ListedTool, ToolsError> {
        let (wanted, now) = (CustomToolId::from(id), self.0.clock.now());
        self.0
            .db
            .write(async move |tx: &mut Tx| {
                store::toggle_custom_tool(tx, &wanted, enabled, now).await?;
                let found = store::find_custom_tool(tx, &wanted).await?;
                recorder.record(tx, &found.ok_or_else(|| not_found(wanted.as_str()))?).await?;
                Ok::<_, ToolsError>(())
            })
            .await?;
        self.get(id).await
    }

    /// Deletes a tool and its secrets.
    ///
    /// # Errors
    /// `NotFound`, or a store error.
    pub async fn delete(&self, id: &str) -> Result<(), ToolsError> {
        let (vault, wanted) = (self.0.vault.clone(), CustomToolId::from(id));
        self.0
            .db
            .write(async move |tx: &mut Tx| {
                let found = store::find_custom_tool(tx, &wanted).await?;
                let tool = found.ok_or_else(|| not_found(wanted.as_str()))?;
                for name in tool.vault_names() {
                    vault.clear(tx, &scope(&wanted), &name).await?;
                }
                store::delete_custom_tool(tx, &wanted).await?;
                Ok(())
            })
            .await
    }

    /// Tools of the same name would shadow each other.
    async fn require_name_available(&self, name: &str) -> Result<(), ToolsError> {
        if self.0.tools.is_name_taken(name).await {
            return Err(ToolsError::NameTaken { name: name.to_owned() });
        }
        Ok(())
    }
}

fn not_found(id: &str) -> ToolsError {
    ToolsError::NotFound { id: id.chars().take(80).collect() }
}

async fn write_secrets(
    tx: &mut Tx,
    vault: &Vault,
    id: &CustomToolId,
    secrets: &SecretChanges,
) -> Result<(), ToolsError> {
    for (header, secret) in secrets {
        match secret {
            Some(secret) => vault.put(tx, &scope(id), header, secret).await?,
            None => vault.clear(tx, &scope(id), header).await?,
        }
    }
    Ok(())
}

async fn load(vault: &Vault, runtime: &ToolRuntime, read: &mut Read) -> Result<LoadedTools, ToolsError> {
    let mut loaded = Vec::new();
    for tool in store::list_custom_tools(read).await? {
        let mut secrets = Vec::new();
        let (mut problem, mut missing) = (None, BTreeSet::new());
        for header in tool.secret_names() {
            match vault.get_in(read, &scope(&tool.id), &header).await {
                Ok(Some(secret)) => secrets.push((header, secret)),
                // A backup without secrets was restored.
                Ok(None) => {
                    problem = Some(format!("the secret header {header} is missing; enter it again"));
                    missing.insert(header);
                }
                // One secret that cannot be decrypted must not make the other tools unavailable.
                Err(error @ VaultError::Unsealable { .. }) => problem = Some(error.to_string()),
                Err(error) => return Err(error.into()),
            }
        }
        let mut url = String::new();
        if let Some(request) = &tool.request {
            match open_url(read, vault, &scope(&tool.id), &request.url).await? {
                Ok(opened) => url = opened,
                Err(missing) => problem = problem.or(Some(missing)),
            }
        }
        let tool = Arc::new(tool);
        let runnable = match problem {
            Some(problem) => Err(problem),
            None => RunnableTool::new(&tool, url, secrets, runtime).map(Arc::new),
        };
        loaded.push(LoadedTool { tool, runnable, missing });
    }
    Ok(LoadedTools(loaded))
}

impl ToolSource for CustomTools {
    fn name(&self) -> &'static str {
        "custom"
    }

    fn tools<'a>(&'a self, _agent: &'a Agent) -> BoxFuture<'a, Vec<Arc<dyn Tool>>> {
        async move {
            let loaded = match self.loaded().await {
                Ok(loaded) => loaded,
                Err(error) => {
                    tracing::warn!(%error, "failed to load custom tools; none are offered");
                    return Vec::new();
                }
            };
            let enabled = loaded.0.iter().filter(|loaded| loaded.tool.enabled);
            let usable = enabled.filter(|loaded| self.0.runtime.problem(loaded.tool.kind).is_none());
            usable.filter_map(|loaded| Some(Arc::clone(loaded.runnable.as_ref().ok()?) as Arc<dyn Tool>)).collect()
        }
        .boxed()
    }
}
