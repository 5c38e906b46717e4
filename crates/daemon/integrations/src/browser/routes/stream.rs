//! The stream of frames.

use agentd_web::{ApiError, ApiResult, Caller, ErrorBody, Opener, Scope};
use axum::Extension;
use axum::extract::State;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::response::Response;
use http::StatusCode;

use crate::browser::service::Browser;
use crate::browser::stream::{MAX_FRAME_BYTES, serve};

/// Watch the browser (WebSocket)
///
/// Binary messages, each a JPEG of the active tab, whichever that is: one at once, then as the page changes,
/// `stream_fps` of the settings a second at most, the newest first. Changes of the settings hold at once. Each frame is
/// followed by a ping, and the next one is sent when that was answered: a slow client misses frames and stays. Where no
/// browser runs, the first frame comes when one does; when it is closed, so is the socket, with 1000. The daemon pings
/// every 20 seconds; a client that is silent for 60 seconds is gone. Watching is no use of the browser, which is closed
/// after 15 minutes without any. A page in a browser names itself by `?ticket=` (`POST /api/auth/ticket`). 64 clients at
/// most, 16 of them with keys that may only read.
#[utoipa::path(
    get,
    path = "/api/browser/stream",
    operation_id = "watch_browser",
    tag = "browser",
    responses(
        (status = 101, description = "The connection is a WebSocket from here on"),
        (status = 400, description = "The request does not ask for a WebSocket", body = ErrorBody),
        (status = 503, description = "`too_many_viewers`", body = ErrorBody),
    ),
)]
pub(super) async fn watch_browser(
    State(browser): State<Browser>,
    caller: Caller,
    opener: Option<Extension<Opener>>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> ApiResult<Response> {
    let (Ok(upgrade), Some(Extension(opener))) = (upgrade, opener) else { return Err(not_a_websocket()) };
    let permit = browser.viewer_permit(caller.scope == Scope::Read)?;
    let upgrade = upgrade.max_message_size(MAX_FRAME_BYTES).max_frame_size(MAX_FRAME_BYTES);
    Ok(upgrade.on_upgrade(move |socket| serve(browser, opener, permit, socket)))
}

fn not_a_websocket() -> ApiError {
    ApiError::new(
        StatusCode::BAD_REQUEST,
        "not_a_websocket",
        "This address is a WebSocket (RFC 6455, version 13); connect with a WebSocket client",
    )
}
