//! Listing and replaying deliveries.

use agentd_base::Page;
use agentd_store::{Read, Recorder, Tx};

use super::Webhooks;
use super::receive::{NewDelivery, store_delivery};
use crate::webhooks::error::WebhookError;
use crate::webhooks::model::{Delivery, DeliveryStatus, StoredRequest, WebhookDeliveryId, WebhookId};
use crate::webhooks::store::deliveries;

impl Webhooks {
    /// Returns a page of a webhook's deliveries, newest first, and the total number of matches.
    ///
    /// # Errors
    /// `NotFound`, or a store error.
    pub async fn list_deliveries(
        &self,
        id: &WebhookId,
        status: Option<DeliveryStatus>,
        page: Page,
    ) -> Result<(Vec<Delivery>, u64), WebhookError> {
        self.find_cached(id).await?;
        let mut read = self.0.context.db.read_snapshot().await?;
        Ok(deliveries::list_deliveries(&mut read, id, status, page).await?)
    }

    /// Returns a delivery with its request.
    ///
    /// # Errors
    /// `NotFound`, `DeliveryNotFound`, or a store error.
    pub async fn get_delivery(
        &self,
        id: &WebhookId,
        delivery: &WebhookDeliveryId,
    ) -> Result<(Delivery, StoredRequest), WebhookError> {
        self.find_cached(id).await?;
        find_delivery_of_webhook(&mut self.0.context.db.read_snapshot().await?, id, delivery).await
    }

    /// Creates a new delivery of the same request, with a new event, and a new turn if the webhook names an agent.
    ///
    /// # Errors
    /// `NotFound`, `DeliveryNotFound`, `Disabled`, `Overloaded`, or a store error.
    pub async fn replay(
        &self,
        id: &WebhookId,
        delivery: &WebhookDeliveryId,
        recorder: Recorder<Delivery>,
    ) -> Result<Delivery, WebhookError> {
        let known = self.find_cached(id).await?;
        if !known.webhook.enabled {
            return Err(WebhookError::Disabled);
        }
        self.0.admission.check_backlog(&self.0.context).await?;
        let (replayed, request) =
            find_delivery_of_webhook(&mut self.0.context.db.read_snapshot().await?, id, delivery).await?;
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
        self.mark_for_trimming(id);
        Ok(stored)
    }
}

async fn find_delivery_of_webhook(
    read: &mut Read,
    id: &WebhookId,
    delivery: &WebhookDeliveryId,
) -> Result<(Delivery, StoredRequest), WebhookError> {
    let found = deliveries::find_delivery(read, delivery).await?.filter(|found| found.webhook_id == *id);
    let found = found.ok_or_else(|| WebhookError::delivery_not_found(delivery.as_str()))?;
    let request = deliveries::find_request(read, &found.id).await?;
    Ok((found, request.ok_or_else(|| WebhookError::delivery_not_found(delivery.as_str()))?))
}
