//! Deleting episodes.

use agentd_engine::agents::{AgentDataOwner, AgentId};
use agentd_store::{StoreError, Tx};
use futures_util::future::{BoxFuture, LocalBoxFuture};

use super::Memory;
use crate::memory::error::MemoryError;
use crate::memory::follower::MEMORY;
use crate::memory::model::{Episode, EpisodeId};
use crate::memory::store::{EPISODES, agents, conversations, episodes, forgotten, toggles};

impl Memory {
    /// Deletes an episode with its dependent rows.
    ///
    /// # Errors
    /// `NotFound`, or the database fails.
    pub async fn delete(&self, id: &str) -> Result<(), MemoryError> {
        self.delete_if(id, |_| true).await
    }

    /// Deletes an episode of an agent; other agents' episodes are not found.
    ///
    /// # Errors
    /// `NotFound`, or the database fails.
    pub async fn delete_of_agent(&self, id: &str, agent: &AgentId) -> Result<(), MemoryError> {
        let agent = agent.clone();
        self.delete_if(id, move |episode| episode.agent_id.as_ref() == Some(&agent)).await
    }

    async fn delete_if(
        &self,
        id: &str,
        is_allowed: impl Fn(&Episode) -> bool + Send + Sync + 'static,
    ) -> Result<(), MemoryError> {
        let wanted = EpisodeId::from(id);
        let delete = async move |tx: &mut Tx| {
            let missing = || MemoryError::NotFound { id: wanted.to_string() };
            let found = episodes::find_episode(tx, &wanted).await?.filter(|episode| is_allowed(episode));
            let episode = found.ok_or_else(missing)?;
            forgotten::record_forgotten(tx, episode.number).await?;
            if !episodes::delete_episode(tx, &episode).await? {
                return Err(missing());
            }
            tx.touch(MEMORY);
            Ok(())
        };
        self.context().db.write(delete).await?;
        self.sync_index().await;
        Ok(())
    }

    /// Deletes all episodes and returns their number.
    ///
    /// # Errors
    /// The database fails.
    pub async fn clear(&self) -> Result<u64, MemoryError> {
        let clear = async move |tx: &mut Tx| {
            tx.touch(MEMORY);
            toggles::record_emptied(tx).await?;
            episodes::delete_all(tx).await
        };
        let cleared = self.context().db.write::<_, StoreError, _>(clear).await?;
        self.sync_index().await;
        Ok(cleared)
    }
}

impl AgentDataOwner for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn hide<'t>(&'t self, tx: &'t mut Tx, agent: &'t AgentId) -> LocalBoxFuture<'t, Result<(), StoreError>> {
        Box::pin(async move {
            // The agent's rows are hidden with the agent. Counters and graph must exclude them, and the indexes must
            // follow.
            agents::exclude_agent(tx, agent).await?;
            let numbers = episodes::list_numbers(tx, agent).await?;
            tx.log_changes(EPISODES, &numbers).await?;
            tx.touch(MEMORY);
            Ok(())
        })
    }

    fn after_hide<'t>(&'t self, _agent: &'t AgentId) -> BoxFuture<'t, ()> {
        Box::pin(self.sync_index())
    }

    fn purge<'t>(
        &'t self,
        tx: &'t mut Tx,
        agent: &'t AgentId,
        limit: u32,
    ) -> LocalBoxFuture<'t, Result<bool, StoreError>> {
        Box::pin(async move {
            let mut noted = conversations::delete_of_agent(tx, agent, limit.min(500)).await?;
            noted += forgotten::delete_of_agent(tx, agent, limit.min(500)).await?;
            agents::exclude_agent(tx, agent).await?;
            let left = episodes::list_of_agent(tx, agent, limit.min(100)).await?;
            for episode in &left {
                episodes::delete_uncounted(tx, episode).await?;
            }
            Ok(!left.is_empty() || noted > 0)
        })
    }
}
