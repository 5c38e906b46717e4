//! German texts.

use jiff::civil::DateTime;

use super::shape::{DayShape, Numbers, TimeShape};
use super::words::{Unit, Words, clock, joined, name};

const MONTHS: [&str; 12] = [
    "Januar",
    "Februar",
    "März",
    "April",
    "Mai",
    "Juni",
    "Juli",
    "August",
    "September",
    "Oktober",
    "November",
    "Dezember",
];
/// Weekdays from 1, Monday.
const WEEKDAYS: [&str; 7] = ["Montag", "Dienstag", "Mittwoch", "Donnerstag", "Freitag", "Samstag", "Sonntag"];
const WEEKS: [&str; 5] = ["ersten", "zweiten", "dritten", "vierten", "fünften"];

pub(super) struct German;

fn list<T: Copy>(items: &[T], text: impl Fn(T) -> String) -> String {
    joined(&items.iter().map(|item| text(*item)).collect::<Vec<_>>(), "und")
}

fn minutes(numbers: &Numbers) -> String {
    match numbers {
        Numbers::All => "jede Minute".to_owned(),
        Numbers::Steps { start: 0, step } => format!("alle {step} Minuten ab der vollen Stunde"),
        Numbers::Steps { start, step } => format!("alle {step} Minuten ab Minute {start} der Stunde"),
        Numbers::Range { from, to } => format!("jede Minute von Minute {from} bis {to} der Stunde"),
        Numbers::List(list_of) => format!("in Minute {} der Stunde", list(list_of, |minute| minute.to_string())),
    }
}

fn hours(numbers: &Numbers) -> String {
    match numbers {
        Numbers::All => "jede Stunde".to_owned(),
        Numbers::Steps { start, step } => format!("in jeder {step}. Stunde ab {} Uhr", clock(*start, 0)),
        Numbers::Range { from, to } => format!("zwischen {} und {} Uhr", clock(*from, 0), clock(*to, 59)),
        Numbers::List(list_of) => format!(
            "in {} ab {} Uhr",
            if list_of.len() == 1 { "der Stunde" } else { "den Stunden" },
            list(list_of, |hour| clock(hour, 0))
        ),
    }
}

fn day(shape: &DayShape) -> String {
    match shape {
        DayShape::OfMonth { days, last } => {
            let mut items = Vec::new();
            match days {
                Numbers::All => items.push("an jedem Tag".to_owned()),
                Numbers::Steps { start, step } => {
                    items.push(format!("an jedem {step}. Tag des Monats ab dem {start}."));
                }
                Numbers::Range { from, to } => items.push(format!("vom {from}. bis {to}. des Monats")),
                Numbers::List(days) if days.is_empty() => {}
                Numbers::List(days) => {
                    items.push(format!("am {} des Monats", list(days, |day| format!("{day}."))));
                }
            }
            if *last {
                items.push("am letzten Tag des Monats".to_owned());
            }
            joined(&items, "und")
        }
        DayShape::Weekdays(Numbers::All) => "jeden Tag".to_owned(),
        DayShape::Weekdays(Numbers::Range { from, to }) => {
            format!("{} bis {}", name(&WEEKDAYS, *from), name(&WEEKDAYS, *to))
        }
        DayShape::Weekdays(Numbers::Steps { start, step }) => {
            let days: Vec<u8> = (*start..=7).step_by(usize::from(*step)).collect();
            format!("jeden {}", list(&days, |day| name(&WEEKDAYS, day).to_owned()))
        }
        DayShape::Weekdays(Numbers::List(days)) => {
            format!("jeden {}", list(days, |day| name(&WEEKDAYS, day).to_owned()))
        }
        DayShape::LastWeekday(weekday) => format!("am letzten {} im Monat", name(&WEEKDAYS, *weekday)),
        DayShape::NthWeekday { weekday, week } => {
            format!("am {} {} im Monat", name(&WEEKS, *week), name(&WEEKDAYS, *weekday))
        }
    }
}

impl Words for German {
    fn every(&self, count: i64, unit: Unit) -> String {
        let (single, plural) = match unit {
            Unit::Second => ("jede Sekunde", "Sekunden"),
            Unit::Minute => ("jede Minute", "Minuten"),
            Unit::Hour => ("jede Stunde", "Stunden"),
            Unit::Day => ("alle 24 Stunden", "Tage"),
            Unit::Week => ("jede Woche", "Wochen"),
        };
        if count == 1 { single.to_owned() } else { format!("alle {count} {plural}") }
    }

    fn once(&self, at: DateTime) -> String {
        let weekday = name(&WEEKDAYS, at.weekday().to_monday_one_offset().unsigned_abs());
        let month = name(&MONTHS, at.month().unsigned_abs());
        let seconds = if at.second() == 0 { String::new() } else { format!(":{:02}", at.second()) };
        let time = clock(at.hour().unsigned_abs(), at.minute().unsigned_abs());
        format!("einmal, am {weekday}, {}. {month} {} um {time}{seconds} Uhr", at.day(), at.year())
    }

    fn time(&self, time: &TimeShape) -> String {
        match time {
            TimeShape::EveryMinute => "jede Minute".to_owned(),
            TimeShape::EveryMinutes(step) => format!("alle {step} Minuten"),
            TimeShape::Hourly(0) => "jede Stunde".to_owned(),
            TimeShape::Hourly(minute) => format!("jede Stunde {minute} Minuten nach voll"),
            TimeShape::Times(times) => format!("um {} Uhr", list(times, |(hour, minute)| clock(hour, minute))),
            TimeShape::HourlyBetween { minute, from, to } => {
                format!("jede Stunde von {} bis {} Uhr", clock(*from, *minute), clock(*to, *minute))
            }
            TimeShape::EveryHours { minute, start, step } => {
                format!("alle {step} Stunden ab {} Uhr", clock(*start, *minute))
            }
            TimeShape::Mixed { minutes: some, hours: Numbers::All } => minutes(some),
            TimeShape::Mixed { minutes: some, hours: others } => match some {
                Numbers::Steps { start: 0, step } if 60 % step == 0 => {
                    format!("alle {step} Minuten {}", hours(others))
                }
                _ => format!("{}, {}", minutes(some), hours(others)),
            },
        }
    }

    fn every_day(&self) -> &'static str {
        "jeden Tag"
    }

    fn days(&self, days: &[DayShape]) -> String {
        joined(&days.iter().map(day).collect::<Vec<_>>(), "oder")
    }

    fn months(&self, months: &Numbers) -> String {
        match months {
            Numbers::All => String::new(),
            Numbers::Steps { start, step } => {
                let months: Vec<u8> = (*start..=12).step_by(usize::from(*step)).collect();
                format!("im {}", list(&months, |month| name(&MONTHS, month).to_owned()))
            }
            Numbers::Range { from, to } => format!("von {} bis {}", name(&MONTHS, *from), name(&MONTHS, *to)),
            Numbers::List(months) => format!("im {}", list(months, |month| name(&MONTHS, month).to_owned())),
        }
    }
}
