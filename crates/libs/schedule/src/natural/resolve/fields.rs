//! Fields of a cron expression: times of day, weekdays and months.

use agentd_base::Timestamp;

use super::super::draft::{ClockTime, Draft};
use super::super::token::Part;
use crate::spec::ScheduleSpec;
use crate::zone::Zone;

/// Default hour if no time is specified.
const DEFAULT_HOUR: u8 = 9;
pub(super) const DAY_SECONDS: i64 = 86_400;
/// Doubt for expressions that are only correct until the end of the month: too high to create anything without
/// confirmation.
pub(in super::super) const APPROXIMATION_DOUBT: f64 = 0.5;

/// Doubt due to assumptions, subtracted from the confidence.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(in super::super) struct Doubt(pub(in super::super) f64);

impl Doubt {
    pub(super) fn add(&mut self, doubt: f64) {
        self.0 += doubt;
    }
}

pub(super) struct Resolver<'a> {
    pub(super) draft: &'a Draft,
    pub(super) now: Timestamp,
    pub(super) zone: &'a Zone,
    pub(super) doubt: Doubt,
}

impl Resolver<'_> {
    /// Returns the minute and hour fields of the times.
    pub(super) fn time_fields(&mut self) -> Option<String> {
        let draft = self.draft;
        let by_date = !draft.weeks.is_empty()
            || !draft.month_days.is_empty()
            || draft.last_day
            || !draft.dates.is_empty()
            || !draft.months.is_empty();
        // Cron cannot express the day after a date.
        if by_date && draft.times.iter().any(|time| time.ends_day) {
            return None;
        }
        let times = self.times(false);
        let first = times.first().copied().unwrap_or(ClockTime::certain(DEFAULT_HOUR, 0));
        let list = |numbers: &mut Vec<u8>| {
            numbers.sort_unstable();
            numbers.dedup();
            numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
        };
        if times.iter().all(|time| time.minute == first.minute) {
            let mut hours: Vec<u8> = times.iter().map(|time| time.hour).collect();
            return Some(format!("{} {}", first.minute, list(&mut hours)));
        }
        // Different minutes fit into one expression only within one hour.
        if times.iter().all(|time| time.hour == first.hour) {
            let mut minutes: Vec<u8> = times.iter().map(|time| time.minute).collect();
            return Some(format!("{} {}", list(&mut minutes), first.hour));
        }
        None
    }

    /// Returns the named times, else the part of the day, else nine o'clock.
    pub(super) fn times(&mut self, once: bool) -> Vec<ClockTime> {
        let draft = self.draft;
        if draft.times.is_empty() {
            return vec![match draft.part {
                // "tonight" on its own.
                Some(Part::Night) if draft.relative_day == Some(0) => {
                    self.doubt.add(0.05);
                    ClockTime::certain(20, 0)
                }
                Some(part) => {
                    self.doubt.add(0.05);
                    let parts = std::iter::once(part).chain(draft.more_parts.iter().copied());
                    return parts.map(|part| ClockTime::certain(part.hour(), 0)).collect();
                }
                None => {
                    self.doubt.add(0.1);
                    ClockTime::certain(DEFAULT_HOUR, 0)
                }
            }];
        }
        let mut times = draft.times.clone();
        for time in &mut times {
            if let Some(part) = draft.part {
                *time = time.in_part(part);
            }
            // Without further information an hour may be in the morning or in the evening.
            let ambiguous = if once && !draft.has_day() { 1..=11 } else { 1..=6 };
            if !time.certain && ambiguous.contains(&time.hour) {
                self.doubt.add(0.12);
                // For a single day, "at 3" hardly means the night.
                if once && time.hour <= 5 {
                    time.hour += 12;
                }
            }
        }
        times
    }

    pub(super) fn months_field(&self) -> String {
        if self.draft.months.is_empty() { "*".to_owned() } else { list(&self.draft.months) }
    }

    pub(super) fn weekdays_field(&self) -> Option<String> {
        let draft = self.draft;
        let mut days = if draft.weekdays == 0 { 0x7f } else { draft.weekdays };
        days &= !draft.except;
        let ends = draft.times.iter().filter(|time| time.ends_day).count();
        if ends > 0 && days != 0x7f {
            // "every Monday at 24:00" is the start of Tuesday; other times would remain on Monday.
            if ends < draft.times.len() {
                return None;
            }
            days = ((days << 1) | (days >> 6)) & 0x7f;
        }
        Some(match days {
            0 => return None,
            0x7f => "*".to_owned(),
            0b011_1110 => "1-5".to_owned(),
            days => {
                let list: Vec<u8> = (0..7u8).filter(|day| days >> day & 1 == 1).collect();
                match list.as_slice() {
                    [first, .., last] if list.len() > 2 && usize::from(last - first) + 1 == list.len() => {
                        format!("{first}-{last}")
                    }
                    _ => list.iter().map(ToString::to_string).collect::<Vec<_>>().join(","),
                }
            }
        })
    }

    pub(super) fn cron(&self, fields: &str) -> ScheduleSpec {
        ScheduleSpec::cron(fields, self.zone.name())
    }
}

/// Formats numbers as a cron list: "1,15", "6-8,11".
pub(super) fn list(numbers: &[u8]) -> String {
    let mut numbers = numbers.to_vec();
    numbers.sort_unstable();
    numbers.dedup();
    let runs = numbers.chunk_by(|left, right| left + 1 == *right);
    let written = runs.map(|run| match run {
        [first, _, .., last] => format!("{first}-{last}"),
        few => few.iter().map(ToString::to_string).collect::<Vec<_>>().join(","),
    });
    written.collect::<Vec<_>>().join(",")
}
