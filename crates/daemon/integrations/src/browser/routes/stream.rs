//! Stream of frames.

use agentd_web::{ApiError, ApiResult, Caller, ErrorBody, Scope, StreamCredential};
use axum::Extension;
use axum::extract::State;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::response::Response;
use http::StatusCode;

use crate::browser::service::Browser;
use crate::browser::stream::{MAX_FRAME_BYTES, serve};

/// Watch the browser over WebSocket
///
/// Sends binary messages, each a JPEG of the active tab: one immediately, then on changes, at most `stream_fps` per
/// second. Changed settings apply immediately. Each frame is followed by a ping, and the next one is sent after its
/// pong, so slow clients skip frames. If no browser runs, the first frame is sent when one starts; when the browser is
/// closed, the socket is closed with code 1000.
///
/// The daemon pings every 20 seconds and disconnects clients that are silent for 60 seconds. Watching does not count as
/// use of the browser, which is closed after 15 minutes of inactivity. Web pages authenticate with `?ticket=` (`POST
/// /api/auth/ticket`). At most 64 clients, 16 of them with read-only keys.
#[utoipa::path(
    get,
    path = "/api/browser/stream",
    operation_id = "watch_browser",
    tag = "browser",
    responses(
        (status = 101, description = "Switching to WebSocket"),
        (status = 400, description = "Not a WebSocket request", body = ErrorBody),
        (status = 503, description = "`too_many_viewers`", body = ErrorBody),
    ),
)]
pub(super) async fn watch_browser(
    State(browser): State<Browser>,
    caller: Caller,
    credential: Option<Extension<StreamCredential>>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> ApiResult<Response> {
    let (Ok(upgrade), Some(Extension(credential))) = (upgrade, credential) else { return Err(not_a_websocket()) };
    let permit = browser.viewer_permit(caller.scope == Scope::Read)?;
    let upgrade = upgrade.max_message_size(MAX_FRAME_BYTES).max_frame_size(MAX_FRAME_BYTES);
    Ok(upgrade.on_upgrade(move |socket| serve(browser, credential, permit, socket)))
}

fn not_a_websocket() -> ApiError {
    ApiError::new(
        StatusCode::BAD_REQUEST,
        "not_a_websocket",
        "this endpoint requires a WebSocket connection (RFC 6455, version 13); use a WebSocket client",
    )
}
