//! Emulation of the device and the user: screen, user agent, location and language.
//!
//! Invariants
//! - All parts are consistent. Headers, pages and workers see the same user agent. Client hints match it, or are absent
//!   if the browser has none. The locale determines the languages everywhere.
//! - Chrome user agents of presets contain the version of the running Chromium.
//!
//! Deliberately absent: hiding that Chromium is automated.

mod commands;
mod devices;
mod profile;
mod user_agent;

pub(crate) use commands::{Appearance, Kind, is_already_in_effect};
pub use devices::{Emulation, Preset};
pub use profile::{ColorScheme, Geolocation, Profile};
