//! Deliveries, dead letters and queue statistics.

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

/// Delivery of an event to a receiver.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = HookDelivery)]
pub(super) struct DeliveryView {
    id: HookDeliveryId,
    hook_id: HookId,
    /// Id of the event that is delivered.
    event_id: String,
    /// Type of the event; `test.notification` for a test delivery.
    event_type: String,
    status: DeliveryStatus,
    /// Number of completed attempts since the last manual retry.
    attempt_count: u32,
    /// Time of the next attempt; null if no attempt is scheduled.
    #[schema(required)]
    next_attempt_at: Option<Timestamp>,
    /// HTTP status of the last response; null if no response was received.
    #[schema(required)]
    response_status: Option<u32>,
    /// Duration of the last attempt, in milliseconds; null before the first attempt.
    #[schema(required)]
    duration_ms: Option<u64>,
    /// Error of the last attempt, or the reason the delivery was dead-lettered; null if there was no error.
    #[schema(required)]
    error: Option<String>,
    /// Time at which the delivery was queued.
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

/// Number of deliveries in each state. Completed deliveries are retained for a limited time.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = HookDeliveryCounts)]
pub(super) struct CountsView {
    /// Number of deliveries waiting for the first attempt after queueing or a retry.
    pending: u64,
    /// Number of deliveries being sent.
    processing: u64,
    /// Number of retained deliveries that succeeded.
    success: u64,
    /// Number of deliveries waiting for another attempt.
    failed: u64,
    /// Number of retained dead letters.
    dead_letter: u64,
}

impl From<DeliveryCounts> for CountsView {
    fn from(counts: DeliveryCounts) -> Self {
        let DeliveryCounts { pending, processing, success, failed, dead_letter } = counts;
        Self { pending, processing, success, failed, dead_letter }
    }
}

/// Page of deliveries, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct HookDeliveryList {
    /// Deliveries of this page.
    deliveries: Vec<DeliveryView>,
    /// Counts of all deliveries of the hook.
    stats: CountsView,
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

/// List hook deliveries
///
/// Returns the deliveries of a hook, newest first, with counts by state.
#[utoipa::path(
    get, path = "/api/hooks/{id}/deliveries", tag = "hooks", params(("id" = String, Path, description = "Hook id"), DeliveryQuery),
    responses((status = 200, body = HookDeliveryList), (status = 404, body = ErrorBody, description = "Hook not found")),
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

/// A delivery with its payload.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct HookDeliveryDetail {
    #[serde(flatten)]
    delivery: DeliveryView,
    /// Event as sent to the receiver.
    #[schema(value_type = Object)]
    payload: Value,
}

/// Get a hook delivery
///
/// Returns the delivery with the event that it sends.
#[utoipa::path(
    get, path = "/api/hooks/{id}/deliveries/{delivery_id}", tag = "hooks",
    params(
        ("id" = String, Path, description = "Hook id"),
        ("delivery_id" = String, Path, description = "Delivery id"),
    ),
    responses((status = 200, body = HookDeliveryDetail), (status = 404, body = ErrorBody, description = "Delivery not found")),
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

/// Retry a hook delivery
///
/// Requeues a failed or dead-lettered delivery for immediate sending, and resets its attempt count.
#[utoipa::path(
    post, path = "/api/hooks/{id}/deliveries/{delivery_id}/retry", tag = "hooks",
    params(
        ("id" = String, Path, description = "Hook id"),
        ("delivery_id" = String, Path, description = "Delivery id"),
        IdempotencyKey,
    ),
    responses(
        (status = 200, body = DeliveryView),
        (status = 404, body = ErrorBody, description = "Delivery not found"),
        (status = 409, body = ErrorBody, description = "The delivery is neither `failed` nor `dead_letter`, or its hook was deleted"),
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

/// Test a hook delivery
///
/// Queues a `test.notification` event for the hook's URL. The delivery waits while the hook is disabled.
#[utoipa::path(
    post, path = "/api/hooks/{id}/test-delivery", tag = "hooks",
    params(("id" = String, Path, description = "Hook id"), IdempotencyKey),
    responses(
        (status = 202, body = DeliveryView),
        (status = 404, body = ErrorBody, description = "Hook not found"),
        (status = 409, body = ErrorBody, description = "The hook is not an HTTP hook"),
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

/// Delivery queue statistics of all hooks.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct QueueStats {
    /// Number of deliveries in each state.
    stats: CountsView,
}

/// Get delivery queue statistics
///
/// Returns the number of deliveries of all hooks in each state.
#[utoipa::path(
    get, path = "/api/hooks/deliveries/queue-stats", tag = "hooks", responses((status = 200, body = QueueStats)),
)]
pub(super) async fn get_queue_stats(State(hooks): State<Hooks>) -> Answer<QueueStats> {
    Ok(Json(QueueStats { stats: hooks.queue_stats().await?.into() }))
}

/// Page of dead letters, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct DeadLetterList {
    /// Dead letters of this page.
    deliveries: Vec<DeliveryView>,
    /// Total number of matches on all pages.
    total: u64,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct DeadLetterQuery {
    /// Returns only dead letters of this hook. Default: all hooks.
    hook_id: Option<String>,
    /// Maximum number of dead letters to return, 1 to 200. Default: 50.
    #[param(minimum = 1, maximum = 200, default = json!(PageLimits::default().default))]
    limit: Option<i64>,
    /// Number of dead letters to skip. Default: 0.
    #[param(minimum = 0, default = 0)]
    offset: Option<i64>,
}

/// List dead letters
///
/// Returns dead-lettered deliveries, newest first. They are retained for 30 days. Dead letters of deleted hooks are
/// included but cannot be retried.
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
pub(super) struct DeadLetterSelection {
    /// Selects only dead letters of this hook. Default: all hooks.
    hook_id: Option<String>,
}

/// Result of retrying dead letters.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct DeadLettersRetried {
    /// Number of requeued dead letters.
    retried: u64,
}

/// Retry all dead letters
///
/// Requeues all dead letters, of one hook or of all hooks. Dead letters of deleted hooks are skipped and not counted.
#[utoipa::path(
    post, path = "/api/hooks/deliveries/dead-letters/retry", tag = "hooks", params(DeadLetterSelection, IdempotencyKey),
    responses((status = 200, body = DeadLettersRetried)),
)]
pub(super) async fn retry_dead_letters(
    State(hooks): State<Hooks>,
    once: IdempotencyKey,
    Query(query): Query<DeadLetterSelection>,
) -> Answer<DeadLettersRetried> {
    let recorder = record_once(&once, StatusCode::OK, |retried: &u64| DeadLettersRetried { retried: *retried });
    let retried = hooks.retry_dead_letters(query.hook_id.map(HookId::from), recorder).await?;
    Ok(Json(DeadLettersRetried { retried }))
}

/// Result of deleting dead letters.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct DeadLettersDeleted {
    /// Number of deleted dead letters.
    deleted: u64,
}

/// Delete all dead letters
///
/// Permanently deletes all dead letters, of one hook or of all hooks.
#[utoipa::path(
    delete, path = "/api/hooks/deliveries/dead-letters", tag = "hooks", params(DeadLetterSelection),
    responses((status = 200, body = DeadLettersDeleted)),
)]
pub(super) async fn delete_dead_letters(
    State(hooks): State<Hooks>,
    Query(query): Query<DeadLetterSelection>,
) -> Answer<DeadLettersDeleted> {
    let deleted = hooks.delete_dead_letters(query.hook_id.map(HookId::from)).await?;
    Ok(Json(DeadLettersDeleted { deleted }))
}
