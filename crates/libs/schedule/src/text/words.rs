//! Interface of languages, and shared text functions.

use super::shape::{DayShape, Numbers, TimeShape};

/// Phrases of a language. Parts are joined by commas.
pub(super) trait Words {
    fn every(&self, count: i64, unit: Unit) -> String;
    fn once(&self, at: jiff::civil::DateTime) -> String;
    fn time(&self, time: &TimeShape) -> String;
    fn every_day(&self) -> &'static str;
    fn days(&self, days: &[DayShape]) -> String;
    fn months(&self, months: &Numbers) -> String;
}

/// Units of intervals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Second,
    Minute,
    Hour,
    Day,
    Week,
}

/// Joins items: `a`, `a and b`, `a, b and c`.
pub(super) fn joined(items: &[String], and: &str) -> String {
    match items {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} {and} {last}", first.join(", ")),
    }
}

pub(super) fn clock(hour: u8, minute: u8) -> String {
    format!("{hour:02}:{minute:02}")
}

pub(super) fn name(names: &'static [&'static str], from_one: u8) -> &'static str {
    names.get(usize::from(from_one).wrapping_sub(1)).copied().unwrap_or_default()
}
