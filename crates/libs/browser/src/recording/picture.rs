//! Small picture of a page with secrets concealed.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::future::join_all;
use serde::Deserialize;
use serde_json::json;

use crate::BrowserError;
use crate::tab::{FrameId, Invoked, Tab};

const WIDTH: f64 = 640.0;
const QUALITY: u32 = 50;
/// Time limit for drawing; a slower page has no picture.
const LIMIT: Duration = Duration::from_secs(3);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metrics {
    css_visual_viewport: Viewport,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Viewport {
    page_x: f64,
    page_y: f64,
    client_width: f64,
    client_height: f64,
}

#[derive(Deserialize)]
struct Captured {
    data: String,
}

impl Tab {
    /// Returns a JPEG, or `None` if the page cannot be drawn or a secret cannot be concealed.
    pub(super) async fn small_picture(&self, secrets: &[&str]) -> Option<Vec<u8>> {
        let frames = self.state.borrow().frame_ids();
        let concealed = self.run_in_frames(&frames, "conceal", secrets).await;
        let drawn = if concealed { self.draw().await.ok() } else { None };
        // Restore the page in any case.
        let is_clean = self.run_in_frames(&frames, "reveal", secrets).await;
        drawn.filter(|_| is_clean)
    }

    async fn run_in_frames(&self, frames: &[FrameId], function: &str, secrets: &[&str]) -> bool {
        let arguments = [json!(secrets).into()];
        let done = join_all(frames.iter().map(|frame| self.invoke::<bool>(frame, function, &arguments, LIMIT))).await;
        done.iter().all(|done| matches!(done, Ok(Invoked::Done(true))))
    }

    async fn draw(&self) -> Result<Vec<u8>, BrowserError> {
        let metrics: Metrics = self.call("Page.getLayoutMetrics", json!({}), LIMIT).await?;
        let Viewport { page_x, page_y, client_width, client_height } = metrics.css_visual_viewport;
        let scale = (WIDTH / client_width.max(1.0)).min(1.0);
        let clip = json!({"x": page_x, "y": page_y, "width": client_width, "height": client_height, "scale": scale});
        let parameters = json!({"format": "jpeg", "quality": QUALITY, "optimizeForSpeed": true, "clip": clip});
        let captured: Captured = self.call("Page.captureScreenshot", parameters, LIMIT).await?;
        STANDARD.decode(captured.data).map_err(|error| BrowserError::Protocol(error.to_string()))
    }
}
