//! English texts.

use jiff::civil::DateTime;

use super::shape::{DayShape, Numbers, TimeShape};
use super::words::{Unit, Words, clock, joined, name};

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
/// Weekdays from 1, Monday.
const WEEKDAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
const WEEKS: [&str; 5] = ["first", "second", "third", "fourth", "fifth"];

pub(super) struct English;

fn ordinal(number: u8) -> String {
    let suffix = match (number % 10, number / 10) {
        (_, 1) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{number}{suffix}")
}

fn list<T: Copy>(items: &[T], text: impl Fn(T) -> String) -> String {
    joined(&items.iter().map(|item| text(*item)).collect::<Vec<_>>(), "and")
}

fn minutes(numbers: &Numbers) -> String {
    match numbers {
        Numbers::All => "every minute".to_owned(),
        Numbers::Steps { start: 0, step } => format!("every {step} minutes from the full hour on"),
        Numbers::Steps { start, step } => format!("every {step} minutes from minute {start} of the hour on"),
        Numbers::Range { from, to } => format!("every minute from {from} to {to} past the hour"),
        Numbers::List(list_of) => format!("at {} past the hour", list(list_of, |minute| format!("{minute:02}"))),
    }
}

fn hours(numbers: &Numbers) -> String {
    match numbers {
        Numbers::All => "every hour".to_owned(),
        Numbers::Steps { start, step } => {
            format!("in every {} hour from {} on", ordinal(*step), clock(*start, 0))
        }
        Numbers::Range { from, to } => format!("between {} and {}", clock(*from, 0), clock(*to, 59)),
        Numbers::List(list_of) => format!(
            "in the {} from {}",
            if list_of.len() == 1 { "hour" } else { "hours" },
            list(list_of, |hour| clock(hour, 0))
        ),
    }
}

fn day(shape: &DayShape) -> String {
    match shape {
        DayShape::OfMonth { days, last } => {
            let mut items = Vec::new();
            match days {
                Numbers::All => items.push("every day".to_owned()),
                Numbers::Steps { start, step } => {
                    items.push(format!("every {} day of the month from the {} on", ordinal(*step), ordinal(*start)));
                }
                Numbers::Range { from, to } => {
                    items.push(format!("the {} to {} of the month", ordinal(*from), ordinal(*to)));
                }
                Numbers::List(days) if days.is_empty() => {}
                Numbers::List(days) => items.push(format!("the {} of the month", list(days, ordinal))),
            }
            if *last {
                items.push("the last day of the month".to_owned());
            }
            format!("on {}", joined(&items, "and"))
        }
        DayShape::Weekdays(Numbers::All) => "every day".to_owned(),
        DayShape::Weekdays(Numbers::Range { from, to }) => {
            format!("{} to {}", name(&WEEKDAYS, *from), name(&WEEKDAYS, *to))
        }
        DayShape::Weekdays(Numbers::Steps { start, step }) => {
            let days: Vec<u8> = (*start..=7).step_by(usize::from(*step)).collect();
            format!("on {}", list(&days, |day| name(&WEEKDAYS, day).to_owned()))
        }
        DayShape::Weekdays(Numbers::List(days)) => format!("on {}", list(days, |day| name(&WEEKDAYS, day).to_owned())),
        DayShape::LastWeekday(weekday) => format!("on the last {} of the month", name(&WEEKDAYS, *weekday)),
        DayShape::NthWeekday { weekday, week } => {
            format!("on the {} {} of the month", name(&WEEKS, *week), name(&WEEKDAYS, *weekday))
        }
    }
}

impl Words for English {
    fn every(&self, count: i64, unit: Unit) -> String {
        let unit = match unit {
            Unit::Second => "second",
            Unit::Minute => "minute",
            Unit::Hour => "hour",
            Unit::Day => "day",
            Unit::Week => "week",
        };
        if count == 1 { format!("every {unit}") } else { format!("every {count} {unit}s") }
    }

    fn once(&self, at: DateTime) -> String {
        let weekday = name(&WEEKDAYS, at.weekday().to_monday_one_offset().unsigned_abs());
        let month = name(&MONTHS, at.month().unsigned_abs());
        let seconds = if at.second() == 0 { String::new() } else { format!(":{:02}", at.second()) };
        let time = clock(at.hour().unsigned_abs(), at.minute().unsigned_abs());
        format!("once, on {weekday}, {} {month} {} at {time}{seconds}", at.day(), at.year())
    }

    fn time(&self, time: &TimeShape) -> String {
        match time {
            TimeShape::EveryMinute => "every minute".to_owned(),
            TimeShape::EveryMinutes(step) => format!("every {step} minutes"),
            TimeShape::Hourly(0) => "every hour".to_owned(),
            TimeShape::Hourly(minute) => format!("every hour at {minute:02} past"),
            TimeShape::Times(times) => format!("at {}", list(times, |(hour, minute)| clock(hour, minute))),
            TimeShape::HourlyBetween { minute, from, to } => {
                format!("every hour from {} to {}", clock(*from, *minute), clock(*to, *minute))
            }
            TimeShape::EveryHours { minute, start, step } => {
                format!("every {step} hours from {} on", clock(*start, *minute))
            }
            TimeShape::Mixed { minutes: some, hours: Numbers::All } => minutes(some),
            TimeShape::Mixed { minutes: some, hours: others } => match some {
                Numbers::Steps { start: 0, step } if 60 % step == 0 => {
                    format!("every {step} minutes {}", hours(others))
                }
                _ => format!("{}, {}", minutes(some), hours(others)),
            },
        }
    }

    fn every_day(&self) -> &'static str {
        "every day"
    }

    fn days(&self, days: &[DayShape]) -> String {
        joined(&days.iter().map(day).collect::<Vec<_>>(), "or")
    }

    fn months(&self, months: &Numbers) -> String {
        match months {
            Numbers::All => String::new(),
            Numbers::Steps { start, step } => {
                let months: Vec<u8> = (*start..=12).step_by(usize::from(*step)).collect();
                format!("in {}", list(&months, |month| name(&MONTHS, month).to_owned()))
            }
            Numbers::Range { from, to } => format!("from {} to {}", name(&MONTHS, *from), name(&MONTHS, *to)),
            Numbers::List(months) => format!("in {}", list(months, |month| name(&MONTHS, month).to_owned())),
        }
    }
}
