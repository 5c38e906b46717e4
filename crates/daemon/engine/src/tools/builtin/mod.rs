//! The tools that come with the daemon, each with a switch.
//!
//! Invariants: a tool that cannot work now (no sandbox, no interpreter) is shown with the reason
//! and not offered; what is switched off stays so over restarts and on every replica.

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

/// A built-in tool as it stands.
#[derive(Debug, Clone)]
pub struct BuiltinTool {
    pub description: ToolDescription,
    pub enabled: bool,
    /// Why it cannot work now; `None` when it can.
    pub problem: Option<String>,
}

/// Tools of another domain that stand among the built-in ones.
pub trait JoinsBuiltin: Send + Sync {
    /// Each with why it cannot work now, in an order that stays the same.
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
    switched_off: Snapshot<BTreeSet<String>>,
    /// Tools of other domains, which come after those that are here.
    joined: Slot<dyn JoinsBuiltin>,
}

impl std::fmt::Debug for BuiltinTools {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("BuiltinTools")
    }
}

impl BuiltinTools {
    #[must_use]
    pub fn new(context: &AppContext, settings: &Settings, runner: CodeRunner, slots: &mut Slots) -> Self {
        let files = Files::new(context.entropy.clone(), runner.room().clone());
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
            switched_off: Snapshot::new(&context.db, &[store::BUILTIN_TOOLS]),
            joined: slots.create(),
        }))
    }

    /// Whether a tool shows what is in the agent's workspace, and nothing else. Built-in names are nobody else's.
    #[must_use]
    pub fn reads_workspace(name: &str) -> bool {
        ["read_file", "list_files", "search_files"].contains(&name)
    }

    /// Every tool with why it cannot work now, always in one order: files, code, the web, and then those that
    /// joined.
    fn all(&self) -> Vec<(Arc<dyn Tool>, Option<String>)> {
        let inner = &*self.0;
        let files = inner.files.iter().map(|tool| (Arc::clone(tool), None));
        let joined = inner.joined.all().iter().flat_map(|others| others.tools());
        files.chain(inner.code.all()).chain([(Arc::clone(&inner.fetch), None)]).chain(joined).collect()
    }

    async fn switched_off(&self) -> Result<Arc<BTreeSet<String>>, ToolsError> {
        self.0.switched_off.get(async |read: &mut Read| Ok(store::list_switched_off(read).await?)).await
    }

    /// Every built-in tool.
    ///
    /// # Errors
    /// The database is away.
    pub async fn list(&self) -> Result<Vec<BuiltinTool>, ToolsError> {
        let off = self.switched_off().await?;
        let view = |(tool, problem): (Arc<dyn Tool>, Option<String>)| {
            let description = tool.description().clone();
            BuiltinTool { enabled: !off.contains(&description.name), description, problem }
        };
        Ok(self.all().into_iter().map(view).collect())
    }

    /// Switches exactly these off, as far as they are here; with the caller's own change.
    ///
    /// # Errors
    /// The store's refusal.
    pub(crate) async fn switch_off_only(&self, tx: &mut Tx, off: &BTreeSet<String>) -> Result<(), StoreError> {
        for (tool, _) in self.all() {
            let name = &tool.description().name;
            if off.contains(name) {
                store::switch_off(tx, name).await?;
            } else {
                store::switch_on(tx, name).await?;
            }
        }
        Ok(())
    }

    /// Switches a tool on or off as wished, or else to what it is not.
    ///
    /// # Errors
    /// `UnknownBuiltin`, or the database is away.
    pub async fn toggle(
        &self,
        name: &str,
        wished: Option<bool>,
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
                let was_off = store::switch_on(tx, &tool.description.name).await?;
                let tool = BuiltinTool { enabled: wished.unwrap_or(was_off), ..tool.clone() };
                if !tool.enabled {
                    store::switch_off(tx, &tool.description.name).await?;
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
            let off = match self.switched_off().await {
                Ok(off) => off,
                Err(error) => {
                    // What was switched off must not come back because the database is away.
                    tracing::warn!(%error, "which built-in tools are on cannot be read; none is offered");
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
