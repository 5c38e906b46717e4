//! Deliveries, dead letters, and the state of the queue.

use agentd_base::{Page, PageLimits, Problems, Timestamp};
use agentd_core::runtime::record_once;
use agentd_web::{Answer, ApiError, ApiResult, ErrorBody, IdempotencyKey, Json, Path, Query};
use axum::extract::State;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use crate::hooks::model::{Delivery, DeliveryStatus, HookDeliveryId, HookId};
use crate::hooks::service::{DeliveryCounts, Hooks};

/// One event on its way to one receiver.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = HookDelivery)]
pub(super) struct DeliveryView {
    id: HookDeliveryId,
    hook_id: HookId,
    event_id: String,
    event_type: String,
    status: DeliveryStatus,
    /// Attempts whose result is known, since the last retry by hand.
    attempt_count: u32,
    /// When it is tried next; null when it is not.
    #[schema(required)]
    next_attempt_at: Option<Timestamp>,
    /// What the receiver answered last.
    #[schema(required)]
    response_status: Option<u32>,
    /// Of the last attempt.
    #[schema(required)]
    duration_ms: Option<u64>,
    #[schema(required)]
    error: Option<String>,
    created_at: Timestamp,
    updated_at: Timestamp,
}

impl From<&Delivery> for DeliveryView {
    fn from(delivery: &Delivery) -> Self {
        Self {
            id: delivery.id.clone(),
            hook_id: delivery.hook_id.clone(),
            event_id: delivery.event_id.clone(),
            event_type: delivery.event_type.clone(),
            status: delivery.status,
            attempt_count: delivery.attempt_count,
            next_attempt_at: delivery.next_attempt_at,
            response_status: delivery.response_status,
            duration_ms: delivery.duration_ms,
            error: delivery.error.clone(),
            created_at: delivery.created_at,
            updated_at: delivery.updated_at,
        }
    }
}

/// How many deliveries are in each state. What ended is kept for a bounded time.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = HookDeliveryCounts)]
pub(super) struct CountsView {
    pending: u64,
    processing: u64,
    success: u64,
    failed: u64,
    dead_letter: u64,
}

impl From<DeliveryCounts> for CountsView {
    fn from(counts: DeliveryCounts) -> Self {
        let DeliveryCounts { pending, processing, success, failed, dead_letter } = counts;
        Self { pending, processing, success, failed, dead_letter }
    }
}

/// The newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct HookDeliveryList {
    deliveries: Vec<DeliveryView>,
    /// Of all of the hook's deliveries.
    stats: CountsView,
    /// How many match, whatever the page.
    total: u64,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct DeliveryQuery {
    /// Only those in this state.
    #[param(inline)]
    status: Option<DeliveryStatus>,
    #[param(minimum = 1, maximum = 200, default = json!(PageLimits::default().default))]
    limit: Option<i64>,
    #[param(minimum = 0, default = 0)]
    offset: Option<i64>,
}

/// What a hook delivered or is to deliver, the newest first
#[utoipa::path(
    get, path = "/api/hooks/{id}/deliveries", tag = "hooks", params(("id" = String, Path, description = "The hook"), DeliveryQuery),
    responses((status = 200, body = HookDeliveryList), (status = 404, body = ErrorBody)),
)]
pub(super) async fn list_hook_deliveries(
    State(hooks): State<Hooks>,
    Path(id): Path<HookId>,
    Query(query): Query<DeliveryQuery>,
) -> Answer<HookDeliveryList> {
    let page = checked(query.limit, query.offset)?;
    let (deliveries, total, counts) = hooks.deliveries(&id, query.status, page).await?;
    let deliveries = deliveries.iter().map(DeliveryView::from).collect();
    Ok(Json(HookDeliveryList { deliveries, stats: counts.into(), total }))
}

/// A delivery with what it sends.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct HookDeliveryDetail {
    #[serde(flatten)]
    delivery: DeliveryView,
    /// The event, as the receiver gets it.
    #[schema(value_type = Object)]
    payload: Value,
}

/// One delivery, with the event that it sends
#[utoipa::path(
    get, path = "/api/hooks/{id}/deliveries/{delivery_id}", tag = "hooks",
    responses((status = 200, body = HookDeliveryDetail), (status = 404, body = ErrorBody)),
)]
pub(super) async fn get_hook_delivery(
    State(hooks): State<Hooks>,
    Path((id, delivery_id)): Path<(HookId, HookDeliveryId)>,
) -> Answer<HookDeliveryDetail> {
    let (delivery, payload) = hooks.delivery(&id, &delivery_id).await?;
    Ok(Json(HookDeliveryDetail { delivery: (&delivery).into(), payload }))
}

fn checked(limit: Option<i64>, offset: Option<i64>) -> Result<Page, ApiError> {
    let mut problems = Problems::new();
    let page = Page::checked(limit, offset, PageLimits::default(), &mut problems);
    problems.into_result().map_err(ApiError::invalid)?;
    Ok(page)
}

/// Send a delivery again that failed or was given up
///
/// At once, with its attempts allowed anew.
#[utoipa::path(
    post, path = "/api/hooks/{id}/deliveries/{delivery_id}/retry", tag = "hooks",
    params(IdempotencyKey),
    responses(
        (status = 200, body = DeliveryView),
        (status = 404, body = ErrorBody),
        (status = 409, body = ErrorBody, description = "It is neither failed nor a dead_letter, or its hook was deleted"),
    ),
)]
pub(super) async fn retry_hook_delivery(
    State(hooks): State<Hooks>,
    once: IdempotencyKey,
    Path((id, delivery_id)): Path<(HookId, HookDeliveryId)>,
) -> Answer<DeliveryView> {
    let recorder = record_once(&once, StatusCode::OK, |delivery: &Delivery| DeliveryView::from(delivery));
    Ok(Json(DeliveryView::from(&hooks.retry(id, delivery_id, recorder).await?)))
}

/// Queue an event `test.notification` for a hook's URL
///
/// While the hook is switched off, it waits.
#[utoipa::path(
    post, path = "/api/hooks/{id}/test-delivery", tag = "hooks",
    params(("id" = String, Path, description = "The hook"), IdempotencyKey),
    responses(
        (status = 202, body = DeliveryView),
        (status = 404, body = ErrorBody),
        (status = 409, body = ErrorBody, description = "It is no http hook"),
    ),
)]
pub(super) async fn test_hook_delivery(
    State(hooks): State<Hooks>,
    once: IdempotencyKey,
    Path(id): Path<HookId>,
) -> ApiResult<(StatusCode, Json<DeliveryView>)> {
    let recorder = record_once(&once, StatusCode::ACCEPTED, |delivery: &Delivery| DeliveryView::from(delivery));
    let delivery = hooks.test_delivery(id, recorder).await?;
    Ok((StatusCode::ACCEPTED, Json(DeliveryView::from(&delivery))))
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct QueueStats {
    stats: CountsView,
}

/// How many deliveries of all hooks are in each state
#[utoipa::path(
    get, path = "/api/hooks/deliveries/queue-stats", tag = "hooks", responses((status = 200, body = QueueStats)),
)]
pub(super) async fn get_queue_stats(State(hooks): State<Hooks>) -> Answer<QueueStats> {
    Ok(Json(QueueStats { stats: hooks.queue_stats().await?.into() }))
}

/// The newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct DeadLetterList {
    deliveries: Vec<DeliveryView>,
    /// How many match, whatever the page.
    total: u64,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct DeadLetterQuery {
    /// Only those of this hook.
    hook_id: Option<String>,
    #[param(minimum = 1, maximum = 200, default = json!(PageLimits::default().default))]
    limit: Option<i64>,
    #[param(minimum = 0, default = 0)]
    offset: Option<i64>,
}

/// Deliveries that were given up, the newest first
///
/// Kept for 30 days. Those of deleted hooks are among them, and cannot be retried.
#[utoipa::path(
    get, path = "/api/hooks/deliveries/dead-letters", tag = "hooks", params(DeadLetterQuery),
    responses((status = 200, body = DeadLetterList)),
)]
pub(super) async fn list_dead_letters(
    State(hooks): State<Hooks>,
    Query(query): Query<DeadLetterQuery>,
) -> Answer<DeadLetterList> {
    let page = checked(query.limit, query.offset)?;
    let hook = query.hook_id.map(HookId::from);
    let (deliveries, total) = hooks.dead_letters(hook.as_ref(), page).await?;
    Ok(Json(DeadLetterList { deliveries: deliveries.iter().map(DeliveryView::from).collect(), total }))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct OfHook {
    /// Only those of this hook.
    hook_id: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct DeadLettersRetried {
    retried: u64,
}

/// Send every dead letter again
///
/// Those of deleted hooks stay as they are, and do not count.
#[utoipa::path(
    post, path = "/api/hooks/deliveries/dead-letters/retry", tag = "hooks", params(OfHook, IdempotencyKey),
    responses((status = 200, body = DeadLettersRetried)),
)]
pub(super) async fn retry_dead_letters(
    State(hooks): State<Hooks>,
    once: IdempotencyKey,
    Query(query): Query<OfHook>,
) -> Answer<DeadLettersRetried> {
    let recorder = record_once(&once, StatusCode::OK, |retried: &u64| DeadLettersRetried { retried: *retried });
    let retried = hooks.retry_dead_letters(query.hook_id.map(HookId::from), recorder).await?;
    Ok(Json(DeadLettersRetried { retried }))
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct DeadLettersDeleted {
    deleted: u64,
}

/// Forget every dead letter
#[utoipa::path(
    delete, path = "/api/hooks/deliveries/dead-letters", tag = "hooks", params(OfHook),
    responses((status = 200, body = DeadLettersDeleted)),
)]
pub(super) async fn delete_dead_letters(
    State(hooks): State<Hooks>,
    Query(query): Query<OfHook>,
) -> Answer<DeadLettersDeleted> {
    let deleted = hooks.delete_dead_letters(query.hook_id.map(HookId::from)).await?;
    Ok(Json(DeadLettersDeleted { deleted }))
}
