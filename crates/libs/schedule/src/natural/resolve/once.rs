//! Single date and time in the future.

use agentd_base::Timestamp;
use jiff::ToSpan;
use jiff::civil::{Date, DateTime};

use super::super::draft::{CalendarDate, ClockTime, Offset};
use super::super::token::Unit;
use super::fields::Resolver;
use crate::spec::ScheduleSpec;

impl Resolver<'_> {
    /// Resolves "in 20 minutes", "in three days at 9am".
    pub(super) fn after(&mut self, offset: Offset) -> Option<ScheduleSpec> {
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
        let date = if time.ends_day { date.tomorrow().ok()? } else { date };
        let hour = i8::try_from(time.hour).ok()?;
        let minute = i8::try_from(time.minute).ok()?;
        self.at_wall(DateTime::new(date.year(), date.month(), date.day(), hour, minute, 0, 0).ok()?)
    }

    /// Resolves a single date and time in the future.
    pub(super) fn once(&mut self, further_days: i64) -> Option<ScheduleSpec> {
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
        // "on Friday, March 20", "Friday the 20th": the date decides, the weekday must match.
        let dated_weekday = kinds[0] && (kinds[3] || kinds[2]);
        // "the 3rd of next month", "Monday next week".
        let of_period = match draft.next_period {
            Some(Unit::Month) => kinds[2] && !kinds[0],
            Some(_) => kinds[0] && !kinds[2] && draft.weekdays.count_ones() == 1 && !draft.next_weekday,
            None => false,
        };
        let known = usize::from(dated_weekday || of_period) + 1;
        if kinds.iter().filter(|present| **present).count() > known {
            return None;
        }
        if further_days > 0 && !draft.names_one_day() {
            return None;
        }
        if draft.except != 0 || !draft.months.is_empty() || draft.window.is_some() || kinds[1] {
            return None;
        }
        if !draft.has_day() {
            return self.next_such_time(today);
        }
        // "today" alone does not specify a time.
        let is_today = draft.relative_day == Some(0) && further_days == 0;
        if is_today && draft.times.is_empty() && draft.part.is_none() {
            return None;
        }
        let time = if is_today { self.time_of_today()? } else { self.one_time()? };
        if let Some(days) = draft.relative_day {
            // "tonight at midnight" is the end of the day.
            let ends_day = is_today && !time.ends_day && (time.hour == 0 || (draft.tonight && time.hour < 5));
            let days = days + i64::from(ends_day) + further_days;
            return self.at_date(today.checked_add(days.days()).ok()?, time);
        }
        if let Some(period) = draft.next_period {
            self.doubt.add(0.05);
            let date = match (period, draft.month_days.as_slice()) {
                (Unit::Month, []) => today.first_of_month().checked_add(1.month()).ok()?,
                (Unit::Month, [day]) => {
                    let next = today.first_of_month().checked_add(1.month()).ok()?;
                    Date::new(next.year(), next.month(), i8::try_from(*day).ok()?).ok()?
                }
                (Unit::Month, _) => return None,
                _ => {
                    let monday = self.coming(1, today.tomorrow().ok()?)?;
                    if of_period { self.coming(draft.weekdays.trailing_zeros(), monday)? } else { monday }
                }
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
                    && (!dated_weekday || self.is_named_weekday(date))
                    && let Some(spec) = self.at_date(date, time).filter(|spec| self.is_future(spec))
                {
                    return Some(spec);
                }
                month = month.checked_add(1.month()).ok()?;
            }
            return None;
        }
        // Only one of several days would be used.
        if !draft.dates.is_empty() || !draft.month_days.is_empty() {
            return None;
        }
        if draft.weekdays.count_ones() != 1 {
            // "this weekend".
            let saturday = self.coming(6, today)?;
            return if draft.weekdays == 0b100_0001 { self.at_date(saturday, time) } else { None };
        }
        let weekday = draft.weekdays.trailing_zeros();
        let from = if draft.next_weekday { today.tomorrow().ok()? } else { today };
        let date = self.coming(weekday, from)?;
        if further_days > 0 {
            // "Monday in a week", said on a Monday, is a week from now.
            return self.at_date(date.checked_add(further_days.days()).ok()?, time);
        }
        if draft.next_weekday && date.since(today).ok()?.get_days() < 6 {
            // "next Friday" on a Tuesday means this week's for some people and the following one for others.
            self.doubt.add(0.1);
        }
        let spec = self.at_date(date, time)?;
        if self.is_future(&spec) { Some(spec) } else { self.at_date(date.checked_add(7.days()).ok()?, time) }
    }

    fn on_calendar_date(
        &self,
        date: CalendarDate,
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
            if dated_weekday && !self.is_named_weekday(found) {
                return None;
            }
            if let Some(spec) = self.at_date(found, time).filter(|spec| self.is_future(spec)) {
                return Some(spec);
            }
        }
        None
    }

    /// Resolves "at 5pm" to today or tomorrow, and "at 3" to the next three o'clock.
    fn next_such_time(&mut self, today: Date) -> Option<ScheduleSpec> {
        if self.draft.times.is_empty() {
            return None;
        }
        let time = self.one_time()?;
        let today_spec = self.at_date(today, time)?;
        if self.is_future(&today_spec) {
            return Some(today_spec);
        }
        self.at_date(today.tomorrow().ok()?, time)
    }

    /// A time of today that has passed is interpreted as an afternoon if possible.
    fn time_of_today(&mut self) -> Option<ClockTime> {
        let time = self.one_time()?;
        let later = ClockTime { hour: time.hour + 12, ..time };
        if !time.certain && time.hour < 12 {
            let today = self.zone.wall(self.now).date();
            let over = self.at_date(today, time).is_none_or(|spec| !self.is_future(&spec));
            if over && time.hour > 6 {
                // Equally uncertain as any hour that could be in the morning.
                self.doubt.add(0.12);
            }
            return Some(if over { later } else { time });
        }
        Some(time)
    }

    fn is_named_weekday(&self, date: Date) -> bool {
        self.draft.weekdays >> date.weekday().to_sunday_zero_offset().unsigned_abs() & 1 == 1
    }

    fn coming(&self, weekday: u32, from: Date) -> Option<Date> {
        let today = u32::from(from.weekday().to_sunday_zero_offset().unsigned_abs());
        from.checked_add(i64::from((weekday + 7 - today) % 7).days()).ok()
    }

    fn is_future(&self, spec: &ScheduleSpec) -> bool {
        spec.check(self.zone).is_ok_and(|schedule| schedule.next_after(self.now, self.now).is_some())
    }
}
