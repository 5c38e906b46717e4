//! Draft of a schedule: the parts understood so far.

use super::token::{Part, Unit};
use crate::zone::Zone;

/// Time of day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ClockTime {
    pub(super) hour: u8,
    pub(super) minute: u8,
    /// Unambiguous: "17:30", "5pm", "noon", "8 Uhr".
    pub(super) certain: bool,
    /// The half of the day was named, so no part of the day changes it.
    pub(super) fixed: bool,
    /// Written as 24 o'clock: the end of the named day.
    pub(super) ends_day: bool,
}

impl ClockTime {
    pub(super) const fn uncertain(hour: u8, minute: u8) -> Self {
        Self { hour, minute, certain: false, fixed: false, ends_day: false }
    }

    pub(super) const fn certain(hour: u8, minute: u8) -> Self {
        Self { hour, minute, certain: true, fixed: false, ends_day: false }
    }

    pub(super) const fn fixed(hour: u8, minute: u8) -> Self {
        Self { hour, minute, certain: true, fixed: true, ends_day: false }
    }

    /// Creates a time on a 24-hour clock.
    pub(super) const fn on_clock(hour: u8, minute: u8) -> Self {
        Self { ends_day: hour == 24, ..Self::certain(hour % 24, minute) }
    }

    /// Returns the time as meant in this part of the day.
    pub(super) const fn in_part(mut self, part: Part) -> Self {
        if self.fixed {
            return self;
        }
        self.hour = match (part, self.hour) {
            (Part::Morning, 12) => 0,
            (Part::Afternoon, hour @ 1..=7) | (Part::Evening, hour @ 4..=11) | (Part::Night, hour @ 6..=11) => {
                hour + 12
            }
            (Part::Noon, hour @ 1..=2) => hour + 12,
            (Part::Evening | Part::Night, 12) => 0,
            (_, hour) => hour,
        };
        self.certain = true;
        self.fixed = true;
        self
    }
}

/// Occurrence within a month.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Week {
    Nth(u8),
    Last,
}

/// Day of the year, optionally of a specific year.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CalendarDate {
    pub(super) year: Option<i16>,
    pub(super) month: u8,
    pub(super) day: u8,
}

/// Distance from now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Offset {
    Seconds(i64),
    Days(i64),
    Months(i64),
}

/// Parts of a schedule found in a text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Draft {
    /// Explicitly recurring: "every", "daily", "Mondays".
    pub(super) repeats: bool,
    pub(super) interval: Option<(u32, Unit)>,
    /// Lengths such as half an hour, in seconds.
    pub(super) interval_seconds: Option<i64>,
    /// "daily" before a noun: counts only together with a time or a day.
    pub(super) adjective: Option<(u32, Unit)>,
    pub(super) count_per: Option<(u32, Unit)>,
    /// Weekdays as bits 0 (Sunday) to 6.
    pub(super) weekdays: u8,
    pub(super) weekday_count: u32,
    pub(super) next_weekday: bool,
    pub(super) weeks: Vec<(Week, u8)>,
    pub(super) month_days: Vec<u8>,
    pub(super) last_day: bool,
    pub(super) months: Vec<u8>,
    pub(super) dates: Vec<CalendarDate>,
    /// Number of days from today.
    pub(super) relative_day: Option<i64>,
    pub(super) tonight: bool,
    pub(super) next_period: Option<Unit>,
    /// "Monday in two weeks", "a week from tomorrow": days to add to the named day.
    pub(super) further_days: i64,
    pub(super) offset: Option<Offset>,
    pub(super) times: Vec<ClockTime>,
    pub(super) part: Option<Part>,
    pub(super) part_repeats: bool,
    /// "every morning and evening".
    pub(super) more_parts: Vec<Part>,
    /// "always": the following part recurs.
    pub(super) always: bool,
    /// Zone named after the time.
    pub(super) zone: Option<Zone>,
    pub(super) window: Option<(ClockTime, ClockTime)>,
    /// Minutes of every matching hour.
    pub(super) minutes: Vec<u8>,
    /// "past the hour", "zur vollen Stunde": every hour unless specified, minute 0 unless named.
    pub(super) each_hour: bool,
    pub(super) except: u8,
    /// Has a part that schedules cannot express: an end, a start, an exception that is not a weekday.
    pub(super) limited: bool,
    /// The text is a schedule that cannot be expressed.
    pub(super) impossible: bool,
}

impl Draft {
    /// Whether any part specifies the day.
    pub(super) fn has_day(&self) -> bool {
        self.weekdays != 0
            || !self.weeks.is_empty()
            || !self.month_days.is_empty()
            || self.last_day
            || !self.dates.is_empty()
            || self.relative_day.is_some()
            || self.next_period.is_some()
    }

    /// Whether a single day is named to which weeks can be added: "Monday", "tomorrow".
    pub(super) fn names_one_day(&self) -> bool {
        self.weekdays.count_ones() == 1 || self.relative_day.is_some()
    }

    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
