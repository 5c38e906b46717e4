//! All tool sources, and the tools that an agent is offered.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use agentd_core::runtime::{Slot, Slots};

use super::offer::Offer;
use super::output::{self, StoredOutput};
use super::tool::{Tool, ToolError, ToolSource};
use super::transfer::{WorkspaceFile, copy_out};
use crate::agents::Agent;
use crate::workspaces::UNTRUSTED_RESULTS;
use crate::workspaces::WorkspaceQuota;

/// Maximum number of tools that all vendors accept.
pub(crate) const MAX_TOOLS: usize = 128;

/// Registry of the sources of tools. Cheap to clone.
#[derive(Clone)]
pub struct Tools(Arc<Inner>);

struct Inner {
    quota: WorkspaceQuota,
    sources: Slot<dyn ToolSource>,
}

impl std::fmt::Debug for Tools {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tools").field("sources", &self.0.sources.all().len()).finish()
    }
}

impl Tools {
    /// `quota` limits the size of workspaces. Of two tools with one name, the one of the earlier source wins.
    #[must_use]
    pub fn new(quota: &WorkspaceQuota, slots: &mut Slots) -> Self {
        Self(Arc::new(Inner { quota: quota.clone(), sources: slots.create() }))
    }

    /// Whether a source reserves this name.
    #[must_use]
    pub fn is_reserved(&self, name: &str) -> bool {
        self.0.sources.all().iter().any(|source| source.reserved_names().iter().any(|reserved| reserved == name))
    }

    /// Whether a custom tool cannot use this name.
    pub async fn is_name_taken(&self, name: &str) -> bool {
        for source in self.0.sources.all() {
            if source.has_tool(name).await {
                return true;
            }
        }
        self.is_reserved(name)
    }

    /// Stores a result that is too long for a model in the workspace. Returns the path for `read_file` and the stored
    /// length. The newest results are retained. Very long lines are wrapped because `read_file` truncates them.
    /// Untrusted results are stored in a folder whose files stay untrusted.
    ///
    /// # Errors
    /// The workspace cannot be written or is full, or the path is occupied.
    pub async fn store_output(
        &self,
        workspace: &Path,
        call_id: &str,
        text: &str,
        is_trusted: bool,
    ) -> Result<StoredOutput, ToolError> {
        let folder = if is_trusted { output::FOLDER } else { UNTRUSTED_RESULTS };
        output::store_result(workspace, &self.0.quota, folder, call_id, text).await
    }

    /// Starts writing an external file into a workspace. `mark` distinguishes concurrent writes; leftovers of a killed
    /// daemon with the same mark are removed.
    ///
    /// # Errors
    /// The path leaves the workspace or is occupied, or the workspace is full.
    pub async fn create_file(&self, workspace: &Path, path: &str, mark: &str) -> Result<WorkspaceFile, ToolError> {
        WorkspaceFile::create(workspace, &self.0.quota, path, mark).await
    }

    /// Whether a workspace contains this file.
    ///
    /// # Errors
    /// The path leaves the workspace or is not a file.
    pub async fn has_file(&self, workspace: &Path, path: &str) -> Result<bool, ToolError> {
        WorkspaceFile::exists(workspace, path).await
    }

    /// Copies a file of a workspace into a private folder and returns its new path.
    ///
    /// # Errors
    /// The path leaves the workspace, is not a file, or the file is longer than `limit` bytes.
    pub async fn copy_file(
        &self,
        workspace: &Path,
        path: &str,
        folder: &Path,
        limit: u64,
    ) -> Result<PathBuf, ToolError> {
        copy_out(workspace, path, folder, limit).await
    }

    /// Returns the tools that an agent may use now.
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
            tracing::warn!(%agent, count, limit = MAX_TOOLS, "tool limit exceeded; further tools are not offered");
        }
        Offer::with_limit(tools, MAX_TOOLS)
    }
}

/// `profile.tools` lists the permitted tools; if absent, all are permitted.
fn is_permitted(agent: &Agent, name: &str) -> bool {
    agent.profile.tools.as_ref().is_none_or(|permitted| permitted.iter().any(|known| known == name))
}
