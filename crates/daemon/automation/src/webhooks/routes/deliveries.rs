//! Deliveries of webhooks.

use agentd_base::{Page, PageLimits, Problems, Timestamp};
use agentd_core::runtime::record_once;
use agentd_engine::agents::AgentId;
use agentd_web::{ApiError, ApiResult, ErrorBody, IdempotencyKey, Json, Path, Query};
use axum::extract::State;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::{IntoParams, ToSchema};

use super::receive::{AcceptedDelivery, refusal};
use crate::webhooks::model::{
    BodyFormat, Delivery, DeliveryStatus, StoredRequest, WebhookDeliveryId, WebhookId, read_body,
};
use crate::webhooks::service::Webhooks;

/// An accepted request and its outcome.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = WebhookDelivery)]
pub(super) struct DeliveryView {
    id: WebhookDeliveryId,
    webhook_id: WebhookId,
    status: DeliveryStatus,
    /// Whether the delivery was created by a replay instead of a request.
    is_replay: bool,
    /// Delivery whose request this one replays; null if it is not a replay.
    replay_of: Option<WebhookDeliveryId>,
    /// Message id set by the sender; null if it sent none.
    message_id: Option<String>,
    /// Id of the `webhook.received` event.
    event_id: String,
    /// Size of the request body in bytes, up to 2 MiB.
    body_bytes: u64,
    /// Agent whose turn it started; null if it started none.
    agent_id: Option<AgentId>,
    /// Session of the turn; null if it started none. `GET /api/chat/sessions/{session_id}/stream` returns its log until
    /// one day after its end.
    session_id: Option<String>,
    /// Output of the agent; null if there is none or the agent was deleted. In lists truncated to 2,000 characters.
    output: Option<String>,
    /// Reason the turn failed or has not started yet; null if there was no error.
    error: Option<String>,
    /// Time at which the request was accepted.
    created_at: Timestamp,
    /// Time at which the turn started; null before that, or if it starts none.
    started_at: Option<Timestamp>,
    /// Time at which the delivery ended; null while the turn is pending or running.
    completed_at: Option<Timestamp>,
}

impl From<Delivery> for DeliveryView {
    fn from(delivery: Delivery) -> Self {
        Self {
            id: delivery.id,
            webhook_id: delivery.webhook_id,
            status: delivery.status,
            is_replay: delivery.replay_of.is_some(),
            replay_of: delivery.replay_of,
            message_id: delivery.message_id,
            event_id: delivery.event_id,
            body_bytes: delivery.body_bytes,
            agent_id: delivery.agent_id,
            session_id: delivery.session_id,
            output: delivery.output,
            error: delivery.error,
            created_at: delivery.created_at,
            started_at: delivery.started_at,
            completed_at: delivery.completed_at,
        }
    }
}

/// A delivery with its request.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = WebhookDeliveryWithRequest)]
pub(super) struct DeliveryWithRequest {
    #[serde(flatten)]
    delivery: DeliveryView,
    /// Headers by lowercase name, without credentials and signatures.
    #[schema(value_type = Object)]
    headers: Map<String, Value>,
    /// Representation of `body`.
    body_format: BodyFormat,
    /// Body as a JSON value, text or base64, according to `body_format`.
    body: Value,
}

impl From<(Delivery, StoredRequest)> for DeliveryWithRequest {
    fn from((delivery, request): (Delivery, StoredRequest)) -> Self {
        let (body_format, body) = read_body(request.header("content-type"), &request.body);
        Self { delivery: delivery.into(), headers: request.headers, body_format, body }
    }
}

/// Page of deliveries, newest first.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = WebhookDeliveryList)]
pub(super) struct DeliveryList {
    /// Deliveries of this page.
    deliveries: Vec<DeliveryView>,
    /// Total number of matches on all pages.
    total: u64,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct DeliveryQuery {
    /// Returns only deliveries in this state.
    #[param(inline)]
    status: Option<DeliveryStatus>,
    /// Maximum number of deliveries to return, 1 to 200. Default: 50.
    #[param(minimum = 1, maximum = 200, default = json!(PageLimits::default().default))]
    limit: Option<i64>,
    /// Number of deliveries to skip. Default: 0.
    #[param(minimum = 0, default = 0)]
    offset: Option<i64>,
}

/// List webhook deliveries
///
/// Returns the deliveries of a webhook, newest first. They are retained for 30 days, at most the newest 10,000 or 256
/// MiB per webhook.
#[utoipa::path(get, path = "/api/webhooks/{id}/deliveries", operation_id = "list_webhook_deliveries", tag = "webhooks",
    params(("id" = String, Path, description = "Webhook id"), DeliveryQuery),
    responses((status = 200, body = DeliveryList)))]
pub(super) async fn list_webhook_deliveries(
    State(webhooks): State<Webhooks>,
    Path(id): Path<WebhookId>,
    Query(query): Query<DeliveryQuery>,
) -> ApiResult<Json<DeliveryList>> {
    let mut problems = Problems::new();
    let page = Page::checked(query.limit, query.offset, PageLimits::default(), &mut problems);
    problems.into_result().map_err(ApiError::invalid)?;
    let (deliveries, total) = webhooks.list_deliveries(&id, query.status, page).await?;
    Ok(Json(DeliveryList { deliveries: deliveries.into_iter().map(DeliveryView::from).collect(), total }))
}

/// Get a webhook delivery
///
/// Returns the delivery with its request.
#[utoipa::path(get, path = "/api/webhooks/{id}/deliveries/{delivery_id}", operation_id = "get_webhook_delivery",
    tag = "webhooks",
    params(
        ("id" = String, Path, description = "Webhook id"),
        ("delivery_id" = String, Path, description = "Delivery id"),
    ),
    responses((status = 200, body = DeliveryWithRequest)))]
pub(super) async fn get_webhook_delivery(
    State(webhooks): State<Webhooks>,
    Path((id, delivery)): Path<(WebhookId, WebhookDeliveryId)>,
) -> ApiResult<Json<DeliveryWithRequest>> {
    Ok(Json(webhooks.get_delivery(&id, &delivery).await?.into()))
}

/// Replay a webhook delivery
///
/// Creates a new delivery of the same request, with a new event that has `is_replay` set. The agent that the webhook
/// currently names gets a new turn.
#[utoipa::path(post, path = "/api/webhooks/{id}/deliveries/{delivery_id}/replay",
    operation_id = "replay_webhook_delivery", tag = "webhooks",
    params(
        ("id" = String, Path, description = "Webhook id"),
        ("delivery_id" = String, Path, description = "Delivery id"),
        IdempotencyKey,
    ),
    responses((status = 202, body = AcceptedDelivery),
        (status = 409, body = ErrorBody, description = "The webhook is disabled")))]
pub(super) async fn replay_webhook_delivery(
    State(webhooks): State<Webhooks>,
    once: IdempotencyKey,
    Path((id, delivery)): Path<(WebhookId, WebhookDeliveryId)>,
) -> ApiResult<(StatusCode, Json<AcceptedDelivery>)> {
    let accepted = |created: &Delivery| AcceptedDelivery { delivery_id: created.id.clone() };
    let recorder = record_once(&once, StatusCode::ACCEPTED, accepted);
    let created = webhooks.replay(&id, &delivery, recorder).await.map_err(refusal)?;
    Ok((StatusCode::ACCEPTED, Json(accepted(&created))))
}
