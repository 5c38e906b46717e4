//! Pictures of a page.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::BrowserError;
use crate::tab::{Argument, Deadline, Invoked, Tab};

/// Higher pages are cut: a picture is held in memory whole, by three processes.
const MAX_HEIGHT: f64 = 16_384.0;
const LIMIT: std::time::Duration = std::time::Duration::from_secs(20);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ImageFormat {
    #[default]
    Png,
    /// With a quality of 1 to 100.
    Jpeg(u8),
}

/// What is in the picture.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Area {
    #[default]
    Viewport,
    /// From the top to the bottom, 16,384 pixels at most.
    FullPage,
    /// The element of this selector.
    Element(String),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metrics {
    css_content_size: Size,
}

#[derive(Deserialize)]
struct Size {
    width: f64,
    height: f64,
}

#[derive(Deserialize)]
struct ElementBox {
    x: f64,
    y: f64,
    width: f64,
    height: f64,
}

#[derive(Deserialize)]
struct Captured {
    data: String,
}

impl Tab {
    /// # Errors
    /// When the page cannot be drawn, or the element is not there.
    pub async fn screenshot(&self, format: ImageFormat, area: &Area) -> Result<Vec<u8>, BrowserError> {
        let deadline = Deadline::after(LIMIT);
        let mut parameters = match format {
            ImageFormat::Png => json!({"format": "png", "optimizeForSpeed": true}),
            ImageFormat::Jpeg(quality @ 1..=100) => {
                json!({"format": "jpeg", "quality": quality, "optimizeForSpeed": true})
            }
            ImageFormat::Jpeg(_) => return Err(BrowserError::Invalid("the quality is 1 to 100".to_owned())),
        };
        let clip = match area {
            Area::Viewport => None,
            Area::FullPage => {
                let metrics: Metrics = self.call("Page.getLayoutMetrics", json!({}), deadline.remaining()).await?;
                let Size { width, height } = metrics.css_content_size;
                Some(clip(0.0, 0.0, width.min(MAX_HEIGHT), height.min(MAX_HEIGHT)))
            }
            Area::Element(selector) => Some(self.clip_of(selector, deadline).await?),
        };
        if let Some(clip) = clip {
            parameters["clip"] = clip;
            parameters["captureBeyondViewport"] = true.into();
        }
        let captured: Captured = self.call("Page.captureScreenshot", parameters, deadline.remaining()).await?;
        STANDARD.decode(captured.data).map_err(|error| BrowserError::Protocol(error.to_string()))
    }

    /// Where an element is in its page; one of a frame is scrolled to and taken as it is shown.
    async fn clip_of(&self, selector: &str, deadline: Deadline) -> Result<Value, BrowserError> {
        let (element, (x, y)) = self.origin_of(selector, deadline).await?;
        let arguments = [Argument::Element(&element)];
        let limit = deadline.remaining();
        match self.invoke::<ElementBox>(&element.frame, "box", &arguments, limit).await? {
            Invoked::Done(found) if found.width > 0.0 && found.height > 0.0 => {
                let (width, height) = (found.width.min(MAX_HEIGHT), found.height.min(MAX_HEIGHT));
                Ok(clip(found.x + x, found.y + y, width, height))
            }
            _ => Err(BrowserError::NotActionable {
                selector: crate::selector::shortened(selector),
                missing: "it is not visible".to_owned(),
                waited_ms: deadline.waited_ms(),
            }),
        }
    }
}

fn clip(x: f64, y: f64, width: f64, height: f64) -> Value {
    json!({"x": x, "y": y, "width": width.max(1.0), "height": height.max(1.0), "scale": 1})
}
