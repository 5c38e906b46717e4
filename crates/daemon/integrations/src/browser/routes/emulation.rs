//! Handler for device emulation.

use agentd_base::Problems;
use agentd_browser::{Emulation, Preset};
use agentd_web::{Answer, ApiError, ErrorBody, Json};
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::browser::service::Browser;

/// Preset of a common device; `reset` disables emulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum DeviceName {
    /// Windows, 1920 × 1080.
    Desktop,
    /// MacBook, 1440 × 900, device scale factor 2.
    Laptop,
    /// iPad (10th generation), portrait.
    Ipad,
    /// iPhone 15, portrait.
    Iphone,
    /// Pixel 8, portrait.
    Pixel,
    /// No emulation.
    Reset,
}

impl DeviceName {
    fn preset(self) -> Option<Preset> {
        match self {
            Self::Desktop => Some(Preset::Desktop),
            Self::Laptop => Some(Preset::Laptop),
            Self::Ipad => Some(Preset::Ipad),
            Self::Iphone => Some(Preset::Iphone),
            Self::Pixel => Some(Preset::Pixel),
            Self::Reset => None,
        }
    }
}

/// Size of the page in CSS pixels.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[schema(as = BrowserViewport)]
struct Viewport {
    /// Width in CSS pixels, 50 to 4,096.
    #[schema(minimum = 50, maximum = 4_096)]
    width: u32,
    /// Height in CSS pixels, 50 to 4,096.
    #[schema(minimum = 50, maximum = 4_096)]
    height: u32,
}

/// Device to emulate: either a preset or a custom device, which requires a viewport.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = BrowserDevice)]
pub(super) struct Device {
    /// Preset of a common device; cannot be combined with other fields.
    #[serde(default)]
    #[schema(inline)]
    preset: Option<DeviceName>,
    /// Size of the page of a custom device; required without `preset`.
    #[serde(default)]
    viewport: Option<Viewport>,
    /// Physical pixels per CSS pixel, 0.5 to 5; default 1. No side of the viewport may exceed 8,192 physical pixels.
    #[serde(default)]
    #[schema(minimum = 0.5, maximum = 5.0)]
    device_scale_factor: Option<f64>,
    /// Whether the device is a mobile device with touch input. Default: false.
    #[serde(default)]
    is_mobile: Option<bool>,
    /// User agent, 1 to 500 printable ASCII characters; default: the browser's own.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 500)]
    user_agent: Option<String>,
}

impl Device {
    fn emulation(self) -> Result<Emulation, ApiError> {
        let mut problems = Problems::new();
        let is_own = self.viewport.is_some()
            || self.device_scale_factor.is_some()
            || self.is_mobile.is_some()
            || self.user_agent.is_some();
        if let Some(preset) = self.preset {
            problems.require(!is_own, "preset", "cannot be combined with other fields");
            problems.into_result().map_err(ApiError::invalid)?;
            return Ok(preset.preset().map(Preset::emulation).unwrap_or_default());
        }
        problems.require(self.viewport.is_some(), "viewport", "is required without `preset`");
        problems.into_result().map_err(ApiError::invalid)?;
        Ok(Emulation {
            viewport: self.viewport.map(|viewport| (viewport.width, viewport.height)),
            device_scale_factor: self.device_scale_factor.unwrap_or(1.0),
            is_mobile: self.is_mobile.unwrap_or_default(),
            user_agent: self.user_agent,
            ..Emulation::default()
        })
    }
}

/// Active emulation.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BrowserEmulation)]
pub(super) struct EmulationView {
    /// Active preset; null for a custom device or no emulation.
    #[schema(inline)]
    preset: Option<DeviceName>,
    /// Size of the page; null for the browser's own.
    viewport: Option<Viewport>,
    /// Physical pixels per CSS pixel; 1 without emulation.
    device_scale_factor: f64,
    /// Whether a mobile device with touch input is emulated.
    is_mobile: bool,
    /// User agent; null for the browser's own, and for a preset while the browser is not running.
    user_agent: Option<String>,
}

impl EmulationView {
    fn new(emulation: Emulation, user_agent: Option<String>) -> Self {
        let name = |preset| match preset {
            Preset::Desktop => DeviceName::Desktop,
            Preset::Laptop => DeviceName::Laptop,
            Preset::Ipad => DeviceName::Ipad,
            Preset::Iphone => DeviceName::Iphone,
            Preset::Pixel => DeviceName::Pixel,
        };
        Self {
            preset: emulation.preset.map(name),
            viewport: emulation.viewport.map(|(width, height)| Viewport { width, height }),
            device_scale_factor: emulation.device_scale_factor,
            is_mobile: emulation.is_mobile,
            user_agent,
        }
    }
}

/// Emulate a device
///
/// Applies to open and later pages until the session is closed. Screen changes apply immediately, a changed user agent
/// with the next request. `{"preset": "reset"}` disables emulation.
#[utoipa::path(post, path = "/api/browser/emulation", tag = "browser", request_body = Device,
    responses(
        (status = 200, body = EmulationView),
        (status = 502, body = ErrorBody, description = "`browser_failed`, `browser_ended`: the browser failed"),
    ))]
pub(super) async fn emulate_browser_device(
    State(browser): State<Browser>,
    Json(device): Json<Device>,
) -> Answer<EmulationView> {
    let emulation = browser.emulate(device.emulation()?).await?;
    let user_agent = browser.user_agent_of(&emulation);
    Ok(Json(EmulationView::new(emulation, user_agent)))
}
