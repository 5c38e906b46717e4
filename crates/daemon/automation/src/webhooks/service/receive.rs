//! Receiving requests.

use std::sync::Arc;

use agentd_core::rate_limit::Outcome;
use agentd_store::{EventId, NewEvent, NewItem, StoreError, Tx};
use bytes::Bytes;
use http::HeaderMap;
use serde_json::{Map, Value, json};

use super::Webhooks;
use crate::webhooks::error::WebhookError;
use crate::webhooks::model::QUEUE;
use crate::webhooks::model::{
    Delivery, DeliveryStatus, StoredRequest, Webhook, WebhookDeliveryId, WebhookId, is_stored_header, read_body,
};
use crate::webhooks::signature::{message_id, verify};
use crate::webhooks::store::deliveries;

/// Maximum size of a body included in the event, in bytes. A larger body is omitted.
const MAX_EVENT_BODY_BYTES: usize = 64 * 1024;
/// Maximum size of a stored header value, in bytes. Longer values are truncated.
const MAX_HEADER_BYTES: usize = 4 * 1024;
/// Maximum total size of the stored headers, in bytes.
const MAX_HEADERS_BYTES: usize = 16 * 1024;

/// A raw request to a webhook.
#[derive(Debug, Clone)]
pub struct ReceivedRequest {
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// A new delivery to store.
pub(super) struct NewDelivery {
    pub(super) webhook: Webhook,
    pub(super) message_id: Option<String>,
    pub(super) replay_of: Option<WebhookDeliveryId>,
    pub(super) request: StoredRequest,
}

impl Webhooks {
    /// Accepts a signed request and returns its delivery. A message repeated within a day returns the earlier delivery.
    ///
    /// # Errors
    /// `NotFound`, `Signature`, `Disabled`, `Invalid` message id, `KeyReused`, `TooFast`, `TooFastInAll`, `Overloaded`,
    /// or a store error.
    pub async fn receive(&self, id: &WebhookId, request: ReceivedRequest) -> Result<WebhookDeliveryId, WebhookError> {
        let received = self.try_receive(id, request).await;
        self.0.counts.count(match &received {
            Ok((_, true)) => Outcome::Accepted,
            Ok((_, false)) => Outcome::Repeated,
            Err(error) => error.outcome(),
        });
        received.map(|(delivery, _)| delivery)
    }

    /// Accepts a request. Returns the delivery, and whether it is new.
    async fn try_receive(
        &self,
        id: &WebhookId,
        request: ReceivedRequest,
    ) -> Result<(WebhookDeliveryId, bool), WebhookError> {
        let context = &self.0.context;
        let known = self.find_cached(id).await?;
        let now = context.clock.now();
        verify(known.secret.as_ref(), &request.headers, &request.body, now)?;
        if !known.webhook.enabled {
            return Err(WebhookError::Disabled);
        }
        let message = message_id(&request.headers)
            .map_err(|name| WebhookError::invalid(name, "must be 1 to 255 visible ASCII characters"))?;
        self.0.admission.admit(id, now)?;
        self.0.admission.check_backlog(context).await?;
        let new = NewDelivery {
            webhook: known.webhook.clone(),
            message_id: message.as_ref().map(|message| message.id.clone()),
            replay_of: None,
            request: StoredRequest { headers: stored_headers(&request.headers), body: request.body.to_vec() },
        };
        let (delivery, parts) = self.prepare(new);
        let stored = context
            .db
            .write(async move |tx: &mut Tx| {
                if let Some(message) = &message
                    && let Some(earlier) =
                        deliveries::claim_message(tx, &delivery.webhook_id, &message.key(), &delivery.id).await?
                {
                    if message.is_idempotency_key()
                        && let Some(first) = deliveries::find_request(tx, &earlier).await?
                        && first.body != parts.request.body
                    {
                        return Err(WebhookError::KeyReused);
                    }
                    return Ok((earlier, false));
                }
                // The webhook may have been deleted or disabled since the cache lookup.
                match crate::webhooks::store::find_webhook(tx, &delivery.webhook_id).await? {
                    None => return Err(WebhookError::not_found(delivery.webhook_id.as_str())),
                    Some(webhook) if !webhook.enabled => return Err(WebhookError::Disabled),
                    Some(_) => {}
                }
                store_delivery(tx, &delivery, &parts).await?;
                Ok((delivery.id.clone(), true))
            })
            .await?;
        self.mark_for_trimming(id);
        Ok(stored)
    }

    /// Builds the row of a new delivery and its related data.
    pub(super) fn prepare(&self, new: NewDelivery) -> (Delivery, Arc<DeliveryParts>) {
        let context = &self.0.context;
        let NewDelivery { webhook, message_id, replay_of, request } = new;
        let now = context.clock.now();
        let has_turn = webhook.agent_id.is_some();
        let delivery = Delivery {
            id: WebhookDeliveryId::generate(&context.ids),
            webhook_id: webhook.id.clone(),
            message_id,
            replay_of,
            event_id: String::new(),
            status: if has_turn { DeliveryStatus::Pending } else { DeliveryStatus::Received },
            body_bytes: request.body.len() as u64,
            agent_id: None,
            session_id: None,
            output: None,
            error: None,
            created_at: now,
            started_at: None,
            completed_at: (!has_turn).then_some(now),
        };
        let event = event_data(&webhook, &delivery, &request);
        let agent = webhook.agent_id.map(|agent| agent.to_string());
        (delivery, Arc::new(DeliveryParts { request, event, agent }))
    }
}

/// Data stored together with a delivery.
pub(super) struct DeliveryParts {
    request: StoredRequest,
    event: Value,
    agent: Option<String>,
}

/// Stores a delivery, its event, and the queue item that starts its turn.
pub(super) async fn store_delivery(
    tx: &mut Tx,
    delivery: &Delivery,
    parts: &DeliveryParts,
) -> Result<Delivery, StoreError> {
    let mut event = NewEvent::new("webhook.received", parts.event.clone());
    event.agent.clone_from(&parts.agent);
    let event_id: EventId = tx.emit(event).await?;
    let delivery = Delivery { event_id: event_id.to_string(), ..delivery.clone() };
    deliveries::insert_delivery(tx, &delivery, &parts.request).await?;
    if delivery.status == DeliveryStatus::Pending {
        tx.enqueue(NewItem {
            queue: QUEUE.to_owned(),
            // The part before the slash is the lane: one per webhook.
            dedup_key: Some(format!("{}/{}", delivery.webhook_id, delivery.id)),
            payload: json!({ "delivery_id": delivery.id }),
            run_at: delivery.created_at,
            // The worker limits the attempts.
            max_attempts: u32::MAX,
        })
        .await?;
    }
    Ok(delivery)
}

/// Builds the `data` of `webhook.received`.
fn event_data(webhook: &Webhook, delivery: &Delivery, request: &StoredRequest) -> Value {
    let (format, body) = read_body(request.header("content-type"), &request.body);
    let is_too_long = request.body.len() > MAX_EVENT_BODY_BYTES;
    json!({
        "webhook_id": webhook.id,
        "webhook_name": webhook.name,
        "delivery_id": delivery.id,
        "is_replay": delivery.replay_of.is_some(),
        "headers": request.headers,
        "body": if is_too_long { Value::Null } else { body },
        "body_format": format,
        "is_body_omitted": is_too_long,
    })
}

/// Selects and truncates the headers to store.
fn stored_headers(headers: &HeaderMap) -> Map<String, Value> {
    let mut stored = Map::new();
    let mut left = MAX_HEADERS_BYTES;
    for name in headers.keys().filter(|name| is_stored_header(name.as_str())) {
        let values: Vec<_> =
            headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect();
        let mut text = values.join(", ");
        text.truncate(text.floor_char_boundary(MAX_HEADER_BYTES));
        let bytes = name.as_str().len() + text.len();
        if bytes > left {
            break;
        }
        left -= bytes;
        stored.insert(name.as_str().to_owned(), Value::from(text));
    }
    stored
}
