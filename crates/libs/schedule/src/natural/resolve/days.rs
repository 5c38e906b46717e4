//! Recurrences by days, weeks, months and years.

use super::super::draft::Week;
use super::fields::{APPROXIMATION_DOUBT, DAY_SECONDS, Resolver, list};
use crate::spec::ScheduleSpec;

impl Resolver<'_> {
    /// Resolves recurring weekdays, days of the month, or dates.
    pub(super) fn repeated(&mut self) -> Option<ScheduleSpec> {
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

    pub(super) fn daily(&mut self, count: u32) -> Option<ScheduleSpec> {
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
            // A week starts on the weekday of the next such time.
            let daily = self.cron(&format!("{time} * * *")).check(self.zone).ok()?;
            let weekday = self.zone.wall(daily.next_after(self.now, self.now)?).weekday().to_sunday_zero_offset();
            self.doubt.add(0.05);
            return Some(self.cron(&format!("{time} * * {weekday}")));
        }
        // Cron restarts its count each month: use the closest expression that keeps the time of day. The longer the
        // step, the larger the error at the end of a month.
        match count {
            0..=3 => self.doubt.add(0.15),
            4..=15 => self.doubt.add(APPROXIMATION_DOUBT),
            _ => return None,
        }
        Some(self.cron(&format!("{time} */{count} * *")))
    }

    fn repeated_by_month(&mut self) -> Option<ScheduleSpec> {
        if self.draft.window.is_some() { None } else { self.repeated() }
    }

    pub(super) fn weekly(&mut self, count: u32) -> Option<ScheduleSpec> {
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
        // A weekday in every other week cannot be expressed by cron or an interval.
        let plain = draft.weekdays == 0 && draft.times.is_empty() && draft.part.is_none() && draft.months.is_empty();
        if plain { Some(ScheduleSpec::every(i64::from(count).checked_mul(7 * DAY_SECONDS)?)) } else { None }
    }

    pub(super) fn monthly(&mut self, count: u32) -> Option<ScheduleSpec> {
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

    pub(super) fn yearly(&mut self, count: u32) -> Option<ScheduleSpec> {
        let draft = self.draft;
        // "every year on the second Sunday in May".
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
        // Two dates fit into one expression only if they share the day or the month.
        if months.len() > 1 && days.len() > 1 {
            return None;
        }
        let list = |numbers: &[u8]| numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        Some(self.cron(&format!("{time} {} {} *", list(&days), list(&months))))
    }
}
