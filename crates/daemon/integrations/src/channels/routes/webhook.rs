//! Webhooks of chat platforms.

use agentd_chat_platforms::{WebhookAnswer, WebhookRequest};
use agentd_web::{ApiError, ErrorBody, Path, RawBody};
use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method};

use crate::channels::error::platform_of;
use crate::channels::service::Channels;

fn response(answer: WebhookAnswer) -> Response {
    let mut response = Response::new(Body::from(answer.body));
    *response.status_mut() = answer.status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(answer.content_type));
    response
}

async fn receive(channels: &Channels, platform: &str, request: WebhookRequest) -> Result<Response, ApiError> {
    Ok(response(channels.receive(platform_of(platform)?, request).await?))
}

/// Receive a platform webhook
///
/// Needs no API key; the platform's own signature or token is verified instead. The response is sent after the content
/// was stored. A repeated message is ignored.
#[utoipa::path(
    post, path = "/api/channels/{platform}/webhook", tag = "channels",
    params(("platform" = String, Path, description = "`discord`, `slack`, `telegram`, `whatsapp`, `teams` or `google_chat`")),
    request_body(
        description = "Event in the format of the platform",
        content((serde_json::Value = "application/json"), (String = "*/*")),
    ),
    responses(
        (status = 200, description = "Response expected by the platform", content_type = "*/*", body = String),
        (status = 401, body = ErrorBody, description = "The signature or token is invalid, or the request is too old"),
        (status = 404, body = ErrorBody, description = "Platform not found, or the channel is disabled"),
        (status = 429, body = ErrorBody, description = "Too many messages"),
        (status = 503, body = ErrorBody, description = "The backlog is full, or the platform's keys are unavailable"),
    ),
)]
pub(super) async fn receive_channel_webhook(
    State(channels): State<Channels>,
    Path(platform): Path<String>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    RawBody(body): RawBody,
) -> Result<Response, ApiError> {
    let request = WebhookRequest { method: Method::POST, query: query.unwrap_or_default(), headers, body };
    receive(&channels, &platform, request).await
}

/// Verify the webhook URL
///
/// WhatsApp calls it with the `verify_token` of its settings.
#[utoipa::path(
    get, path = "/api/channels/{platform}/webhook", tag = "channels",
    params(
        ("platform" = String, Path, description = "`whatsapp`"),
        ("hub.mode" = Option<String>, Query, description = "`subscribe`"),
        ("hub.verify_token" = Option<String>, Query, description = "Must equal the setting `whatsapp.verify_token`"),
        ("hub.challenge" = Option<String>, Query, description = "Text to return"),
    ),
    responses(
        (status = 200, description = "The challenge", content_type = "text/plain", body = String),
        (status = 401, body = ErrorBody, description = "The token does not match the settings"),
        (status = 404, body = ErrorBody, description = "Platform not found, or the channel is disabled"),
    ),
)]
pub(super) async fn verify_channel_webhook(
    State(channels): State<Channels>,
    Path(platform): Path<String>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let query = query.unwrap_or_default();
    let request = WebhookRequest { method: Method::GET, query, headers, body: bytes::Bytes::new() };
    receive(&channels, &platform, request).await
}
