//! Sessions of an agent end with it.

use agentd_store::{StoreError, Tx};
use futures_util::future::{BoxFuture, LocalBoxFuture, join_all};

use crate::agents::{AgentDataPhase, AgentId, OwnsAgentData};
use crate::engine::live::Stop;
use crate::engine::service::{CANCEL_LIMIT, Engine};
use crate::engine::store;

const DELETED: &str = "the agent was deleted";

impl OwnsAgentData for Engine {
    fn name(&self) -> &'static str {
        "sessions"
    }

    fn phase(&self) -> AgentDataPhase {
        AgentDataPhase::Sessions
    }

    fn hide<'t>(&'t self, tx: &'t mut Tx, agent: &'t AgentId) -> LocalBoxFuture<'t, Result<(), StoreError>> {
        Box::pin(async move {
            // At once: the end of a turn that waits for an answer comes later.
            store::approvals::cancel_of_agent(tx, agent, DELETED).await?;
            store::cancel_of_agent(tx, agent).await
        })
    }

    fn after_hide<'t>(&'t self, agent: &'t AgentId) -> BoxFuture<'t, ()> {
        Box::pin(async move {
            let turns = self.inner().live.of_agent(agent);
            for live in &turns {
                live.stop(Stop::Cancel);
            }
            if tokio::time::timeout(CANCEL_LIMIT, join_all(turns.iter().map(|live| live.ended()))).await.is_err() {
                tracing::warn!(%agent, "turns of a deleted agent have not ended yet");
            }
        })
    }

    fn purge<'t>(
        &'t self,
        tx: &'t mut Tx,
        agent: &'t AgentId,
        limit: u32,
    ) -> LocalBoxFuture<'t, Result<bool, StoreError>> {
        Box::pin(async move {
            let sessions = store::list_of_agent(tx, agent, limit.min(50)).await?;
            if sessions.is_empty() {
                if store::approvals::delete_of_agent(tx, agent, limit).await? > 0 {
                    return Ok(true);
                }
                // What was told of its turns holds its words. No session is left to tell more.
                return Ok(tx.forget_events_of(agent.as_str(), limit).await? > 0);
            }
            // A turn that still runs notices by its next write.
            store::delete_sessions(tx, &sessions, limit).await?;
            Ok(true)
        })
    }
}
