//! The endpoint that receives requests.

use std::time::Duration;

use agentd_web::{ApiError, ApiResult, ErrorBody, Json, Path, RawBody};
use axum::extract::State;
use http::{HeaderMap, StatusCode};
use serde::Serialize;
use utoipa::ToSchema;

use crate::webhooks::error::WebhookError;
use crate::webhooks::model::{WebhookDeliveryId, WebhookId};
use crate::webhooks::service::{ReceivedRequest, Webhooks};

/// `Retry-After` of a response while the backlog is too large.
const OVERLOAD_RETRY_AFTER: Duration = Duration::from_secs(30);

/// An accepted request.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct AcceptedDelivery {
    /// Id of the stored delivery.
    pub(super) delivery_id: WebhookDeliveryId,
}

pub(super) fn refusal(error: WebhookError) -> ApiError {
    let is_overloaded = matches!(error, WebhookError::Overloaded { .. });
    let refusal = ApiError::from(error);
    if is_overloaded { refusal.with_retry_after(OVERLOAD_RETRY_AFTER) } else { refusal }
}

/// Receive a signed request
///
/// Requires a signature instead of a credential: `X-Svc-Signature`, the three headers of Standard Webhooks, or both,
/// all of which must be valid. The body may have any content of up to 2 MiB; the response follows once the delivery is
/// stored. A message id (`webhook-id`, `X-Svc-Delivery`, `X-GitHub-Delivery`, `X-Gitlab-Event-UUID` or
/// `Idempotency-Key`) repeated within a day returns the same delivery, and an `Idempotency-Key` is valid for one body.
#[utoipa::path(post, path = "/api/webhooks/{webhook_id}/receive", operation_id = "receive_webhook", tag = "webhooks",
    params(
        ("webhook_id" = String, Path, description = "Webhook id"),
        ("X-Svc-Signature" = Option<String>, Header,
            description = "`sha256=` and the hex of HMAC-SHA256 over the raw body under the secret"),
        ("webhook-id" = Option<String>, Header, description = "Standard Webhooks: message id"),
        ("webhook-timestamp" = Option<String>, Header,
            description = "Standard Webhooks: Unix time in seconds, at most five minutes off"),
        ("webhook-signature" = Option<String>, Header,
            description = "Standard Webhooks: `v1,` and the base64 of HMAC-SHA256 over `id.timestamp.body`"),
    ),
    request_body(description = "Content of the request", content((serde_json::Value = "application/json"), (String = "*/*"))),
    responses((status = 202, body = AcceptedDelivery),
        (status = 401, body = ErrorBody, description = "The signature is missing, invalid or too old"),
        (status = 409, body = ErrorBody,
            description = "The webhook is disabled, or the `Idempotency-Key` was used with another body"),
        (status = 429, body = ErrorBody, description = "Too many requests"),
        (status = 503, body = ErrorBody, description = "The backlog is too large, or the database is unavailable")))]
pub(super) async fn receive_webhook(
    State(webhooks): State<Webhooks>,
    Path(id): Path<WebhookId>,
    headers: HeaderMap,
    RawBody(body): RawBody,
) -> ApiResult<(StatusCode, Json<AcceptedDelivery>)> {
    let received = webhooks.receive(&id, ReceivedRequest { headers, body }).await;
    let delivery_id = received.map_err(refusal)?;
    Ok((StatusCode::ACCEPTED, Json(AcceptedDelivery { delivery_id })))
}
