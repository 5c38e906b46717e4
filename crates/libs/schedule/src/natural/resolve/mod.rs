//! A draft as one schedule, or nothing where it cannot be expressed: here what repeats by days, weeks, months and
//! years; in `within_day` what repeats within a day, in `once` what comes once.

mod once;
mod within_day;

use agentd_base::Timestamp;

use super::draft::{ClockTime, Draft, Offset, Week};
use super::token::{Part, Unit};
use crate::schedule::Schedule;
use crate::spec::ScheduleSpec;
use crate::zone::Zone;

/// When nothing says at what time.
const DEFAULT_HOUR: u8 = 9;
const DAY_SECONDS: i64 = 86_400;
/// The doubt of what cron holds only until the month ends: too much to create anything without asking.
pub(super) const ROUGH: f64 = 0.5;

/// What had to be assumed, as doubt to take off the confidence.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Doubt(pub(super) f64);

impl Doubt {
    fn add(&mut self, doubt: f64) {
        self.0 += doubt;
    }
}

/// The schedule, and how much of it was assumed.
pub(super) fn resolve(draft: &Draft, now: Timestamp, zone: &Zone) -> Option<(Schedule, Doubt)> {
    if draft.impossible || draft.is_empty() {
        return None;
    }
    let zone = draft.zone.as_ref().unwrap_or(zone);
    let mut resolver = Resolver { draft, now, zone, doubt: Doubt::default() };
    let spec = resolver.spec()?;
    let schedule = spec.check(zone).ok()?;
    // A date that is over is no schedule.
    schedule.next_after(now, now)?;
    Some((schedule, resolver.doubt))
}

struct Resolver<'a> {
    draft: &'a Draft,
    now: Timestamp,
    zone: &'a Zone,
    doubt: Doubt,
}

impl Resolver<'_> {
    fn spec(&mut self) -> Option<ScheduleSpec> {
        let draft = self.draft;
        let names_minutes = draft.each_hour || !draft.minutes.is_empty();
        if let Some(offset) = draft.offset {
            if names_minutes || draft.window.is_some() || !draft.months.is_empty() {
                return None;
            }
            // "Monday in two weeks"
            if let (Offset::Days(days), false, true) = (offset, draft.repeats, draft.names_one_day())
                && draft.relative_day != Some(0)
            {
                return if days % 7 == 0 { self.once(days) } else { None };
            }
            return if draft.repeats || (draft.has_day() && draft.relative_day != Some(0)) {
                None
            } else {
                self.after(offset)
            };
        }
        // Of two lengths that both repeat, one would be passed over.
        let once_or_daily = matches!(draft.interval, None | Some((1, _)));
        if draft.further_days > 0 && draft.repeats
            || (draft.count_per.is_some() || draft.interval_seconds.is_some()) && !once_or_daily
            || draft.count_per.is_some() && draft.interval_seconds.is_some()
        {
            return None;
        }
        if names_minutes {
            return self.within_days(i64::from(self.hours_of_rhythm()?) * 3600);
        }
        if let Some((count, unit)) = draft.count_per {
            return self.counted(count, unit);
        }
        if let Some(seconds) = draft.interval_seconds {
            return self.within_days(seconds);
        }
        // "daily" as an adjective counts beside a time, where nothing else repeats.
        let adjective = draft.adjective.filter(|_| !draft.repeats && (!draft.times.is_empty() || draft.part_repeats));
        match draft.interval.or(adjective) {
            Some((count, Unit::Second)) => self.within_days(i64::from(count)),
            Some((count, Unit::Minute)) => self.within_days(i64::from(count) * 60),
            // "every 24h at 9am"
            Some((count, Unit::Hour)) if count > 0 && count % 24 == 0 && !draft.times.is_empty() => {
                self.daily(count / 24)
            }
            Some((count, Unit::Hour)) => self.within_days(i64::from(count) * 3600),
            Some((count, Unit::Day)) => self.daily(count),
            Some((count, Unit::Week)) => self.weekly(count),
            Some((count, Unit::Month)) => self.monthly(count),
            Some((count, Unit::Quarter)) => self.monthly(count.saturating_mul(3)),
            Some((count, Unit::Year)) => self.yearly(count),
            None if draft.window.is_some() => None,
            None if draft.repeats || (draft.part_repeats && draft.relative_day.is_none()) => self.repeated(),
            None if draft.always => {
                if draft.has_day() || !draft.times.is_empty() || draft.part.is_some() {
                    self.repeated()
                } else {
                    None
                }
            }
            None => self.once(draft.further_days),
        }
    }

    /// The times of the day, in minutes and hours of cron.
    fn time_fields(&mut self) -> Option<String> {
        let draft = self.draft;
        let by_date = !draft.weeks.is_empty()
            || !draft.month_days.is_empty()
            || draft.last_day
            || !draft.dates.is_empty()
            || !draft.months.is_empty();
        // The day after some date is nothing that cron holds.
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

    /// The times that were named, else the part of the day, else nine o'clock.
    fn times(&mut self, once: bool) -> Vec<ClockTime> {
        let draft = self.draft;
        if draft.times.is_empty() {
            return vec![match draft.part {
                // "tonight" by itself.
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
            // Alone, any hour may be a morning's or an evening's.
            let ambiguous = if once && !draft.has_day() { 1..=11 } else { 1..=6 };
            if !time.certain && ambiguous.contains(&time.hour) {
                self.doubt.add(0.12);
                // Who speaks of one day and says "at 3" is hardly up at night.
                if once && time.hour <= 5 {
                    time.hour += 12;
                }
            }
        }
        times
    }

    fn months_field(&self) -> String {
        if self.draft.months.is_empty() { "*".to_owned() } else { list(&self.draft.months) }
    }

    fn weekdays_field(&self) -> Option<String> {
        let draft = self.draft;
        let mut days = if draft.weekdays == 0 { 0x7f } else { draft.weekdays };
        days &= !draft.except;
        let ends = draft.times.iter().filter(|time| time.ends_day).count();
        if ends > 0 && days != 0x7f {
            // "every Monday at 24:00" is the beginning of Tuesday; another time besides would stay on Monday.
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

    fn cron(&self, fields: &str) -> ScheduleSpec {
        ScheduleSpec::cron(fields, self.zone.name())
    }

    /// Weekdays, days of the month, or dates that come again.
    fn repeated(&mut self) -> Option<ScheduleSpec> {
        let draft = self.draft;
        if draft.relative_day.is_some() || draft.next_period.is_some() || draft.next_weekday {
            return None;
        }
        if !draft.weeks.is_empty() || !draft.month_days.is_empty() || draft.last_day {
            return self.monthly(1);
        }
        if !draft.dates.is_empty() {
            return self.yearly(1);
        }
        if !draft.months.is_empty() && draft.weekdays == 0 {
            let time = self.time_fields()?;
            self.doubt.add(0.05);
            return Some(self.cron(&format!("{time} 1 {} *", self.months_field())));
        }
        self.daily(1)
    }

    fn daily(&mut self, count: u32) -> Option<ScheduleSpec> {
        let draft = self.draft;
        let by_month = !draft.weeks.is_empty() || !draft.month_days.is_empty() || draft.last_day;
        if by_month || !draft.dates.is_empty() || draft.window.is_some() {
            return if count == 1 && draft.interval.is_none() { self.repeated_by_month() } else { None };
        }
        if draft.relative_day.is_some() || draft.next_period.is_some() {
            return None;
        }
        if count == 1 {
            let time = self.time_fields()?;
            return Some(self.cron(&format!("{time} * {} {}", self.months_field(), self.weekdays_field()?)));
        }
        if draft.weekdays != 0 || draft.except != 0 || !draft.months.is_empty() {
            return None;
        }
        if draft.times.is_empty() && draft.part.is_none() {
            return Some(ScheduleSpec::every(i64::from(count).checked_mul(DAY_SECONDS)?));
        }
        let time = self.time_fields()?;
        if count == 7 {
            // A week on the weekday of the next such time.
            let daily = self.cron(&format!("{time} * * *")).check(self.zone).ok()?;
            let weekday = self.zone.wall(daily.next_after(self.now, self.now)?).weekday().to_sunday_zero_offset();
            self.doubt.add(0.05);
            return Some(self.cron(&format!("{time} * * {weekday}")));
        }
        // Cron counts anew each month: the nearest that keeps the time of the day. The longer the step, the more of
        // it is wrong where a month ends.
        match count {
            0..=3 => self.doubt.add(0.15),
            4..=15 => self.doubt.add(ROUGH),
            _ => return None,
        }
        Some(self.cron(&format!("{time} */{count} * *")))
    }

    fn repeated_by_month(&mut self) -> Option<ScheduleSpec> {
        if self.draft.window.is_some() { None } else { self.repeated() }
    }

    fn weekly(&mut self, count: u32) -> Option<ScheduleSpec> {
        let draft = self.draft;
        if !draft.weeks.is_empty() || !draft.month_days.is_empty() || !draft.dates.is_empty() || draft.last_day {
            return None;
        }
        if draft.relative_day.is_some() || draft.window.is_some() || draft.next_period.is_some() {
            return None;
        }
        if count == 1 {
            let time = self.time_fields()?;
            if draft.weekdays == 0 {
                self.doubt.add(0.05);
                return Some(self.cron(&format!("{time} * {} 1", self.months_field())));
            }
            return Some(self.cron(&format!("{time} * {} {}", self.months_field(), self.weekdays_field()?)));
        }
        // The weekday of every other week is nothing that cron or an interval holds.
        let plain = draft.weekdays == 0 && draft.times.is_empty() && draft.part.is_none() && draft.months.is_empty();
        if plain { Some(ScheduleSpec::every(i64::from(count).checked_mul(7 * DAY_SECONDS)?)) } else { None }
    }

    fn monthly(&mut self, count: u32) -> Option<ScheduleSpec> {
        let draft = self.draft;
        let plain = draft.dates.is_empty() && draft.relative_day.is_none() && draft.window.is_none();
        if !plain || draft.next_period.is_some() || draft.weekdays != 0 || draft.except != 0 {
            return None;
        }
        let months = match count {
            1 => self.months_field(),
            _ if !draft.months.is_empty() => return None,
            2 | 3 | 4 | 6 => format!("*/{count}"),
            12 => "1".to_owned(),
            _ => return None,
        };
        let time = self.time_fields()?;
        if !draft.weeks.is_empty() {
            if !draft.month_days.is_empty() || draft.last_day {
                return None;
            }
            let weekdays: Vec<String> = draft
                .weeks
                .iter()
                .map(|(week, day)| match week {
                    Week::Nth(week) => format!("{day}#{week}"),
                    Week::Last => format!("{day}L"),
                })
                .collect();
            return Some(self.cron(&format!("{time} * {months} {}", weekdays.join(","))));
        }
        let mut days: Vec<String> = Vec::new();
        if !draft.month_days.is_empty() {
            days.push(list(&draft.month_days));
        }
        if draft.last_day {
            days.push("L".to_owned());
        }
        if days.is_empty() {
            self.doubt.add(0.05);
            days.push("1".to_owned());
        }
        Some(self.cron(&format!("{time} {} {months} *", days.join(","))))
    }

    fn yearly(&mut self, count: u32) -> Option<ScheduleSpec> {
        let draft = self.draft;
        // "every year on the second Sunday in May"
        if count == 1 && !draft.weeks.is_empty() && !draft.months.is_empty() {
            return self.monthly(1);
        }
        let by_day = draft.weekdays != 0 || !draft.weeks.is_empty() || draft.relative_day.is_some() || draft.last_day;
        if count != 1 || by_day || draft.window.is_some() || !draft.month_days.is_empty() {
            return None;
        }
        let time = self.time_fields()?;
        if draft.dates.is_empty() {
            self.doubt.add(0.05);
            let month = if draft.months.is_empty() { "1".to_owned() } else { self.months_field() };
            return Some(self.cron(&format!("{time} 1 {month} *")));
        }
        let (first, rest) = draft.dates.split_first()?;
        if first.year.is_some() {
            return None;
        }
        let (mut months, mut days) = (vec![first.month], vec![first.day]);
        for date in rest {
            months.push(date.month);
            days.push(date.day);
        }
        months.sort_unstable();
        months.dedup();
        days.sort_unstable();
        days.dedup();
        // Two dates are one expression only when they share the day or the month.
        if months.len() > 1 && days.len() > 1 {
            return None;
        }
        let list = |numbers: &[u8]| numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        Some(self.cron(&format!("{time} {} {} *", list(&days), list(&months))))
    }
}

/// Numbers as cron lists them: "1,15", "6-8,11".
fn list(numbers: &[u8]) -> String {
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
