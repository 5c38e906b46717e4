//! Handlers for videos.

use std::time::Duration;

use agentd_web::{ApiError, ErrorBody, Json, Path};
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE};
use serde::Deserialize;
use tokio_util::io::ReaderStream;
use utoipa::ToSchema;

use crate::browser::model::RecordingId;
use crate::browser::service::{Browser, Video};

const FRAMES_PER_SECOND: u8 = 5;
const CHUNK_BYTES: usize = 64 << 10;

/// Options of a screen recording.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = BrowserScreenRecording)]
pub(super) struct ScreenRecordingFields {
    /// Length of the recording in seconds, 1 to 300.
    #[schema(minimum = 1, maximum = 300)]
    duration_seconds: u32,
    /// Maximum number of frames per second, 1 to 10; default 5. An unchanged page produces no further frames.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 10)]
    fps: Option<u8>,
}

/// Record the screen
///
/// Returns an MP4 of the active tab after the given time, or when the browser ends. The size is that of the first
/// frame. The codec is H.264 if the installed Chromium supports encoding it, otherwise VP9 or AV1. The recording is
/// cancelled when the client disconnects.
#[utoipa::path(post, path = "/api/browser/screen-recording", tag = "browser", request_body = ScreenRecordingFields,
    responses(
        (status = 200, description = "The video", content((Vec<u8> = "video/mp4"))),
        (status = 409, body = ErrorBody, description = "`browser_not_running`: no page is open; `video_in_progress`: \
            another video is being encoded; `video_too_large`; `timeout`: the page was not drawn, or encoding took too \
            long"),
        (status = 502, body = ErrorBody, description = "`browser_ended`, `browser_failed`: the Chromium that \
            encodes the video ended or failed"),
        (status = 503, body = ErrorBody, description = "`browser_unavailable`: Chromium not found; \
            `video_unavailable`: the daemon was built without video support; `shutting_down`: the daemon is \
            shutting down"),
    ))]
pub(super) async fn record_screen(
    State(browser): State<Browser>,
    Json(fields): Json<ScreenRecordingFields>,
) -> Result<Response, ApiError> {
    let duration = Duration::from_secs(fields.duration_seconds.into());
    let recorded = browser.record_screen(duration, fields.fps.unwrap_or(FRAMES_PER_SECOND)).await?;
    Ok(video(recorded))
}

/// Create a video from a recording
///
/// Returns an MP4 that shows the page after each step with its caption, for one to three seconds depending on the
/// original timing. The codec is H.264 if the installed Chromium supports encoding it, otherwise VP9 or AV1.
#[utoipa::path(post, path = "/api/browser/screen-recording/from-recording/{recording_id}", tag = "browser",
    params(("recording_id" = String, Path, description = "Id of the recording")),
    responses(
        (status = 200, description = "The video", content((Vec<u8> = "video/mp4"))),
        (status = 404, body = ErrorBody, description = "`recording_not_found`"),
        (status = 409, body = ErrorBody, description = "`recording_empty`: the recording has no \
            screenshots; `video_in_progress`: another video is being encoded; `video_too_large`; `timeout`: encoding \
            took too long"),
        (status = 502, body = ErrorBody, description = "`browser_ended`, `browser_failed`: the Chromium that \
            encodes the video ended or failed"),
        (status = 503, body = ErrorBody, description = "`browser_unavailable`: Chromium not found; \
            `video_unavailable`: the daemon was built without video support; `shutting_down`: the daemon is \
            shutting down"),
    ))]
pub(super) async fn create_recording_video(
    State(browser): State<Browser>,
    Path(recording_id): Path<RecordingId>,
) -> Result<Response, ApiError> {
    Ok(video(browser.recording_video(&recording_id).await?))
}

/// Streams the file as the response.
fn video(recorded: Video) -> Response {
    let headers = [
        (CONTENT_TYPE, "video/mp4".to_owned()),
        (CONTENT_LENGTH, recorded.bytes.to_string()),
        (CACHE_CONTROL, "no-store".to_owned()),
    ];
    let pieces = ReaderStream::with_capacity(tokio::fs::File::from_std(recorded.file), CHUNK_BYTES);
    (headers, Body::from_stream(pieces)).into_response()
}
