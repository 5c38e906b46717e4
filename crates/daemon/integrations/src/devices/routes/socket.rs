//! The socket.

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
    /// The token that the device got when it was paired.
    #[param(value_type = Option<String>)]
    token: Option<Secret>,
}

/// The socket of a device (WebSocket)
///
/// JSON text frames with a `type`, 1 MiB at most. The device sends `register_tools {tools: [{name, description,
/// input_schema}]}` (64 at most; replaces what was registered before), `tool_result {id, output | error}` and `chat
/// {agent_id, content, conversation_id?, id?}`. The daemon sends `hello {device_id, name, tool_prefix}` first, then
/// `tool_call {id, tool, input}`, `tool_cancel {id}` when nobody waits for a result any more, `event {session_id, seq,
/// event, data, id?}` for each event of a reply that a `chat` frame began, and `error {code, message, id?}` for a frame
/// that was not taken. The daemon pings every 20 seconds; a device that is silent for 60 seconds is gone. A device has
/// one connection: a new one replaces the old, which is closed with 4001. A removed device is closed with 4003. A
/// conversation that a device begins asks before its tools act.
#[utoipa::path(
    get,
    path = "/api/devices/ws",
    operation_id = "connect_device",
    tag = "devices",
    params(SocketQuery),
    responses(
        (status = 101, description = "The connection is a WebSocket from here on"),
        (status = 400, description = "The request does not ask for a WebSocket", body = ErrorBody),
        (status = 401, description = "The device token is missing or invalid", body = ErrorBody),
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
            "This address is a WebSocket (RFC 6455, version 13); connect with a WebSocket client",
        )
    })?;
    let upgrade = upgrade.max_message_size(MAX_FRAME_BYTES).max_frame_size(MAX_FRAME_BYTES);
    Ok(upgrade.on_upgrade(move |socket| devices.serve(device, socket)))
}
