//! Built-in tools, each with a switch.
//!
//! Invariants: an unavailable tool (no sandbox, no interpreter) is listed with the reason and not offered. A disabled
//! tool stays disabled across restarts and on every replica.

mod code;
mod files;
mod http_fetch;
mod input;
pub(super) mod store;

use std::collections::BTreeSet;
use std::sync::Arc;

use agentd_core::runtime::{AppContext, Slot, Slots};
use agentd_core::settings::Settings;
use agentd_store::{Db, Read, Recorder, Snapshot, StoreError, Tx};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::error::ToolsError;
use super::tool::{Tool, ToolDescription, ToolSource};
use crate::agents::Agent;
use crate::code_runner::CodeRunner;
use code::CodeTools;
use files::Files;

/// A built-in tool with its state.
#[derive(Debug, Clone)]
pub struct BuiltinTool {
    pub description: ToolDescription,
    pub enabled: bool,
    /// Reason why the tool is unavailable; `None` if available.
    pub problem: Option<String>,
}

/// Provides tools of another domain as built-in tools.
pub trait BuiltinToolProvider: Send + Sync {
    /// Returns the tools in a stable order, each with the reason why it is unavailable, if any.
    fn tools(&self) -> Vec<(Arc<dyn Tool>, Option<String>)>;
}

/// The built-in tools. Cheap to clone.
#[derive(Clone)]
pub struct BuiltinTools(Arc<Inner>);

struct Inner {
    db: Db,
    files: Vec<Arc<dyn Tool>>,
    code: CodeTools,
    fetch: Arc<dyn Tool>,
    disabled: Snapshot<BTreeSet<String>>,
    /// Tools of other domains, listed after the tools of this module.
    providers: Slot<dyn BuiltinToolProvider>,
}

impl std::fmt::Debug for BuiltinTools {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("BuiltinTools")
    }
}

impl BuiltinTools {
    #[must_use]
    pub fn new(context: &AppContext, settings: &Settings, runner: CodeRunner, slots: &mut Slots) -> Self {
        let files = Files::new(context.entropy.clone(), runner.quota().clone());
        Self(Arc::new(Inner {
            db: context.db.clone(),
            files: vec![
                files::read_file(),
                files::write_file(&files),
                files::edit_file(&files),
                files::list_files(),
                files::search_files(),
            ],
            code: CodeTools::new(runner),
            fetch: http_fetch::http_fetch(settings.policy()),
            disabled: Snapshot::new(&context.db, &[store::BUILTIN_TOOLS]),
            providers: slots.create(),
        }))
    }

    /// Whether a tool only reads the agent's workspace. Built-in names are reserved.
    #[must_use]
    pub fn reads_workspace(name: &str) -> bool {
        ["read_file", "list_files", "search_files"].contains(&name)
    }

    /// Returns all tools with the reason why they are unavailable, in a fixed order: files, code, web, other domains.
    fn all(&self) -> Vec<(Arc<dyn Tool>, Option<String>)> {
        let inner = &*self.0;
        let files = inner.files.iter().map(|tool| (Arc::clone(tool), None));
        let providers = inner.providers.all().iter().flat_map(|others| others.tools());
        files.chain(inner.code.all()).chain([(Arc::clone(&inner.fetch), None)]).chain(providers).collect()
    }

    async fn disabled(&self) -> Result<Arc<BTreeSet<String>>, ToolsError> {
        self.0.disabled.get(async |read: &mut Read| Ok(store::list_disabled_tools(read).await?)).await
    }

    /// Returns all built-in tools.
    ///
    /// # Errors
    /// A store error.
    pub async fn list(&self) -> Result<Vec<BuiltinTool>, ToolsError> {
        let off = self.disabled().await?;
        let view = |(tool, problem): (Arc<dyn Tool>, Option<String>)| {
            let description = tool.description().clone();
            BuiltinTool { enabled: !off.contains(&description.name), description, problem }
        };
        Ok(self.all().into_iter().map(view).collect())
    }

    /// Disables exactly these tools, as far as they exist, in the caller's transaction.
    ///
    /// # Errors
    /// A store error.
    pub(crate) async fn disable_exactly(&self, tx: &mut Tx, off: &BTreeSet<String>) -> Result<(), StoreError> {
        for (tool, _) in self.all() {
            let name = &tool.description().name;
            if off.contains(name) {
                store::disable(tx, name).await?;
            } else {
                store::enable(tx, name).await?;
            }
        }
        Ok(())
    }

    /// Sets whether a tool is enabled; toggles it if `enabled` is `None`.
    ///
    /// # Errors
    /// `UnknownBuiltin`, or a store error.
    pub async fn toggle(
        &self,
        name: &str,
        enabled: Option<bool>,
        recorder: Recorder<BuiltinTool>,
    ) -> Result<BuiltinTool, ToolsError> {
        let known = self.all().into_iter().find(|(tool, _)| tool.description().name == name);
        let Some((tool, problem)) = known else {
            return Err(ToolsError::UnknownBuiltin { name: name.chars().take(64).collect() });
        };
        let tool = BuiltinTool { enabled: false, description: tool.description().clone(), problem };
        self.0
            .db
            .write(async move |tx: &mut Tx| {
                let was_disabled = store::enable(tx, &tool.description.name).await?;
                let tool = BuiltinTool { enabled: enabled.unwrap_or(was_disabled), ..tool.clone() };
                if !tool.enabled {
                    store::disable(tx, &tool.description.name).await?;
                }
                recorder.record(tx, &tool).await?;
                Ok::<_, ToolsError>(tool)
            })
            .await
    }
}

impl ToolSource for BuiltinTools {
    fn name(&self) -> &'static str {
        "builtin"
    }

    fn tools<'a>(&'a self, _agent: &'a Agent) -> BoxFuture<'a, Vec<Arc<dyn Tool>>> {
        async move {
            let off = match self.disabled().await {
                Ok(off) => off,
                Err(error) => {
                    // Disabled tools must not reappear because the database is unavailable.
                    tracing::warn!(%error, "failed to load disabled tools; no built-in tools are offered");
                    return Vec::new();
                }
            };
            let usable = self.all().into_iter().filter(|(_, problem)| problem.is_none()).map(|(tool, _)| tool);
            usable.filter(|tool| !off.contains(&tool.description().name)).collect()
        }
        .boxed()
    }

    fn reserved_names(&self) -> Vec<String> {
        self.all().into_iter().map(|(tool, _)| tool.description().name.clone()).collect()
    }
}
