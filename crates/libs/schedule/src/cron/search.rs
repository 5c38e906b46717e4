//! Search for the next slot: bit sets within a month, offsets between transitions.

use agentd_base::Timestamp;
use jiff::civil::{Date, DateTime, Time};

use super::CronExpression;
use crate::zone::Zone;

/// Last year of the search.
const MAX_YEAR: i16 = 9999;

impl CronExpression {
    /// Returns the next slot strictly after `after` in `zone`; `None` only at the end of the supported range.
    #[must_use]
    pub fn next_after(&self, after: Timestamp, zone: &Zone) -> Option<Timestamp> {
        if self.is_fixed_time() { self.next_fixed(after, zone) } else { self.next_in_segments(after, zone) }
    }

    /// Searches fixed times day by day on the calendar, each resolved once. If a whole day is skipped, neighbouring
    /// days may resolve to the same instant; the comparison with `after` handles that.
    fn next_fixed(&self, after: Timestamp, zone: &Zone) -> Option<Timestamp> {
        // A time in a gap across midnight is due on the following day.
        let mut date = zone.wall(after).date().yesterday().ok()?;
        let time = Time::new(lowest(u64::from(self.hours)), lowest(self.minutes), 0, 0).ok()?;
        loop {
            date = self.next_date(date)?;
            if let Some(slot) = zone.instant_or_end_of_gap(date.to_datetime(time))
                && slot > after
            {
                return Some(slot);
            }
            date = date.tomorrow().ok()?;
        }
    }

    /// Searches other patterns: between two transitions the offset is constant, so local time is plain arithmetic.
    /// Local times within a gap belong to no segment, those of a fold to two.
    fn next_in_segments(&self, after: Timestamp, zone: &Zone) -> Option<Timestamp> {
        let mut at = after.to_jiff();
        let (mut offset, mut end) = zone.segment(at);
        let mut from = floor_to_minute(offset.to_datetime(at)).checked_add(jiff::SignedDuration::from_mins(1)).ok()?;
        loop {
            let until = end.map(|end| offset.to_datetime(end));
            if let Some(wall) = self.next_wall(from, until) {
                return offset.to_timestamp(wall).ok().map(Timestamp::from);
            }
            at = end?;
            (offset, end) = zone.segment(at);
            from = ceil_to_minute(offset.to_datetime(at))?;
        }
    }

    /// Returns the first matching local time not before `from` and before `until`.
    fn next_wall(&self, from: DateTime, until: Option<DateTime>) -> Option<DateTime> {
        let last_date = until.map_or(Date::MAX, DateTime::date);
        let mut date = self.next_date(from.date())?;
        if date == from.date() {
            if let Some(time) = self.next_time(from.hour(), from.minute()) {
                return Some(date.to_datetime(time)).filter(|wall| until.is_none_or(|until| *wall < until));
            }
            date = self.next_date(date.tomorrow().ok()?)?;
        }
        if date > last_date {
            return None;
        }
        let first = self.next_time(0, 0)?;
        Some(date.to_datetime(first)).filter(|wall| until.is_none_or(|until| *wall < until))
    }

    /// Returns the first matching time of a day not before `hour:minute`.
    fn next_time(&self, hour: i8, minute: i8) -> Option<Time> {
        let this_hour = u64::from(self.hours) >> hour & 1 == 1;
        if this_hour && let Some(minute) = lowest_from(self.minutes, minute) {
            return Time::new(hour, minute, 0, 0).ok();
        }
        let hour = lowest_from(u64::from(self.hours), hour + 1)?;
        Time::new(hour, lowest(self.minutes), 0, 0).ok()
    }

    /// Returns the first matching date not before `from`.
    fn next_date(&self, from: Date) -> Option<Date> {
        let (mut year, mut month, mut day) = (from.year(), from.month(), from.day());
        loop {
            match lowest_from(u64::from(self.months), month) {
                Some(found) => {
                    if found != month {
                        (month, day) = (found, 1);
                    }
                    if let Some(day) = lowest_from(u64::from(self.days_of_month(year, month)), day) {
                        return Date::new(year, month, day).ok();
                    }
                    (month, day) = (month + 1, 1);
                }
                None => {
                    year += 1;
                    if year > MAX_YEAR {
                        return None;
                    }
                    (month, day) = (1, 1);
                }
            }
        }
    }
}

/// Returns the position of the lowest bit not below `from`.
fn lowest_from(bits: u64, from: i8) -> Option<i8> {
    let rest = bits.checked_shr(u32::from(from.unsigned_abs())).map_or(0, |rest| rest);
    if rest == 0 { None } else { Some(from + lowest(rest)) }
}

/// Returns the position of the lowest bit; the set is not empty.
const fn lowest(bits: u64) -> i8 {
    bits.trailing_zeros() as i8
}

fn floor_to_minute(wall: DateTime) -> DateTime {
    let time = wall.time();
    wall.with().time(time.with().second(0).subsec_nanosecond(0).build().unwrap_or(time)).build().unwrap_or(wall)
}

fn ceil_to_minute(wall: DateTime) -> Option<DateTime> {
    let floor = floor_to_minute(wall);
    if floor == wall { Some(wall) } else { floor.checked_add(jiff::SignedDuration::from_mins(1)).ok() }
}
