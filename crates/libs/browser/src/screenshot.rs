//! Screenshots of a page.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::BrowserError;
use crate::tab::{Argument, Deadline, Invoked, Tab};

/// Maximum side length; larger pages are cropped, since three processes hold the whole image in memory.
const MAX_HEIGHT: f64 = 16_384.0;
const LIMIT: std::time::Duration = std::time::Duration::from_secs(20);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ImageFormat {
    #[default]
    Png,
    /// JPEG with a quality from 1 to 100.
    Jpeg(u8),
}

/// Area to capture.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Area {
    #[default]
    Viewport,
    /// The whole page, up to 16,384 pixels high.
    FullPage,
    /// The element with this selector.
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
    /// Captures an image of the page.
    ///
    /// # Errors
    /// The page cannot be drawn, or the element does not exist.
    pub async fn screenshot(&self, format: ImageFormat, area: &Area) -> Result<Vec<u8>, BrowserError> {
        let deadline = Deadline::after(LIMIT);
        let mut parameters = match format {
            ImageFormat::Png => json!({"format": "png", "optimizeForSpeed": true}),
            ImageFormat::Jpeg(quality @ 1..=100) => {
                json!({"format": "jpeg", "quality": quality, "optimizeForSpeed": true})
            }
            ImageFormat::Jpeg(_) => {
                return Err(BrowserError::Invalid("the quality must be between 1 and 100".to_owned()));
            }
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

    /// Returns the box of an element in page coordinates. An element in a frame is scrolled into view first.
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
                missing: "the element is not visible".to_owned(),
                waited_ms: deadline.waited_ms(),
            }),
        }
    }
}

fn clip(x: f64, y: f64, width: f64, height: f64) -> Value {
    json!({"x": x, "y": y, "width": width.max(1.0), "height": height.max(1.0), "scale": 1})
}
