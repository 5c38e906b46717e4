//! Recurrences several times a day, and "twice a week".

use super::super::token::Unit;
use super::fields::{DAY_SECONDS, Resolver, list};
use crate::spec::ScheduleSpec;

impl Resolver<'_> {
    /// Resolves "twice a day" and similar to common times.
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
        if !draft.months.is_empty() || (draft.has_day() && !(unit == Unit::Day && draft.weekdays != 0)) {
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

    /// Resolves an interval of hours, minutes or seconds, optionally limited to a part of the day or to some days.
    pub(super) fn within_days(&mut self, seconds: i64) -> Option<ScheduleSpec> {
        let draft = self.draft;
        let names_minutes = draft.each_hour || !draft.minutes.is_empty();
        let by_date = !draft.weeks.is_empty()
            || !draft.month_days.is_empty()
            || !draft.dates.is_empty()
            || draft.last_day
            || draft.relative_day.is_some_and(|days| days != 0)
            || draft.next_period.is_some()
            || draft.zone.is_some() && draft.window.is_none() && !names_minutes;
        if by_date || !draft.times.is_empty() || draft.part.is_some() {
            return None;
        }
        let days = self.weekdays_field()?;
        if draft.window.is_none() && days == "*" && draft.months.is_empty() && !names_minutes {
            return Some(ScheduleSpec::every(seconds));
        }
        let minutes = (seconds % 60 == 0).then_some(seconds / 60)?;
        let (slots, minute, step) = if minutes % 60 == 0 {
            let named = match draft.window {
                _ if !draft.minutes.is_empty() => draft.minutes.clone(),
                Some((start, _)) if !names_minutes => vec![start.minute],
                _ => vec![0],
            };
            let field = list(&named);
            (named, field, minutes / 60)
        } else if 60 % minutes == 0 {
            let field = if minutes == 1 { "*".to_owned() } else { format!("*/{minutes}") };
            ((0..60u8).step_by(usize::try_from(minutes).ok()?).collect(), field, 1)
        } else {
            return None;
        };
        let hours = self.hours_field(&slots, step, days == "*")?;
        Some(self.cron(&format!("{minute} {hours} * {} {days}", self.months_field())))
    }

    /// Returns the hours of the window that contain all of these minutes, in cron notation.
    fn hours_field(&self, minutes: &[u8], step: i64, is_daily: bool) -> Option<String> {
        let Some((start, end)) = self.draft.window else {
            return match step {
                1 => Some("*".to_owned()),
                _ if 24 % step == 0 => Some(format!("*/{step}")),
                _ => None,
            };
        };
        let (least, greatest) = (*minutes.iter().min()?, *minutes.iter().max()?);
        let first = match start.minute {
            minute if minute <= least => start.hour,
            minute if minute > greatest => start.hour + 1,
            _ => return None,
        };
        // Slots several times an hour exclude the full hour at which the window ends.
        let ends_before = end.minute < least || (end.minute == 0 && minutes.len() > 1);
        let last = match end.minute {
            _ if ends_before => end.hour.checked_sub(1),
            minute if minute >= greatest => Some(end.hour),
            _ => return None,
        };
        if start.hour < end.hour {
            let last = last.filter(|last| first <= *last)?;
            return Some(match step {
                _ if first == last => first.to_string(),
                1 => format!("{first}-{last}"),
                _ => format!("{first}-{last}/{step}"),
            });
        }
        // Windows over midnight are only unambiguous if they recur daily.
        let is_whole_day = last.is_some_and(|last| last + 1 >= first);
        if is_whole_day || step != 1 || !is_daily {
            return None;
        }
        let hours: Vec<u8> = (0..24).filter(|hour| *hour >= first || last.is_some_and(|last| *hour <= last)).collect();
        Some(list(&hours))
    }

    /// Returns the step in hours of the recurring minutes.
    pub(super) fn step_hours(&self) -> Option<u32> {
        let draft = self.draft;
        let is_adjective = draft.adjective == Some((1, Unit::Hour));
        let is_hourly = draft.each_hour || draft.window.is_some() || is_adjective;
        match (draft.interval, draft.count_per) {
            _ if draft.interval_seconds.is_some() || !(draft.repeats || draft.always || is_adjective) => None,
            (Some((hours, Unit::Hour)), None) => Some(hours),
            (None, Some((1, Unit::Hour))) => Some(1),
            (None | Some((1, Unit::Day)), None) if is_hourly => Some(1),
            _ => None,
        }
    }
}
