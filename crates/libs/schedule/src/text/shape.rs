//! Patterns in sets of numbers.

use crate::cron::CronExpression;

/// Maximum number of listed times.
const MAX_TIMES: u32 = 6;

/// Set of numbers of one field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Numbers {
    All,
    /// The numbers `start`, `start + step`, … to the end of the field.
    Steps {
        start: u8,
        step: u8,
    },
    /// Three or more consecutive numbers.
    Range {
        from: u8,
        to: u8,
    },
    List(Vec<u8>),
}

impl Numbers {
    /// Classifies the bits between `low` and `high`.
    pub(super) fn of(bits: u64, low: u8, high: u8) -> Self {
        let list: Vec<u8> = (low..=high).filter(|number| bits >> number & 1 == 1).collect();
        let (Some(&first), Some(&last)) = (list.first(), list.last()) else { return Self::List(list) };
        if list.len() == usize::from(high - low) + 1 {
            return Self::All;
        }
        if list.len() < 3 {
            return Self::List(list);
        }
        let step = list[1] - first;
        if !list.windows(2).all(|pair| pair[1] - pair[0] == step) {
            return Self::List(list);
        }
        if step == 1 {
            return Self::Range { from: first, to: last };
        }
        if first - low < step && high - last < step { Self::Steps { start: first, step } } else { Self::List(list) }
    }
}

/// Pattern of times in a day.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TimeShape {
    EveryMinute,
    EveryMinutes(u8),
    /// Once an hour, at this minute.
    Hourly(u8),
    /// Individual times as hour and minute.
    Times(Vec<(u8, u8)>),
    /// Once an hour at `minute`, from one hour to another.
    HourlyBetween {
        minute: u8,
        from: u8,
        to: u8,
    },
    /// Every few hours, at `minute`.
    EveryHours {
        minute: u8,
        start: u8,
        step: u8,
    },
    Mixed {
        minutes: Numbers,
        hours: Numbers,
    },
}

pub(super) fn time(expression: &CronExpression) -> TimeShape {
    let (minute_bits, hour_bits) = (expression.minutes(), u64::from(expression.hours()));
    let minutes = Numbers::of(minute_bits, 0, 59);
    let hours = Numbers::of(hour_bits, 0, 23);
    let one_minute = (minute_bits.count_ones() == 1).then_some(minute_bits.trailing_zeros() as u8);
    match (&minutes, &hours, one_minute) {
        (Numbers::All, Numbers::All, _) => return TimeShape::EveryMinute,
        // Other steps are uneven at the end of the hour.
        (Numbers::Steps { start: 0, step }, Numbers::All, _) if 60 % step == 0 => {
            return TimeShape::EveryMinutes(*step);
        }
        (_, Numbers::All, Some(minute)) => return TimeShape::Hourly(minute),
        (_, Numbers::Range { from, to }, Some(minute)) if to - from > 2 => {
            return TimeShape::HourlyBetween { minute, from: *from, to: *to };
        }
        (_, Numbers::Steps { start, step }, Some(minute)) if 24 % step == 0 && hour_bits.count_ones() > 3 => {
            return TimeShape::EveryHours { minute, start: *start, step: *step };
        }
        _ => {}
    }
    if minute_bits.count_ones() * hour_bits.count_ones() <= MAX_TIMES {
        let hours = (0..24u8).filter(|hour| hour_bits >> hour & 1 == 1);
        let times =
            hours.flat_map(|hour| (0..60u8).filter(|m| minute_bits >> m & 1 == 1).map(move |minute| (hour, minute)));
        return TimeShape::Times(times.collect());
    }
    TimeShape::Mixed { minutes, hours }
}

/// Matching days of a month. A day matches if any of the shapes matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum DayShape {
    /// Days of the month, optionally including the last one.
    OfMonth { days: Numbers, last: bool },
    /// Weekdays from 1 (Monday) to 7 (Sunday).
    Weekdays(Numbers),
    /// Last occurrence of the weekday in the month.
    LastWeekday(u8),
    /// N-th occurrence of the weekday in the month.
    NthWeekday { weekday: u8, week: u8 },
}

/// Returns the day shapes; empty if every day matches.
pub(super) fn days(expression: &CronExpression) -> Vec<DayShape> {
    let mut found = Vec::new();
    let names_every_day = expression.days().is_some_and(|(days, _)| days == !1);
    if names_every_day || expression.weekdays().is_some_and(|(weekdays, ..)| weekdays == 0x7f) {
        return found;
    }
    if let Some((days, last)) = expression.days() {
        found.push(DayShape::OfMonth { days: Numbers::of(u64::from(days), 1, 31), last });
    }
    if let Some((weekdays, last, nth)) = expression.weekdays() {
        if weekdays != 0 {
            found.push(DayShape::Weekdays(Numbers::of(monday_first(weekdays), 1, 7)));
        }
        for (week, weekdays) in (1u8..).zip(nth) {
            let bits = monday_first(weekdays);
            let some = (1..=7u8).filter(|weekday| bits >> weekday & 1 == 1);
            found.extend(some.map(|weekday| DayShape::NthWeekday { weekday, week }));
        }
        let bits = monday_first(last);
        found.extend((1..=7u8).filter(|weekday| bits >> weekday & 1 == 1).map(DayShape::LastWeekday));
    }
    found
}

/// Converts to bits 1 (Monday) to 7 (Sunday).
fn monday_first(weekdays: u8) -> u64 {
    let bits = u64::from(weekdays);
    (bits & 0x7e) | (bits & 1) << 7
}
