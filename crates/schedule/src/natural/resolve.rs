//! A draft as one schedule, or nothing where it cannot be expressed.

use agentd_base::Timestamp;
use jiff::ToSpan;
use jiff::civil::{Date, DateTime};

use super::draft::{ClockTime, Draft, Offset, Week};
use super::token::{Part, Unit};
use crate::schedule::Schedule;
use crate::spec::ScheduleSpec;
use crate::zone::Zone;

/// When nothing says at what time.
const DEFAULT_HOUR: u8 = 9;
const DAY_SECONDS: i64 = 86_400;

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
        if let Some(offset) = draft.offset {
            return if draft.repeats || (draft.has_day() && draft.relative_day != Some(0)) {
                None
            } else {
                self.after(offset)
            };
        }
        if let Some(minute) = draft.minute_past {
            return self.hourly(minute);
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
            Some((count, Unit::Hour)) => self.within_days(i64::from(count) * 3600),
            Some((count, Unit::Day)) => self.daily(count),
            Some((count, Unit::Week)) => self.weekly(count),
            Some((count, Unit::Month)) => self.monthly(count),
            Some((count, Unit::Quarter)) => self.monthly(count.saturating_mul(3)),
            Some((count, Unit::Year)) => self.yearly(count),
            None if draft.window.is_some() => None,
            None if draft.repeats || (draft.part_repeats && draft.relative_day.is_none()) => self.repeated(),
            None => self.once(),
        }
    }

    /// The times of the day, in minutes and hours of cron.
    fn time_fields(&mut self) -> Option<String> {
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
                    ClockTime::certain(part.hour(), 0)
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
            if !time.certain && (1..=6).contains(&time.hour) {
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
        let months: Vec<String> = self.draft.months.iter().map(ToString::to_string).collect();
        if months.is_empty() { "*".to_owned() } else { months.join(",") }
    }

    fn weekdays_field(&self) -> Option<String> {
        let draft = self.draft;
        let mut days = if draft.weekdays == 0 { 0x7f } else { draft.weekdays };
        days &= !draft.except;
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
        // Cron counts anew each month: the nearest that keeps the time of the day.
        if count > 15 {
            return None;
        }
        self.doubt.add(0.15);
        let time = self.time_fields()?;
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
        let mut days: Vec<String> = draft.month_days.iter().map(ToString::to_string).collect();
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

    /// "twice a day" and its like, at times that are usual.
    fn counted(&mut self, count: u32, unit: Unit) -> Option<ScheduleSpec> {
        let draft = self.draft;
        if count == 1 || draft.times.len() == usize::try_from(count).ok()? {
            return match unit {
                Unit::Day => self.daily(1),
                Unit::Week => self.weekly(1),
                Unit::Month => self.monthly(1),
                Unit::Quarter => self.monthly(3),
                Unit::Year => self.yearly(1),
                Unit::Hour => self.within_days(3600),
                Unit::Minute | Unit::Second => self.within_days(60),
            };
        }
        if unit == Unit::Week && draft.weekday_count == count {
            return self.weekly(1);
        }
        if draft.has_day() && !(unit == Unit::Day && draft.weekdays != 0) {
            return None;
        }
        self.doubt.add(0.1);
        let weekdays = self.weekdays_field()?;
        let days = match (unit, count) {
            (Unit::Week, 2) => Some("* * 1,4"),
            (Unit::Week, 3) => Some("* * 1,3,5"),
            (Unit::Week, 5) => Some("* * 1-5"),
            (Unit::Month, 2) => Some("1,15 * *"),
            (Unit::Year, 2) => Some("1 1,7 *"),
            (Unit::Year, 4) => Some("1 */3 *"),
            _ => None,
        };
        if let Some(days) = days {
            let time = self.time_fields()?;
            return Some(self.cron(&format!("{time} {days}")));
        }
        if !draft.times.is_empty() || draft.part.is_some() || draft.window.is_some() {
            return None;
        }
        match (unit, count) {
            (Unit::Day, 2) => Some(self.cron(&format!("0 9,21 * * {weekdays}"))),
            (Unit::Day, 3) => Some(self.cron(&format!("0 8,14,20 * * {weekdays}"))),
            (Unit::Day, 4) => Some(self.cron(&format!("0 8,12,16,20 * * {weekdays}"))),
            (Unit::Day, 5..=24) if 24 % count == 0 => Some(ScheduleSpec::every(DAY_SECONDS / i64::from(count))),
            (Unit::Hour, 2..=60) if 60 % count == 0 => Some(ScheduleSpec::every(3600 / i64::from(count))),
            (Unit::Minute, 2..=60) if 60 % count == 0 => Some(ScheduleSpec::every(60 / i64::from(count))),
            _ => None,
        }
    }

    /// An interval of hours, minutes or seconds, perhaps within a part of the day or on some days.
    fn within_days(&mut self, seconds: i64) -> Option<ScheduleSpec> {
        let draft = self.draft;
        let by_date = !draft.weeks.is_empty()
            || !draft.month_days.is_empty()
            || !draft.dates.is_empty()
            || draft.last_day
            || draft.relative_day.is_some_and(|days| days != 0)
            || draft.next_period.is_some();
        if by_date || !draft.times.is_empty() || draft.part.is_some() {
            return None;
        }
        let days = self.weekdays_field()?;
        if draft.window.is_none() && days == "*" && draft.months.is_empty() {
            return Some(ScheduleSpec::every(seconds));
        }
        let months = self.months_field();
        let minutes = (seconds % 60 == 0).then_some(seconds / 60)?;
        let (start, end) = match draft.window {
            Some((start, end)) if start.hour < end.hour => (Some(start), Some(end)),
            Some(_) => return None,
            None => (None, None),
        };
        if minutes % 60 == 0 {
            let hours = minutes / 60;
            let minute = start.map_or(0, |start| start.minute);
            if end.is_some_and(|end| end.minute != minute && end.minute != 0) || 24 % hours != 0 && start.is_none() {
                return None;
            }
            let step = if hours == 1 { String::new() } else { format!("/{hours}") };
            let range = match (start, end) {
                (Some(start), Some(end)) => {
                    let last = if end.minute < minute { end.hour - 1 } else { end.hour };
                    format!("{}-{last}", start.hour)
                }
                _ => "*".to_owned(),
            };
            return Some(self.cron(&format!("{minute} {range}{step} * {months} {days}")));
        }
        if 60 % minutes != 0 {
            return None;
        }
        let range = match (start, end) {
            (Some(start), Some(end)) if start.minute == 0 && end.minute == 0 => {
                let last = end.hour - 1;
                if last == start.hour { start.hour.to_string() } else { format!("{}-{last}", start.hour) }
            }
            (Some(_), _) => return None,
            _ => "*".to_owned(),
        };
        let step = if minutes == 1 { "*".to_owned() } else { format!("*/{minutes}") };
        Some(self.cron(&format!("{step} {range} * {months} {days}")))
    }

    /// At one minute of every hour.
    fn hourly(&mut self, minute: u8) -> Option<ScheduleSpec> {
        let draft = self.draft;
        let plain =
            draft.times.is_empty() && draft.month_days.is_empty() && draft.dates.is_empty() && draft.weeks.is_empty();
        if !plain || draft.relative_day.is_some() || draft.last_day || draft.part.is_some() {
            return None;
        }
        let hours = match draft.window {
            Some((start, end)) if start.hour < end.hour => format!("{}-{}", start.hour, end.hour),
            Some(_) => return None,
            None => "*".to_owned(),
        };
        Some(self.cron(&format!("{minute} {hours} * {} {}", self.months_field(), self.weekdays_field()?)))
    }

    /// "in 20 minutes", "in three days at 9am".
    fn after(&mut self, offset: Offset) -> Option<ScheduleSpec> {
        let draft = self.draft;
        let wall = self.zone.wall(self.now);
        let days = match offset {
            Offset::Seconds(seconds) => {
                if !draft.times.is_empty() || draft.part.is_some() {
                    return None;
                }
                let at = self.now.as_micros().checked_add(seconds.checked_mul(1_000_000)?)?;
                return Some(self.at_instant(Timestamp::from_micros(at)));
            }
            Offset::Days(days) => days.days(),
            Offset::Months(months) => months.months(),
        };
        let later = wall.checked_add(days).ok()?;
        if draft.times.is_empty() && draft.part.is_none() {
            return self.at_wall(later);
        }
        let time = self.one_time()?;
        self.at_date(later.date(), time)
    }

    fn one_time(&mut self) -> Option<ClockTime> {
        match self.times(true).as_slice() {
            [time] => Some(*time),
            _ => None,
        }
    }

    fn at_instant(&self, instant: Timestamp) -> ScheduleSpec {
        ScheduleSpec { timezone: Some(self.zone.name().to_owned()), ..ScheduleSpec::at(instant.to_string()) }
    }

    fn at_wall(&self, wall: DateTime) -> Option<ScheduleSpec> {
        self.zone.instant(wall).map(|instant| self.at_instant(instant))
    }

    fn at_date(&self, date: Date, time: ClockTime) -> Option<ScheduleSpec> {
        let hour = i8::try_from(time.hour).ok()?;
        let minute = i8::try_from(time.minute).ok()?;
        self.at_wall(DateTime::new(date.year(), date.month(), date.day(), hour, minute, 0, 0).ok()?)
    }

    /// One date and time to come.
    fn once(&mut self) -> Option<ScheduleSpec> {
        let draft = self.draft;
        let today = self.zone.wall(self.now).date();
        let kinds = [
            draft.weekdays != 0,
            !draft.weeks.is_empty() || draft.last_day,
            !draft.month_days.is_empty(),
            !draft.dates.is_empty(),
            draft.relative_day.is_some(),
            draft.next_period.is_some(),
        ];
        // "on Friday, March 20": the date says it, the weekday must agree.
        let dated_weekday = kinds[0] && kinds[3];
        if kinds.iter().filter(|present| **present).count() > 1 && !dated_weekday {
            return None;
        }
        if draft.except != 0 || !draft.months.is_empty() || draft.window.is_some() || kinds[1] {
            return None;
        }
        if !draft.has_day() {
            return self.next_such_time(today);
        }
        // "today" alone says nothing about when.
        if draft.relative_day == Some(0) && draft.times.is_empty() && draft.part.is_none() {
            return None;
        }
        let time = if draft.relative_day == Some(0) { self.time_of_today()? } else { self.one_time()? };
        if let Some(days) = draft.relative_day {
            return self.at_date(today.checked_add(days.days()).ok()?, time);
        }
        if let Some(period) = draft.next_period {
            self.doubt.add(0.05);
            let date = match period {
                Unit::Month => today.first_of_month().checked_add(1.month()).ok()?,
                _ => self.coming(1, today.tomorrow().ok()?)?,
            };
            return self.at_date(date, time);
        }
        if let [date] = draft.dates.as_slice() {
            return self.on_calendar_date(*date, time, today, dated_weekday);
        }
        if let [day] = draft.month_days.as_slice() {
            let mut month = today.first_of_month();
            for _ in 0..12 {
                if let Ok(date) = Date::new(month.year(), month.month(), i8::try_from(*day).ok()?)
                    && let Some(spec) = self.at_date(date, time).filter(|spec| self.is_to_come(spec))
                {
                    return Some(spec);
                }
                month = month.checked_add(1.month()).ok()?;
            }
            return None;
        }
        if draft.weekdays.count_ones() != 1 {
            // "this weekend"
            let saturday = self.coming(6, today)?;
            return if draft.weekdays == 0b100_0001 { self.at_date(saturday, time) } else { None };
        }
        let weekday = draft.weekdays.trailing_zeros();
        let from = if draft.next_weekday { today.tomorrow().ok()? } else { today };
        let date = self.coming(weekday, from)?;
        if draft.next_weekday && date.since(today).ok()?.get_days() < 6 {
            // "next Friday" on a Tuesday is this week's for some and the week after for others.
            self.doubt.add(0.1);
        }
        let spec = self.at_date(date, time)?;
        if self.is_to_come(&spec) { Some(spec) } else { self.at_date(date.checked_add(7.days()).ok()?, time) }
    }

    fn on_calendar_date(
        &self,
        date: super::draft::CalendarDate,
        time: ClockTime,
        today: Date,
        dated_weekday: bool,
    ) -> Option<ScheduleSpec> {
        let (month, day) = (i8::try_from(date.month).ok()?, i8::try_from(date.day).ok()?);
        let years = match date.year {
            Some(year) => year..=year,
            // 29 February may be eight years away.
            None => today.year()..=today.year().checked_add(8)?,
        };
        for year in years {
            let Ok(found) = Date::new(year, month, day) else { continue };
            let weekday = found.weekday().to_sunday_zero_offset().unsigned_abs();
            if dated_weekday && self.draft.weekdays >> weekday & 1 == 0 {
                return None;
            }
            if let Some(spec) = self.at_date(found, time).filter(|spec| self.is_to_come(spec)) {
                return Some(spec);
            }
        }
        None
    }

    /// "at 5pm": today or tomorrow. "at 3": the next three o'clock.
    fn next_such_time(&mut self, today: Date) -> Option<ScheduleSpec> {
        if self.draft.times.is_empty() {
            return None;
        }
        let time = self.one_time()?;
        let today_spec = self.at_date(today, time)?;
        if self.is_to_come(&today_spec) {
            return Some(today_spec);
        }
        self.at_date(today.tomorrow().ok()?, time)
    }

    /// A time of today that is over but could be an afternoon's is one.
    fn time_of_today(&mut self) -> Option<ClockTime> {
        let time = self.one_time()?;
        let later = ClockTime { hour: time.hour + 12, ..time };
        if !time.certain && time.hour < 12 {
            let today = self.zone.wall(self.now).date();
            let over = self.at_date(today, time).is_none_or(|spec| !self.is_to_come(&spec));
            return Some(if over { later } else { time });
        }
        Some(time)
    }

    fn coming(&self, weekday: u32, from: Date) -> Option<Date> {
        let today = u32::from(from.weekday().to_sunday_zero_offset().unsigned_abs());
        from.checked_add(i64::from((weekday + 7 - today) % 7).days()).ok()
    }

    fn is_to_come(&self, spec: &ScheduleSpec) -> bool {
        spec.check(self.zone).is_ok_and(|schedule| schedule.next_after(self.now, self.now).is_some())
    }
}
