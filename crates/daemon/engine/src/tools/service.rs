//! Every source of tools, and what of them an agent is offered.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use agentd_core::runtime::{Slot, Slots};

use super::offer::Offer;
use super::output::{self, KeptOutput};
use super::tool::{Tool, ToolError, ToolSource};
use super::transfer::{WorkspaceFile, copy_out};
use crate::agents::Agent;
use crate::workspaces::Room;
use crate::workspaces::UNTRUSTED_RESULTS;

/// Vendors take no more.
pub(crate) const MAX_TOOLS: usize = 128;

/// Cheap to clone.
#[derive(Clone)]
pub struct Tools(Arc<Inner>);

struct Inner {
    room: Room,
    sources: Slot<dyn ToolSource>,
}

impl std::fmt::Debug for Tools {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tools").field("sources", &self.0.sources.all().len()).finish()
    }
}

impl Tools {
    /// `room` is what a workspace may hold. Of two tools with one name, that of the earlier source counts.
    #[must_use]
    pub fn new(room: &Room, slots: &mut Slots) -> Self {
        Self(Arc::new(Inner { room: room.clone(), sources: slots.create() }))
    }

    /// Whether a source keeps this name for itself.
    #[must_use]
    pub fn is_reserved(&self, name: &str) -> bool {
        self.0.sources.all().iter().any(|source| source.reserved_names().iter().any(|reserved| reserved == name))
    }

    /// Whether no custom tool can take this name now.
    pub async fn is_taken(&self, name: &str) -> bool {
        for source in self.0.sources.all() {
            if source.has_tool(name).await {
                return true;
            }
        }
        self.is_reserved(name)
    }

    /// Keeps a result that is too long for a model in the workspace, and answers the path that
    /// `read_file` takes, and how much was kept. Of earlier results the newest stay. Very long lines
    /// are broken, because `read_file` shows only the beginning of one. What others wrote lies in a folder whose files
    /// stay untrusted.
    ///
    /// # Errors
    /// The workspace cannot be written, is full, or something else is in the way there.
    pub async fn keep_output(
        &self,
        workspace: &Path,
        call_id: &str,
        text: &str,
        is_trusted: bool,
    ) -> Result<KeptOutput, ToolError> {
        let folder = if is_trusted { output::FOLDER } else { UNTRUSTED_RESULTS };
        output::keep(workspace, &self.0.room, folder, call_id, text).await
    }

    /// Begins a file of a workspace that comes from outside. `mark` tells it from others that are being written; what
    /// a daemon that was killed left under the same one is removed.
    ///
    /// # Errors
    /// The path leads out of the workspace, something else is in the way, or the workspace is full.
    pub async fn create_file(&self, workspace: &Path, path: &str, mark: &str) -> Result<WorkspaceFile, ToolError> {
        WorkspaceFile::create(workspace, &self.0.room, path, mark).await
    }

    /// Whether a workspace holds this file.
    ///
    /// # Errors
    /// The path leads out of the workspace, or something else than a file is there.
    pub async fn has_file(&self, workspace: &Path, path: &str) -> Result<bool, ToolError> {
        WorkspaceFile::exists(workspace, path).await
    }

    /// Copies a file of a workspace into a folder that is nobody else's, and answers where it is then.
    ///
    /// # Errors
    /// The path leads out of the workspace, it is no file, or longer than `limit` bytes.
    pub async fn copy_file(
        &self,
        workspace: &Path,
        path: &str,
        folder: &Path,
        limit: u64,
    ) -> Result<PathBuf, ToolError> {
        copy_out(workspace, path, folder, limit).await
    }

    /// What an agent may use now.
    pub async fn offer(&self, agent: &Agent) -> Offer {
        let mut tools: Vec<Arc<dyn Tool>> = Vec::new();
        let mut names = HashSet::new();
        for source in self.0.sources.all() {
            for tool in source.tools(agent).await {
                let name = &tool.description().name;
                if is_permitted(agent, name) && names.insert(name.clone()) {
                    tools.push(tool);
                }
            }
        }
        if tools.len() > MAX_TOOLS {
            let (agent, count) = (&agent.svc_name, tools.len());
            tracing::warn!(%agent, count, "there are more than {MAX_TOOLS} tools; the rest is not offered");
        }
        Offer::of_most(tools, MAX_TOOLS)
    }
}

/// `profile.tools` names what the agent may use; left out, it may use everything.
fn is_permitted(agent: &Agent, name: &str) -> bool {
    agent.profile.tools.as_ref().is_none_or(|permitted| permitted.iter().any(|known| known == name))
}
