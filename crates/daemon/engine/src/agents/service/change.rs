//! Changes to an agent and to its instructions. Each change reads and writes in one transaction, so that no concurrent
//! change is lost.

use agentd_base::Page;
use agentd_store::{Read, Recorder, StoreError, Tx};

use super::{AGENTS, Agents};
use crate::agents::error::AgentError;
use crate::agents::model::{Agent, AgentId, AgentVersion, UpdateAgent, VersionSource};
use crate::agents::store;

/// Replacement of an agent's instructions.
#[derive(Debug, Clone)]
pub struct ReplaceInstructions {
    pub instructions: String,
    /// Instructions on which they are based: if the current ones differ, nothing changes.
    pub previous: String,
    pub source: VersionSource,
    pub reason: Option<String>,
}

/// Stores a changed agent, and a version if its instructions changed.
async fn store_changed(
    tx: &mut Tx,
    before: &Agent,
    after: &Agent,
    source: VersionSource,
    reason: Option<&str>,
) -> Result<(), StoreError> {
    store::update_agent(tx, after).await?;
    if before.instructions() != after.instructions() {
        store::insert_version(tx, &after.id, after.instructions(), source, reason, after.updated_at).await?;
    }
    tx.touch(AGENTS);
    Ok(())
}

impl Agents {
    /// Updates the given fields and returns the agent.
    ///
    /// # Errors
    /// `NotFound`, `InstructionsChanged`, `Invalid` with all invalid fields, or a store error.
    pub async fn update(&self, name_or_id: &str, change: UpdateAgent) -> Result<Agent, AgentError> {
        let id = self.get(name_or_id).await?.id.clone();
        let name = name_or_id.to_owned();
        let update = async move |tx: &mut Tx| {
            let before = require_agent(tx, &id, &name).await?;
            if change.expected_instructions.as_ref().is_some_and(|expected| expected != before.instructions()) {
                return Err(AgentError::InstructionsChanged { name: before.svc_name });
            }
            let now = tx.clock().now();
            let after = before.changed(change.clone(), now).map_err(|problems| AgentError::Invalid { problems })?;
            store_changed(tx, &before, &after, VersionSource::Owner, None).await?;
            Ok(after)
        };
        self.0.context.db.write(update).await
    }

    /// Returns a page of the versions of an agent's instructions, newest first, and their total number.
    ///
    /// # Errors
    /// `NotFound`, or a store error.
    pub async fn list_versions(&self, name_or_id: &str, page: Page) -> Result<(Vec<AgentVersion>, u64), AgentError> {
        let id = self.get(name_or_id).await?.id.clone();
        let mut read = self.0.context.db.read_snapshot().await?;
        Ok(store::list_versions(&mut read, &id, page.limit, page.offset).await?)
    }

    /// Restores an earlier version of the instructions. Creates a new version unless the text is already current.
    ///
    /// # Errors
    /// `NotFound`, `VersionNotFound`, `Invalid` if they no longer fit, or a store error.
    pub async fn restore_version(
        &self,
        name_or_id: &str,
        version: u32,
        recorder: Recorder<Agent>,
    ) -> Result<Agent, AgentError> {
        let id = self.get(name_or_id).await?.id.clone();
        let name = name_or_id.to_owned();
        let restore = async move |tx: &mut Tx| {
            let before = require_agent(tx, &id, &name).await?;
            let found = store::find_version(tx, &id, version).await?;
            let name = || before.svc_name.clone();
            let found = found.ok_or_else(|| AgentError::VersionNotFound { name: name(), version })?;
            let is_current = found.instructions == before.instructions();
            let after = if is_current {
                before
            } else {
                let now = tx.clock().now();
                let after = before.with_instructions(&found.instructions, now).ok_or_else(does_not_fit)?;
                let reason = format!("Version {version} was restored.");
                store_changed(tx, &before, &after, VersionSource::Restore, Some(&reason)).await?;
                after
            };
            recorder.record(tx, &after).await?;
            Ok(after)
        };
        self.0.context.db.write(restore).await
    }

    /// Returns an agent that is not deleted, within a transaction.
    ///
    /// # Errors
    /// A store error.
    pub async fn find_live(&self, read: &mut Read, id: &AgentId) -> Result<Option<Agent>, StoreError> {
        store::find_agent(read, id).await
    }

    /// Replaces an agent's instructions in the caller's transaction. Returns `false` if the agent is deleted, its
    /// instructions changed in the meantime, or the new ones do not fit.
    ///
    /// # Errors
    /// A store error.
    pub async fn replace_instructions(
        &self,
        tx: &mut Tx,
        id: &AgentId,
        replacement: &ReplaceInstructions,
    ) -> Result<bool, StoreError> {
        let Some(before) = store::find_agent(tx, id).await? else { return Ok(false) };
        let now = tx.clock().now();
        let after = before.with_instructions(&replacement.instructions, now);
        let Some(after) = after.filter(|_| before.instructions() == replacement.previous) else { return Ok(false) };
        store_changed(tx, &before, &after, replacement.source, replacement.reason.as_deref()).await?;
        Ok(true)
    }

    /// Whether instructions fit into the agent's profile.
    #[must_use]
    pub fn fits(&self, agent: &Agent, instructions: &str) -> bool {
        agent.with_instructions(instructions, agent.updated_at).is_some()
    }
}

async fn require_agent(tx: &mut Tx, id: &AgentId, name: &str) -> Result<Agent, AgentError> {
    let found = store::find_agent(tx, id).await?;
    found.ok_or_else(|| AgentError::NotFound { name: name.chars().take(80).collect() })
}

fn does_not_fit() -> AgentError {
    let message =
        "would exceed its size limit with these instructions; shorten or remove other members first".to_owned();
    AgentError::Invalid { problems: vec![agentd_base::FieldProblem { field: "profile".to_owned(), message }] }
}
