//! Cron with five fields: strict to read, exact across daylight saving.
//!
//! `parse` reads the text, `days` says which days of a month are meant, `search` finds the next slot.

mod days;
mod error;
mod parse;
mod search;

pub use error::{CronError, CronField};
pub use parse::MAX_EXPRESSION_LENGTH;

/// The second to fifth of a weekday in a month, and the first: `1#1`.
pub(crate) const WEEKS_IN_MONTH: usize = 5;

/// A cron expression: sets of minutes, hours, days, months and weekdays as bits.
///
/// When both the day of month and the weekday are set, a day that matches either is meant. A field is not set
/// when it is `*` or `*/1`, and set otherwise, so `*/2` and `1-31` are set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CronExpression {
    /// As given, with single spaces.
    text: String,
    minutes: u64,
    hours: u32,
    /// Bits 1 to 31.
    days: u32,
    last_day: bool,
    days_set: bool,
    /// Bits 1 to 12.
    months: u16,
    /// Bits 0 (Sunday) to 6.
    weekdays: u8,
    /// The same for the last of a weekday in the month, `5L`.
    last_weekdays: u8,
    /// The same for the n-th of a weekday in the month, `1#2`.
    nth_weekdays: [u8; WEEKS_IN_MONTH],
    weekdays_set: bool,
}

impl CronExpression {
    /// The expression with single spaces; an `@` name stays as it is.
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

    /// The days of month that are set, and whether the last is; `None` when the field is `*`.
    pub(crate) fn days(&self) -> Option<(u32, bool)> {
        self.days_set.then_some((self.days, self.last_day))
    }

    /// The weekdays that are set: all of them, the last ones, the n-th ones; `None` when the field is `*`.
    pub(crate) fn weekdays(&self) -> Option<(u8, u8, [u8; WEEKS_IN_MONTH])> {
        self.weekdays_set.then_some((self.weekdays, self.last_weekdays, self.nth_weekdays))
    }

    /// One minute of one hour: such a time is due once a day, whatever the clocks do.
    pub(crate) const fn is_fixed_time(&self) -> bool {
        self.minutes.count_ones() == 1 && self.hours.count_ones() == 1
    }
}
