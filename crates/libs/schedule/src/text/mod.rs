//! Human-readable schedules. `shape` detects patterns in the sets of an expression for all languages; `english` and
//! `german` format them.

mod english;
mod german;
mod shape;
mod words;

use crate::language::Language;
use crate::schedule::{At, Cron, Every, Schedule};
use crate::zone::Zone;
use english::English;
use german::German;
use shape::{Numbers, TimeShape};
use words::{Unit, Words};

impl Schedule {
    /// Formats the schedule, e.g. `At 09:00, Monday to Friday (Europe/Berlin)`. A date without a zone is shown in
    /// `zone`.
    #[must_use]
    pub fn human_readable(&self, language: impl Into<Language>, zone: &Zone) -> String {
        let words: &dyn Words = match language.into() {
            Language::English => &English,
            Language::German => &German,
        };
        let text = match self {
            Self::Cron(cron) => describe_cron(cron, words),
            Self::Every(every) => describe_every(every, words),
            Self::At(at) => describe_at(at, words, zone),
        };
        capitalized(&text)
    }
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
