//! Where platforms send what happens.

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

/// Take what a chat platform sends
///
/// Needs no API key: each platform's own signature or token is verified. Answered, as the platform wants it, once what
/// came is stored; a message that is sent again is the same message.
#[utoipa::path(
    post, path = "/api/channels/{platform}/webhook", tag = "channels",
    params(("platform" = String, Path, description = "`discord`, `slack`, `telegram`, `whatsapp`, `teams` or `google_chat`")),
    request_body(description = "As the platform sends it", content((serde_json::Value = "application/json"), (String = "*/*"))),
    responses(
        (status = 200, description = "What the platform wants to read", content_type = "*/*", body = String),
        (status = 401, body = ErrorBody, description = "It is not verified, or too old"),
        (status = 404, body = ErrorBody, description = "There is no such platform, or the channel is off"),
        (status = 429, body = ErrorBody, description = "Too many messages"),
        (status = 503, body = ErrorBody, description = "Too much waits, or the platform's keys cannot be had"),
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

/// Answer a platform that asks whether this address is ours
///
/// WhatsApp does, with the `verify_token` of its settings.
#[utoipa::path(
    get, path = "/api/channels/{platform}/webhook", tag = "channels",
    params(
        ("platform" = String, Path, description = "`whatsapp`"),
        ("hub.mode" = Option<String>, Query),
        ("hub.verify_token" = Option<String>, Query),
        ("hub.challenge" = Option<String>, Query),
    ),
    responses(
        (status = 200, description = "The challenge", content_type = "text/plain", body = String),
        (status = 401, body = ErrorBody, description = "The token is not the one that is set"),
        (status = 404, body = ErrorBody, description = "There is no such platform, or the channel is off"),
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
