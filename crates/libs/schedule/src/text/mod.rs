//! Schedules as a person would say them. `shape` finds the patterns in the sets of an expression, once for all
//! languages; `english` and `german` have the words.

mod english;
mod german;
mod shape;

use crate::language::Language;
use crate::schedule::{At, Cron, Every, Schedule};
use crate::zone::Zone;
use shape::{DayShape, Numbers, TimeShape};

/// The words of a language. Each part is a phrase; the parts are joined by commas.
trait Words {
    fn every(&self, count: i64, unit: Unit) -> String;
    fn once(&self, at: jiff::civil::DateTime) -> String;
    fn time(&self, time: &TimeShape) -> String;
    fn every_day(&self) -> &'static str;
    fn days(&self, days: &[DayShape]) -> String;
    fn months(&self, months: &Numbers) -> String;
}

/// Units of intervals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Second,
    Minute,
    Hour,
    Day,
    Week,
}

/// The whole text of a schedule, its zone in brackets.
pub(crate) fn describe(schedule: &Schedule, language: Language, zone: &Zone) -> String {
    let words: &dyn Words = match language {
        Language::English => &english::English,
        Language::German => &german::German,
    };
    let text = match schedule {
        Schedule::Cron(cron) => describe_cron(cron, words),
        Schedule::Every(every) => describe_every(every, words),
        Schedule::At(at) => describe_at(at, words, zone),
    };
    capitalized(&text)
}

fn describe_every(every: &Every, words: &dyn Words) -> String {
    let seconds = every.interval_seconds();
    let units =
        [(Unit::Week, 7 * 86_400), (Unit::Day, 86_400), (Unit::Hour, 3_600), (Unit::Minute, 60), (Unit::Second, 1)];
    let fitting = units.into_iter().find(|(_, length)| seconds % length == 0);
    let (unit, length) = fitting.unwrap_or((Unit::Second, 1));
    words.every(seconds / length, unit)
}

fn describe_at(at: &At, words: &dyn Words, otherwise: &Zone) -> String {
    let zone = at.zone().unwrap_or(otherwise);
    format!("{} ({zone})", words.once(zone.wall(at.instant())))
}

fn describe_cron(cron: &Cron, words: &dyn Words) -> String {
    let expression = cron.expression();
    let time = shape::time(expression);
    let days = shape::days(expression);
    let months = Numbers::of(u64::from(expression.months()), 1, 12);
    let mut parts = vec![words.time(&time)];
    if !days.is_empty() {
        parts.push(words.days(&days));
    } else if matches!(time, TimeShape::Times(_)) {
        parts.push(words.every_day().to_owned());
    }
    if months != Numbers::All {
        parts.push(words.months(&months));
    }
    format!("{} ({})", parts.join(", "), cron.zone())
}

fn capitalized(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}

/// `a`, `a and b`, `a, b and c`.
fn joined(items: &[String], and: &str) -> String {
    match items {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} {and} {last}", first.join(", ")),
    }
}

fn clock(hour: u8, minute: u8) -> String {
    format!("{hour:02}:{minute:02}")
}
