//! What a browser says that it is: its screen, its user agent, its place, its language.
//!
//! Invariants
//! - The parts fit each other: the user agent that headers, pages and workers see, the client hints of that very
//!   browser (none for one that has none), and the languages of a locale in both.
//! - The user agents of presets that are Chrome have the version of the Chromium that runs.
//!
//! Deliberately absent: hiding that Chromium is driven.

mod commands;
mod devices;
mod profile;
mod user_agent;

use serde::Serialize;

use crate::BrowserError;

pub(crate) use commands::{Appearance, Kind};
pub use devices::Preset;
pub use profile::{ColorScheme, Geolocation, Profile};

const SIZES: std::ops::RangeInclusive<u32> = 50..=4_096;
const MAX_SCALE: f64 = 5.0;
/// Of one side: a page is drawn and held whole.
const MAX_PIXELS: f64 = 8_192.0;
const MAX_USER_AGENT_BYTES: usize = 500;

/// A device.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Emulation {
    /// None for one of no preset.
    pub preset: Option<Preset>,
    /// Width and height of a page; none for what the browser was started with.
    pub viewport: Option<(u32, u32)>,
    /// Of the whole screen; none for one as large as the page.
    pub screen: Option<(u32, u32)>,
    pub device_scale_factor: f64,
    /// Also that it is touched.
    pub is_mobile: bool,
    pub user_agent: Option<String>,
}

impl Default for Emulation {
    /// Nothing is emulated.
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
    /// As a Chromium, as it names itself, says it.
    #[must_use]
    pub fn user_agent_in(&self, chromium: &str) -> Option<String> {
        let user_agent = self.user_agent.clone()?;
        if self.preset.is_none() {
            return Some(user_agent);
        }
        let version = chromium.split_once('/').map_or(chromium, |(_, version)| version);
        Some(user_agent.replace("CHROME", version.split('.').next().unwrap_or_default()))
    }

    /// # Errors
    /// What is wrong, each with the field's name.
    pub fn check(&self) -> Result<(), Vec<(&'static str, String)>> {
        let mut problems = Vec::new();
        if let Some((width, height)) = self.viewport
            && !(SIZES.contains(&width) && SIZES.contains(&height))
        {
            problems.push(("viewport", format!("must be from {} to {} wide and high", SIZES.start(), SIZES.end())));
        }
        if !(self.device_scale_factor >= 0.5 && self.device_scale_factor <= MAX_SCALE) {
            problems.push(("device_scale_factor", format!("must be from 0.5 to {MAX_SCALE}")));
        }
        let pixels =
            self.viewport.map_or(0.0, |(width, height)| f64::from(width.max(height)) * self.device_scale_factor);
        if pixels > MAX_PIXELS {
            let problem = format!("must make no side of the viewport longer than {MAX_PIXELS} pixels");
            problems.push(("device_scale_factor", problem));
        }
        problems.extend(self.user_agent.as_deref().and_then(wrong_user_agent).map(|problem| ("user_agent", problem)));
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }
}

fn wrong_user_agent(user_agent: &str) -> Option<String> {
    if user_agent.is_empty() || user_agent.len() > MAX_USER_AGENT_BYTES {
        return Some(format!("must have 1 to {MAX_USER_AGENT_BYTES} bytes"));
    }
    let is_plain = user_agent.trim() == user_agent && user_agent.chars().all(|c| matches!(c, ' '..='~'));
    (!is_plain).then(|| "must be printable ASCII without blanks around it".to_owned())
}

/// Whether Chromium says that another part of the same process has this already, with the same value.
pub(crate) fn is_shared(error: &BrowserError) -> bool {
    matches!(error, BrowserError::Protocol(message) if message.contains("already in effect"))
}
