//! Emulated devices, and presets of common ones.

use serde::{Deserialize, Serialize};

use super::user_agent::user_agent_problem;

const VIEWPORT_RANGE: std::ops::RangeInclusive<u32> = 50..=4_096;
const MAX_SCALE_FACTOR: f64 = 5.0;
/// Maximum length of one side in physical pixels, since a page is rendered and held in memory as a whole.
const MAX_SIDE_PIXELS: f64 = 8_192.0;

/// Emulated device.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Emulation {
    /// Preset that the device is based on, if any.
    pub preset: Option<Preset>,
    /// Width and height of the page in CSS pixels; default: the size the browser was started with.
    pub viewport: Option<(u32, u32)>,
    /// Width and height of the screen; default: the size of the page.
    pub screen: Option<(u32, u32)>,
    pub device_scale_factor: f64,
    /// Whether it is a mobile device with touch input.
    pub is_mobile: bool,
    pub user_agent: Option<String>,
}

/// Preset of a common device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Preset {
    /// Windows, 1920 × 1080.
    Desktop,
    /// `MacBook`, 1440 × 900, device scale factor 2.
    Laptop,
    /// iPad (10th generation), portrait.
    Ipad,
    /// iPhone 15, portrait.
    Iphone,
    /// Pixel 8, portrait.
    Pixel,
}

struct Device {
    viewport: (u32, u32),
    screen: (u32, u32),
    scale: f64,
    is_mobile: bool,
    /// User agent in which `CHROME` stands for the major version of the running Chromium.
    user_agent: &'static str,
}

impl Default for Emulation {
    /// No emulation.
    fn default() -> Self {
        Self {
            preset: None,
            viewport: None,
            screen: None,
            device_scale_factor: 1.0,
            is_mobile: false,
            user_agent: None,
        }
    }
}

impl Emulation {
    /// Returns the user agent for this version of Chromium.
    #[must_use]
    pub fn user_agent_in(&self, chromium: &str) -> Option<String> {
        let user_agent = self.user_agent.clone()?;
        if self.preset.is_none() {
            return Some(user_agent);
        }
        let version = chromium.split_once('/').map_or(chromium, |(_, version)| version);
        Some(user_agent.replace("CHROME", version.split('.').next().unwrap_or_default()))
    }

    /// Validates the device.
    ///
    /// # Errors
    /// Problems, each with the name of the field.
    pub fn check(&self) -> Result<(), Vec<(&'static str, String)>> {
        let mut problems = Vec::new();
        if let Some((width, height)) = self.viewport
            && !(VIEWPORT_RANGE.contains(&width) && VIEWPORT_RANGE.contains(&height))
        {
            problems.push((
                "viewport",
                format!("must have a width and height between {} and {}", VIEWPORT_RANGE.start(), VIEWPORT_RANGE.end()),
            ));
        }
        if !(self.device_scale_factor >= 0.5 && self.device_scale_factor <= MAX_SCALE_FACTOR) {
            problems.push(("device_scale_factor", format!("must be between 0.5 and {MAX_SCALE_FACTOR}")));
        }
        let pixels =
            self.viewport.map_or(0.0, |(width, height)| f64::from(width.max(height)) * self.device_scale_factor);
        if pixels > MAX_SIDE_PIXELS {
            let problem = format!("must not make a side of the viewport longer than {MAX_SIDE_PIXELS} physical pixels");
            problems.push(("device_scale_factor", problem));
        }
        problems.extend(self.user_agent.as_deref().and_then(user_agent_problem).map(|problem| ("user_agent", problem)));
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }
}

impl Preset {
    #[must_use]
    pub fn emulation(self) -> Emulation {
        let device = self.device();
        Emulation {
            preset: Some(self),
            viewport: Some(device.viewport),
            screen: Some(device.screen),
            device_scale_factor: device.scale,
            is_mobile: device.is_mobile,
            user_agent: Some(device.user_agent.to_owned()),
        }
    }

    fn device(self) -> Device {
        match self {
            Self::Desktop => Device {
                viewport: (1920, 945),
                screen: (1920, 1080),
                scale: 1.0,
                is_mobile: false,
                user_agent: "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) \
                             Chrome/CHROME.0.0.0 Safari/537.36",
            },
            Self::Laptop => Device {
                viewport: (1440, 764),
                screen: (1440, 900),
                scale: 2.0,
                is_mobile: false,
                user_agent: "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 (KHTML, like Gecko) \
                             Chrome/CHROME.0.0.0 Safari/537.36",
            },
            Self::Ipad => Device {
                viewport: (820, 1106),
                screen: (820, 1180),
                scale: 2.0,
                is_mobile: true,
                user_agent: "Mozilla/5.0 (iPad; CPU OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) \
                             Version/17.5 Mobile/15E148 Safari/604.1",
            },
            Self::Iphone => Device {
                viewport: (393, 659),
                screen: (393, 852),
                scale: 3.0,
                is_mobile: true,
                user_agent: "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like \
                             Gecko) Version/17.5 Mobile/15E148 Safari/604.1",
            },
            Self::Pixel => Device {
                viewport: (412, 839),
                screen: (412, 915),
                scale: 2.625,
                is_mobile: true,
                user_agent: "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) \
                             Chrome/CHROME.0.0.0 Mobile Safari/537.36",
            },
        }
    }
}
