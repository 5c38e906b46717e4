//! Schedules in plain words.

use agentd_base::Timestamp;

use crate::language::Language;
use crate::schedule::Schedule;
use crate::zone::Zone;

/// Longer texts are not looked at, in characters.
pub const MAX_TEXT_LENGTH: usize = 500;
/// Below this nothing should be created without asking.
pub const MIN_CONFIDENCE: f64 = 0.5;

/// A schedule that was found in a text.
#[derive(Debug, Clone, PartialEq)]
pub struct Parsed {
    pub schedule: Schedule,
    /// 0 to 1: 0.9 and more when every word was understood, less for each that was not.
    pub confidence: f64,
    /// What was understood, in the language that was asked for.
    pub human_readable: String,
}

/// The schedule that `text` speaks of, read at `now` in `zone`. `language` is the language of
/// `human_readable`; the text may be English or German. `None` when nothing in it is a schedule.
#[must_use]
pub fn parse_natural(text: &str, now: Timestamp, zone: &Zone, language: impl Into<Language>) -> Option<Parsed> {
    let _ = (text, now, zone, language.into());
    None
}
