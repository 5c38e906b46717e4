//! Deliveries: shown, and replayed.

use agentd_base::Page;
use agentd_store::{Read, Recorder, Tx};

use super::Webhooks;
use super::receive::{NewDelivery, store_delivery};
use crate::webhooks::error::WebhookError;
use crate::webhooks::model::{Delivery, DeliveryStatus, StoredRequest, WebhookDeliveryId, WebhookId};
use crate::webhooks::store::deliveries;

impl Webhooks {
    /// The newest first, and how many there are.
    ///
    /// # Errors
    /// `NotFound`, or the store's refusal.
    pub async fn list_deliveries(
        &self,
        id: &WebhookId,
        status: Option<DeliveryStatus>,
        page: Page,
    ) -> Result<(Vec<Delivery>, u64), WebhookError> {
        self.find_known(id).await?;
        let mut read = self.0.context.db.read_snapshot().await?;
        Ok(deliveries::list_deliveries(&mut read, id, status, page).await?)
    }

    /// One delivery with its request.
    ///
    /// # Errors
    /// `NotFound`, `DeliveryNotFound`, or the store's refusal.
    pub async fn get_delivery(
        &self,
        id: &WebhookId,
        delivery: &WebhookDeliveryId,
    ) -> Result<(Delivery, StoredRequest), WebhookError> {
        self.find_known(id).await?;
        find_in(&mut self.0.context.db.read_snapshot().await?, id, delivery).await
    }

    /// Makes a new delivery of the same request: another event, and another turn where the webhook names
    /// an agent.
    ///
    /// # Errors
    /// `NotFound`, `DeliveryNotFound`, `Disabled`, `Overloaded`, or the store's refusal.
    pub async fn replay(
        &self,
        id: &WebhookId,
        delivery: &WebhookDeliveryId,
        recorder: Recorder<Delivery>,
    ) -> Result<Delivery, WebhookError> {
        let known = self.find_known(id).await?;
        if !known.webhook.enabled {
            return Err(WebhookError::Disabled);
        }
        self.0.admission.check_backlog(&self.0.context).await?;
        let (replayed, request) = find_in(&mut self.0.context.db.read_snapshot().await?, id, delivery).await?;
        let new = NewDelivery {
            webhook: known.webhook.clone(),
            message_id: replayed.message_id,
            replay_of: Some(replayed.id),
            request,
        };
        let (delivery, parts) = self.prepare(new);
        let stored = self
            .0
            .context
            .db
            .write(async move |tx: &mut Tx| {
                let stored = store_delivery(tx, &delivery, &parts).await?;
                recorder.record(tx, &stored).await?;
                Ok::<_, WebhookError>(stored)
            })
            .await?;
        self.note_fed(id);
        Ok(stored)
    }
}

async fn find_in(
    read: &mut Read,
    id: &WebhookId,
    delivery: &WebhookDeliveryId,
) -> Result<(Delivery, StoredRequest), WebhookError> {
    let found = deliveries::find_delivery(read, delivery).await?.filter(|found| found.webhook_id == *id);
    let found = found.ok_or_else(|| WebhookError::no_delivery(delivery.as_str()))?;
    let request = deliveries::find_request(read, &found.id).await?;
    Ok((found, request.ok_or_else(|| WebhookError::no_delivery(delivery.as_str()))?))
}
