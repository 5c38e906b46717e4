//! Deletes the sessions of a deleted agent.

use agentd_store::{StoreError, Tx};
use futures_util::future::{BoxFuture, LocalBoxFuture, join_all};

use crate::agents::{AgentDataOwner, AgentDataPhase, AgentId};
use crate::engine::live::Stop;
use crate::engine::service::{CANCEL_TIMEOUT, Engine};
use crate::engine::store;

const DELETED: &str = "the agent was deleted";

impl AgentDataOwner for Engine {
    fn name(&self) -> &'static str {
        "sessions"
    }

    fn phase(&self) -> AgentDataPhase {
        AgentDataPhase::Sessions
    }

    fn hide<'t>(&'t self, tx: &'t mut Tx, agent: &'t AgentId) -> LocalBoxFuture<'t, Result<(), StoreError>> {
        Box::pin(async move {
            // Cancelled here because the end of a parked turn comes later.
            store::approvals::cancel_of_agent(tx, agent, DELETED).await?;
            store::cancel_of_agent(tx, agent).await
        })
    }

    fn after_hide<'t>(&'t self, agent: &'t AgentId) -> BoxFuture<'t, ()> {
        Box::pin(async move {
            let turns = self.inner().live.list_of_agent(agent);
            for live in &turns {
                live.stop(Stop::Cancel);
            }
            if tokio::time::timeout(CANCEL_TIMEOUT, join_all(turns.iter().map(|live| live.ended()))).await.is_err() {
                tracing::warn!(%agent, "turns of a deleted agent are still running");
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
                // Published events of its turns contain its text. With no session left, no more are published.
                return Ok(tx.delete_agent_events(agent.as_str(), limit).await? > 0);
            }
            // A turn that still runs fails at its next write.
            store::delete_sessions(tx, &sessions, limit).await?;
            Ok(true)
        })
    }
}
