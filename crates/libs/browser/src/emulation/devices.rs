//! Devices as they are sold.

use serde::{Deserialize, Serialize};

use super::Emulation;

/// A device of a kind that many people have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Preset {
    /// Windows, 1920 × 1080.
    Desktop,
    /// A `MacBook`, 1440 × 900 with two pixels a point.
    Laptop,
    /// An iPad of the 10th generation, upright.
    Ipad,
    /// An iPhone 15, upright.
    Iphone,
    /// A Pixel 8, upright.
    Pixel,
}

struct Device {
    viewport: (u32, u32),
    screen: (u32, u32),
    scale: f64,
    is_mobile: bool,
    /// `CHROME` is the major version of the Chromium that runs.
    user_agent: &'static str,
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
