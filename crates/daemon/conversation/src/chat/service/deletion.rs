//! Handling of conversations whose agent or project is deleted.

use agentd_engine::agents::{AgentDataOwner, AgentDataPhase, AgentId};
use agentd_engine::projects::{ProjectId, ProjectReferences};
use agentd_store::{StoreError, Tx};
use futures_util::future::LocalBoxFuture;

use super::super::store::{self, purge_conversation};
use super::Chat;

impl AgentDataOwner for Chat {
    fn name(&self) -> &'static str {
        "conversations"
    }

    fn phase(&self) -> AgentDataPhase {
        AgentDataPhase::Conversations
    }

    /// Nothing to write: a conversation is hidden with its agent.
    fn hide<'t>(&'t self, _tx: &'t mut Tx, _agent: &'t AgentId) -> LocalBoxFuture<'t, Result<(), StoreError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn purge<'t>(
        &'t self,
        tx: &'t mut Tx,
        agent: &'t AgentId,
        limit: u32,
    ) -> LocalBoxFuture<'t, Result<bool, StoreError>> {
        Box::pin(async move {
            // A batch of a conversation is up to 100 messages with their logs.
            let conversations = store::list_of_agent(tx, agent, (limit / 100).max(1)).await?;
            for id in &conversations {
                purge_conversation(tx, id).await?;
            }
            Ok(!conversations.is_empty())
        })
    }
}

impl ProjectReferences for Chat {
    fn name(&self) -> &'static str {
        "conversations"
    }

    fn release<'t>(
        &'t self,
        tx: &'t mut Tx,
        project: &'t ProjectId,
        limit: u32,
    ) -> LocalBoxFuture<'t, Result<bool, StoreError>> {
        Box::pin(async move { Ok(store::release_project(tx, project, limit).await? > 0) })
    }
}
