//! Handling of the end of a turn, in the transaction that ends it, and of the deletion of an agent.

use agentd_base::DomainError;
use agentd_engine::agents::{AgentDataOwner, AgentId};
use agentd_engine::engine::{Reply, Settled, TurnSink};
use agentd_store::{StoreError, Tx};
use futures_util::future::LocalBoxFuture;

use super::model::{Outcome, ProactiveTurn, ProactiveTurnId, TurnStatus};
use super::service::Proactive;
use super::store;
use crate::notify::{Notification, NotifyError, Target};

/// Name of the turn sink for proactive turns.
pub(super) const TURN_SINK: &str = "proactive";

impl TurnSink for Proactive {
    fn name(&self) -> &'static str {
        TURN_SINK
    }

    fn settle<'t>(&'t self, tx: &'t mut Tx, reply: &'t Reply) -> LocalBoxFuture<'t, Result<Settled, StoreError>> {
        Box::pin(async move {
            // Proactive turns use the id of their row as the message id.
            let (Some(id), Some(outcome)) = (reply.message_id.as_deref(), Outcome::of_reply(reply)) else {
                return Ok(Settled::Ended);
            };
            let id = ProactiveTurnId::from(id);
            if store::end_turn(tx, &id, &outcome).await?
                && outcome.status == TurnStatus::Success
                && let Some(output) = &outcome.output
                && let Some(turn) = store::find_turn(tx, &id).await?
            {
                self.send(tx, &turn, output).await?;
            }
            Ok(Settled::Ended)
        })
    }
}

impl Proactive {
    async fn send(&self, tx: &mut Tx, turn: &ProactiveTurn, output: &str) -> Result<(), StoreError> {
        // Validated when it was saved.
        let Some(target) = self.settings().proactive().delivery.as_deref().and_then(|text| text.parse::<Target>().ok())
        else {
            return Ok(());
        };
        let message = Notification::new(target, &turn.subject, output)
            .idempotency_key(format!("proactive:{}", turn.id))
            .agent(turn.agent_id.as_str());
        match self.notify().enqueue(tx, &message).await {
            Ok(_) => Ok(()),
            Err(NotifyError::Store(error)) => Err(error),
            // The turn has ended regardless, so the failure is only logged.
            Err(error) => {
                tracing::error!(turn = %turn.id, code = error.code(), %error, "failed to enqueue proactive message");
                Ok(())
            }
        }
    }
}

impl AgentDataOwner for Proactive {
    fn name(&self) -> &'static str {
        "proactive"
    }

    /// Does nothing: the engine cancels the turns, and they are hidden together with the agent.
    fn hide<'t>(&'t self, _tx: &'t mut Tx, _agent: &'t AgentId) -> LocalBoxFuture<'t, Result<(), StoreError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn purge<'t>(
        &'t self,
        tx: &'t mut Tx,
        agent: &'t AgentId,
        limit: u32,
    ) -> LocalBoxFuture<'t, Result<bool, StoreError>> {
        Box::pin(async move { Ok(store::forget_agent(tx, agent, limit).await? > 0) })
    }
}
