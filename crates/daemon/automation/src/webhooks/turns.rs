//! What webhooks hear of: turns that end, and agents that go.

use agentd_engine::agents::{AgentId, OwnsAgentData};
use agentd_engine::engine::{Reply, SessionStatus, Settled, TurnSink};
use agentd_store::{StoreError, Tx};
use futures_util::future::LocalBoxFuture;

use super::model::{DeliveryStatus, WebhookDeliveryId};
use super::service::Webhooks;
use super::store::{deliveries, disable_of_agent};

/// The name under which replies find back to their deliveries.
pub(super) const TRANSCRIPT: &str = "webhook";
/// Of a longer answer the beginning is kept; the turn's log has the whole for a day.
const MAX_OUTPUT_BYTES: usize = 64 * 1024;
const AGENT_DELETED: &str = "its agent was deleted; name another one and switch it on";

fn ended(status: SessionStatus) -> Option<DeliveryStatus> {
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
        TRANSCRIPT
    }

    fn settle<'t>(&'t self, tx: &'t mut Tx, reply: &'t Reply) -> LocalBoxFuture<'t, Result<Settled, StoreError>> {
        Box::pin(async move {
            // A turn of ours calls its delivery the reply's message.
            let (Some(delivery), Some(status)) = (reply.message_id.as_deref(), ended(reply.status)) else {
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

impl OwnsAgentData for Webhooks {
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
