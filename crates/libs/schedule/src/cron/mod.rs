//! Cron with five fields: strict parsing, exact across daylight saving.
//!
//! `parse` parses the text, `days` computes the matching days of a month, `search` finds the next slot.

mod days;
mod error;
mod parse;
mod search;

pub use error::{CronError, CronField};
pub use parse::MAX_EXPRESSION_LENGTH;

/// Maximum number of occurrences of a weekday in a month, for `1#1` to `1#5`.
pub(crate) const WEEKS_IN_MONTH: usize = 5;

/// Cron expression: sets of minutes, hours, days, months and weekdays as bits.
///
/// If both the day of month and the weekday are set, a day matches if either does. A field is unset if it is `*` or
/// `*/1`; `*/2` and `1-31` count as set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CronExpression {
    /// Original text with single spaces.
    text: String,
    minutes: u64,
    hours: u32,
    /// Days of the month as bits 1 to 31.
    days: u32,
    last_day: bool,
    days_set: bool,
    /// Months as bits 1 to 12.
    months: u16,
    /// Weekdays as bits 0 (Sunday) to 6.
    weekdays: u8,
    /// Weekdays whose last occurrence in the month matches, `5L`.
    last_weekdays: u8,
    /// Weekdays whose n-th occurrence in the month matches, `1#2`.
    nth_weekdays: [u8; WEEKS_IN_MONTH],
    weekdays_set: bool,
}

impl CronExpression {
    /// Returns the expression with single spaces; an `@` name is unchanged.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub(crate) const fn minutes(&self) -> u64 {
        self.minutes
    }

    pub(crate) const fn hours(&self) -> u32 {
        self.hours
    }

    pub(crate) const fn months(&self) -> u16 {
        self.months
    }

    /// Returns the set days of month, and whether the last day is set; `None` if the field is `*`.
    pub(crate) fn days(&self) -> Option<(u32, bool)> {
        self.days_set.then_some((self.days, self.last_day))
    }

    /// Returns the set weekdays: every, last and n-th occurrences; `None` if the field is `*`.
    pub(crate) fn weekdays(&self) -> Option<(u8, u8, [u8; WEEKS_IN_MONTH])> {
        self.weekdays_set.then_some((self.weekdays, self.last_weekdays, self.nth_weekdays))
    }

    /// Whether the expression is one minute of one hour, which is due once a day regardless of clock changes.
    pub(crate) const fn is_fixed_time(&self) -> bool {
        self.minutes.count_ones() == 1 && self.hours.count_ones() == 1
    }
}
