//! Handling of completed turns and deleted agents.

use agentd_engine::agents::{AgentDataOwner, AgentId};
use agentd_engine::engine::{Reply, SessionStatus, Settled, TurnSink};
use agentd_store::{StoreError, Tx};
use futures_util::future::LocalBoxFuture;

use super::model::{DeliveryStatus, WebhookDeliveryId};
use super::service::Webhooks;
use super::store::{deliveries, disable_of_agent};

/// Name of the turn sink that routes replies to their deliveries.
pub(super) const TURN_SINK: &str = "webhook";
/// Maximum size of a stored output, in bytes. The session log retains the full output for one day.
const MAX_OUTPUT_BYTES: usize = 64 * 1024;
const AGENT_DELETED: &str = "the agent was deleted; set another agent and enable the webhook";

/// Returns the delivery status for a completed turn, or `None` while it is running.
fn final_status(status: SessionStatus) -> Option<DeliveryStatus> {
    match status {
        SessionStatus::Running => None,
        SessionStatus::Done => Some(DeliveryStatus::Success),
        SessionStatus::Failed => Some(DeliveryStatus::Failed),
        SessionStatus::Cancelled => Some(DeliveryStatus::Cancelled),
        SessionStatus::Interrupted => Some(DeliveryStatus::Interrupted),
    }
}

impl TurnSink for Webhooks {
    fn name(&self) -> &'static str {
        TURN_SINK
    }

    fn settle<'t>(&'t self, tx: &'t mut Tx, reply: &'t Reply) -> LocalBoxFuture<'t, Result<Settled, StoreError>> {
        Box::pin(async move {
            // Turns of webhooks use the delivery id as the message id.
            let (Some(delivery), Some(status)) = (reply.message_id.as_deref(), final_status(reply.status)) else {
                return Ok(Settled::Ended);
            };
            let output = &reply.content[..reply.content.floor_char_boundary(MAX_OUTPUT_BYTES)];
            let output = (!output.is_empty()).then_some(output);
            let error = reply.error.as_ref().map(|error| format!("{}: {}", error.code, error.message));
            deliveries::update_ended(tx, &WebhookDeliveryId::from(delivery), status, output, error.as_deref()).await?;
            Ok(Settled::Ended)
        })
    }
}

impl AgentDataOwner for Webhooks {
    fn name(&self) -> &'static str {
        "webhooks"
    }

    fn hide<'t>(&'t self, tx: &'t mut Tx, agent: &'t AgentId) -> LocalBoxFuture<'t, Result<(), StoreError>> {
        Box::pin(disable_of_agent(tx, agent, AGENT_DELETED))
    }

    fn purge<'t>(
        &'t self,
        tx: &'t mut Tx,
        agent: &'t AgentId,
        limit: u32,
    ) -> LocalBoxFuture<'t, Result<bool, StoreError>> {
        Box::pin(async move { Ok(deliveries::forget_agent(tx, agent, limit).await? > 0) })
    }
}
