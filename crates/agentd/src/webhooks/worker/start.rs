//! Begins the turns of deliveries, each as soon as it has a permit at its provider.

use std::sync::Arc;
use std::time::Duration;

use agentd_base::Backoff;
use agentd_store::{Lease, StoreError, Tx};
use serde::Deserialize;

use crate::agents::Agent;
use crate::engine::{Origin, OriginKind, SessionId, Sources, StartTurn, ToolUse};
use crate::runtime::{AppContext, HandlesItems, ItemFailure, WorkQueue};
use crate::webhooks::model::{Delivery, DeliveryStatus, Webhook, WebhookDeliveryId};
use crate::webhooks::prompt::tell;
use crate::webhooks::service::Webhooks;
use crate::webhooks::store::{self, deliveries};
use crate::webhooks::turns::TRANSCRIPT;

/// What cannot begin is tried so often, over about an hour and a half.
const MAX_ATTEMPTS: u32 = 8;
const BACKOFF: Backoff =
    Backoff { base: Duration::from_secs(10), multiplier: 3.0, cap: Duration::from_secs(30 * 60), jitter: 0.2 };

/// Deliveries of one webhook that wait for a permit here, so that a busy one leaves room for the others. A claim may
/// take it to twice as many, a quarter of all.
const MAX_HELD_OF_WEBHOOK: usize = 16;

/// The worker behind turns of webhooks.
#[derive(Debug, Clone)]
pub(crate) struct StartTurns(pub Webhooks);

type Failure = ItemFailure<DeliveryStatus>;

#[derive(Deserialize)]
pub(crate) struct Payload {
    delivery_id: WebhookDeliveryId,
}

impl HandlesItems for StartTurns {
    type Item = Payload;
    type End = DeliveryStatus;
    const WORKER: &'static str = "webhooks.start";
    const LEASE: Duration = Duration::from_secs(15);
    const LANE_LIMIT: usize = MAX_HELD_OF_WEBHOOK;

    fn context(&self) -> &AppContext {
        self.0.context()
    }

    fn queue(&self) -> &WorkQueue {
        self.0.queue()
    }

    /// Begins the turn of a delivery when there is a permit for it. The end of the queue's item, the delivery's row
    /// and the session are one transaction.
    async fn handle(&self, lease: &Lease, Payload { delivery_id }: &Payload) -> Result<(), Failure> {
        let webhooks = &self.0;
        let Some((webhook, _)) = find_work(webhooks, delivery_id).await? else {
            return self.complete(lease).await;
        };
        let agent = agent_of(webhooks, &webhook).await?;
        let permit = webhooks.engine().background_permit(webhook.id.as_str(), &agent, None);
        let permit = self.hold(lease, permit).await?;
        // Anything may have changed while it waited.
        let Some((webhook, delivery)) = find_work(webhooks, delivery_id).await? else {
            return self.complete(lease).await;
        };
        let agent = agent_of(webhooks, &webhook).await?;
        let request = deliveries::find_request(&mut webhooks.context().db.read().await?, &delivery.id).await?;
        let request =
            request.ok_or_else(|| Failure::last(DeliveryStatus::Failed, "its request is not kept any more"))?;
        let told = tell(&webhook, &request, &webhooks.context().entropy);
        let turn = StartTurn {
            origin: Origin::of(OriginKind::Webhook),
            message_id: Some(delivery.id.to_string()),
            transcript: Some(TRANSCRIPT),
            tools: ToolUse::reading_and(&webhook.tools),
            recall: Some(told.question),
            sources: Sources::of(&format!("a request to the webhook `{}`", webhook.name)),
            ..StartTurn::aside(Arc::clone(&agent), told.history)
        };
        let (held, agent_id) = (lease.clone(), agent.id.clone());
        let open = async move |tx: &mut Tx, session: &SessionId| {
            tx.complete(&held).await?;
            if deliveries::update_started(tx, &delivery.id, &agent_id, session.as_str()).await? {
                return Ok(());
            }
            Err(Failure::last(DeliveryStatus::Cancelled, "it was begun or ended already"))
        };
        let session = webhooks.engine().start(turn, open).await?;
        webhooks.engine().hold_until_let_go(permit, session);
        Ok(())
    }

    async fn record_failure(
        &self,
        tx: &mut Tx,
        lease: &Lease,
        Payload { delivery_id }: &Payload,
        failure: &Failure,
    ) -> Result<(), StoreError> {
        let error = &failure.message;
        let is_last = failure.code == Some("agent_not_found") || lease.attempt >= MAX_ATTEMPTS;
        let end = failure.end.or(is_last.then_some(DeliveryStatus::Failed));
        tracing::info!(delivery = %delivery_id, error, is_last = end.is_some(), "the turn of a delivery did not begin");
        if let Some(status) = end {
            tx.complete(lease).await?;
            return deliveries::update_given_up(tx, delivery_id, status, error).await;
        }
        failure.retry(tx, lease, &BACKOFF).await?;
        deliveries::update_delayed(tx, delivery_id, error).await
    }
}

/// The delivery that waits and its webhook; `None` when nothing is left to do.
async fn find_work(webhooks: &Webhooks, id: &WebhookDeliveryId) -> Result<Option<(Webhook, Delivery)>, StoreError> {
    let mut read = webhooks.context().db.read().await?;
    let delivery = deliveries::find_delivery(&mut read, id).await?;
    let Some(delivery) = delivery.filter(|delivery| delivery.status == DeliveryStatus::Pending) else {
        return Ok(None);
    };
    let Some(webhook) = store::find_webhook(&mut read, &delivery.webhook_id).await? else { return Ok(None) };
    Ok(Some((webhook, delivery)))
}

async fn agent_of(webhooks: &Webhooks, webhook: &Webhook) -> Result<Arc<Agent>, Failure> {
    let cancelled = |reason| Failure::last(DeliveryStatus::Cancelled, reason);
    if !webhook.enabled {
        return Err(cancelled("the webhook was switched off before the turn began; replay it if it is wanted"));
    }
    let Some(agent) = &webhook.agent_id else {
        return Err(cancelled("the webhook named no agent any more before the turn began"));
    };
    Ok(webhooks.agents().get(agent.as_str()).await?)
}
