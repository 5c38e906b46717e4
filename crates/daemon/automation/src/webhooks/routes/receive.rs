//! Where the other side sends its requests.

use std::time::Duration;

use agentd_web::{ApiError, ApiResult, ErrorBody, Json, Path, RawBody};
use axum::extract::State;
use http::{HeaderMap, StatusCode};
use serde::Serialize;
use utoipa::ToSchema;

use crate::webhooks::error::WebhookError;
use crate::webhooks::model::{WebhookDeliveryId, WebhookId};
use crate::webhooks::service::{ReceivedRequest, Webhooks};

/// When to come again while too much waits to be worked off.
const OVERLOADED_FOR: Duration = Duration::from_secs(30);

/// What was accepted.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct AcceptedDelivery {
    pub(super) delivery_id: WebhookDeliveryId,
}

pub(super) fn refusal(error: WebhookError) -> ApiError {
    let is_overloaded = matches!(error, WebhookError::Overloaded { .. });
    let refusal = ApiError::from(error);
    if is_overloaded { refusal.with_retry_after(OVERLOADED_FOR) } else { refusal }
}

/// Take a signed request
///
/// Needs no credential but a signature: `X-Svc-Signature`, or the three headers of Standard Webhooks. Each that is sent
/// must be right. The body may be anything of up to 2 MiB. Answered once the delivery is stored; the same message
/// within a day (`webhook-id`, `X-Svc-Delivery`, `X-GitHub-Delivery`, `X-Gitlab-Event-UUID` or `Idempotency-Key`) is
/// the same delivery. An `Idempotency-Key` stands for one body.
#[utoipa::path(post, path = "/api/webhooks/{webhook_id}/receive", operation_id = "receive_webhook", tag = "webhooks",
    params(
        ("webhook_id" = String, Path),
        ("X-Svc-Signature" = Option<String>, Header,
            description = "`sha256=` and the hex of HMAC-SHA256 over the raw body under the secret"),
        ("webhook-id" = Option<String>, Header, description = "Standard Webhooks: the message's id"),
        ("webhook-timestamp" = Option<String>, Header,
            description = "Standard Webhooks: Unix time in seconds, five minutes off at most"),
        ("webhook-signature" = Option<String>, Header,
            description = "Standard Webhooks: `v1,` and the base64 of HMAC-SHA256 over `id.timestamp.body`"),
    ),
    request_body(description = "What happened", content((serde_json::Value = "application/json"), (String = "*/*"))),
    responses((status = 202, body = AcceptedDelivery),
        (status = 401, body = ErrorBody, description = "The signature is missing, wrong or too old"),
        (status = 409, body = ErrorBody,
            description = "The webhook is switched off, or the `Idempotency-Key` came with another body before"),
        (status = 429, body = ErrorBody, description = "Too many requests"),
        (status = 503, body = ErrorBody, description = "Too much waits to be worked off, or the database is away")))]
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
