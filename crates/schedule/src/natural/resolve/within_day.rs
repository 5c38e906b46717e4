//! What repeats several times a day, and "twice a week".

use super::super::draft::ClockTime;
use super::super::token::Unit;
use super::{DAY_SECONDS, Resolver};
use crate::spec::ScheduleSpec;

impl Resolver<'_> {
    /// "twice a day" and its like, at times that are usual.
    pub(super) fn counted(&mut self, count: u32, unit: Unit) -> Option<ScheduleSpec> {
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
    pub(super) fn within_days(&mut self, seconds: i64) -> Option<ScheduleSpec> {
        let draft = self.draft;
        let by_date = !draft.weeks.is_empty()
            || !draft.month_days.is_empty()
            || !draft.dates.is_empty()
            || draft.last_day
            || draft.relative_day.is_some_and(|days| days != 0)
            || draft.next_period.is_some()
            || draft.zone.is_some() && draft.window.is_none();
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
            // Over midnight: on which day the rest would be, only every day says.
            Some((start, end)) => return if days == "*" { self.over_midnight(start, end, minutes) } else { None },
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

    /// "every hour between 8pm and 2am", "every 30 minutes between 22:00 and 6:00".
    fn over_midnight(&self, start: ClockTime, end: ClockTime, minutes: i64) -> Option<ScheduleSpec> {
        let is_hourly = minutes == 60;
        if start.minute != 0 || end.minute != 0 || start.hour == end.hour || !(is_hourly || 60 % minutes == 0) {
            return None;
        }
        let last = if is_hourly { Some(end.hour) } else { end.hour.checked_sub(1) };
        let hours: Vec<u8> =
            (0..24).filter(|hour| *hour >= start.hour || last.is_some_and(|last| *hour <= last)).collect();
        let minute = match minutes {
            60 => "0".to_owned(),
            1 => "*".to_owned(),
            step => format!("*/{step}"),
        };
        Some(self.cron(&format!("{minute} {} * {} *", super::list(&hours), self.months_field())))
    }

    /// At one minute of every hour.
    pub(super) fn hourly(&mut self, minute: u8) -> Option<ScheduleSpec> {
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
}
