//! The device WebSocket route.

use agentd_base::Secret;
use agentd_web::{ApiError, ApiResult, ErrorBody, Query};
use axum::extract::State;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::response::Response;
use http::StatusCode;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::devices::connection::MAX_FRAME_BYTES;
use crate::devices::service::Devices;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct SocketQuery {
    /// Token that the device received when it was paired; required.
    #[param(value_type = Option<String>)]
    token: Option<Secret>,
}

/// Connect a device (WebSocket)
///
/// Frames are JSON text messages with a `type`, at most 1 MiB each. The device sends `register_tools {tools: [{name,
/// description, input_schema}]}` (at most 64 tools; replaces all previously registered tools), `tool_result {id, output
/// | error}` and `chat {agent_id, content, conversation_id?, id?}`. The daemon sends `hello {device_id, name,
/// tool_prefix}` first, then `tool_call {id, tool, input}`, `tool_cancel {id}` when a result is no longer needed,
/// `event {session_id, seq, event, data, id?}` for each event of a reply started by a `chat` frame, and `error {code,
/// message, id?}` for a rejected frame. The daemon sends a ping every 20 seconds and closes the connection of a device
/// that is silent for 60 seconds. A device has one connection: a new connection replaces the old one, which is closed
/// with code 4001. When a device is removed, its connection is closed with code 4003. In conversations started by a
/// device, tools that act require approval.
#[utoipa::path(
    get,
    path = "/api/devices/ws",
    operation_id = "connect_device",
    tag = "devices",
    params(SocketQuery),
    responses(
        (status = 101, description = "Switching to WebSocket"),
        (status = 400, description = "Not a WebSocket request", body = ErrorBody),
        (status = 401, description = "Missing or invalid device token", body = ErrorBody),
    ),
)]
pub(super) async fn connect_device(
    State(devices): State<Devices>,
    Query(query): Query<SocketQuery>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> ApiResult<Response> {
    let device = devices.authenticate(query.token.as_ref()).await?;
    let upgrade = upgrade.map_err(|_| {
        ApiError::new(
            StatusCode::BAD_REQUEST,
            "not_a_websocket",
            "this endpoint requires a WebSocket connection (RFC 6455, version 13); use a WebSocket client",
        )
    })?;
    let upgrade = upgrade.max_message_size(MAX_FRAME_BYTES).max_frame_size(MAX_FRAME_BYTES);
    Ok(upgrade.on_upgrade(move |socket| devices.serve(device, socket)))
}
