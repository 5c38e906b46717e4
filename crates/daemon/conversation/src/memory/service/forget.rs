//! Forgetting.

use agentd_engine::agents::{AgentId, OwnsAgentData};
use agentd_store::{StoreError, Tx};
use futures_util::future::{BoxFuture, LocalBoxFuture};

use super::Memory;
use crate::memory::error::MemoryError;
use crate::memory::follower::MEMORY;
use crate::memory::model::{Episode, EpisodeId};
use crate::memory::store::{EPISODES, agents, conversations, episodes, forgotten, toggles};

impl Memory {
    /// Forgets one episode, with all that hangs on it.
    ///
    /// # Errors
    /// `NotFound`, or the store's refusal.
    pub async fn delete(&self, id: &str) -> Result<(), MemoryError> {
        self.delete_if(id, |_| true).await
    }

    /// The same for an agent, which sees its own episodes alone.
    ///
    /// # Errors
    /// `NotFound`, or the store's refusal.
    pub async fn delete_of_agent(&self, id: &str, agent: &AgentId) -> Result<(), MemoryError> {
        let agent = agent.clone();
        self.delete_if(id, move |episode| episode.agent_id.as_ref() == Some(&agent)).await
    }

    async fn delete_if(
        &self,
        id: &str,
        may_go: impl Fn(&Episode) -> bool + Send + Sync + 'static,
    ) -> Result<(), MemoryError> {
        let wanted = EpisodeId::from(id);
        let delete = async move |tx: &mut Tx| {
            let missing = || MemoryError::NotFound { id: wanted.to_string() };
            let found = episodes::find_episode(tx, &wanted).await?.filter(|episode| may_go(episode));
            let episode = found.ok_or_else(missing)?;
            forgotten::note_forgotten(tx, episode.number).await?;
            if !episodes::delete_episode(tx, &episode).await? {
                return Err(missing());
            }
            tx.touch(MEMORY);
            Ok(())
        };
        self.context().db.write(delete).await?;
        self.settle().await;
        Ok(())
    }

    /// Forgets everything; answers how many episodes there were.
    ///
    /// # Errors
    /// The store's refusal.
    pub async fn clear(&self) -> Result<u64, MemoryError> {
        let clear = async move |tx: &mut Tx| {
            tx.touch(MEMORY);
            toggles::record_emptied(tx).await?;
            episodes::delete_all(tx).await
        };
        let cleared = self.context().db.write::<_, StoreError, _>(clear).await?;
        self.settle().await;
        Ok(cleared)
    }
}

impl OwnsAgentData for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn hide<'t>(&'t self, tx: &'t mut Tx, agent: &'t AgentId) -> LocalBoxFuture<'t, Result<(), StoreError>> {
        Box::pin(async move {
            // Its rows are out of sight with the agent; figures and graph must not count them any more, and the
            // indexes have to hear of it.
            agents::leave_out(tx, agent).await?;
            let numbers = episodes::numbers_of_agent(tx, agent).await?;
            tx.log_changes(EPISODES, &numbers).await?;
            tx.touch(MEMORY);
            Ok(())
        })
    }

    fn after_hide<'t>(&'t self, _agent: &'t AgentId) -> BoxFuture<'t, ()> {
        Box::pin(self.settle())
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
            agents::leave_out(tx, agent).await?;
            let left = episodes::list_of_agent(tx, agent, limit.min(100)).await?;
            for episode in &left {
                episodes::delete_uncounted(tx, episode).await?;
            }
            Ok(!left.is_empty() || noted > 0)
        })
    }
}
