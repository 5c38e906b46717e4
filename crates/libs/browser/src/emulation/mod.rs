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

pub(crate) use commands::{Appearance, Kind, is_shared};
pub use devices::{Emulation, Preset};
pub use profile::{ColorScheme, Geolocation, Profile};
