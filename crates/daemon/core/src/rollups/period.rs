//! Periods, and the days and hours of a time zone.

use agentd_base::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

const HOUR: i64 = 3_600_000_000;

/// Period from `from` (inclusive) to `to` (exclusive).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Period {
    pub from: Timestamp,
    pub to: Timestamp,
}

/// Consecutive periods without gaps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Buckets {
    starts: Vec<Timestamp>,
    end: Timestamp,
}

impl Buckets {
    /// Creates buckets from ascending `starts` and the `end` of the last bucket.
    #[must_use]
    pub fn new(starts: Vec<Timestamp>, end: Timestamp) -> Self {
        Self { starts, end }
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// Returns the period that spans all buckets.
    #[must_use]
    pub fn period(&self) -> Period {
        Period { from: self.starts.first().copied().unwrap_or(self.end), to: self.end }
    }

    /// Iterates over the buckets in order.
    pub fn each(&self) -> impl Iterator<Item = Period> + '_ {
        let ends = self.starts.iter().skip(1).copied().chain([self.end]);
        self.starts.iter().zip(ends).map(|(from, to)| Period { from: *from, to })
    }

    /// Returns the index of the bucket that contains `at`.
    #[must_use]
    pub fn position(&self, at: Timestamp) -> Option<usize> {
        let started = self.starts.partition_point(|start| *start <= at);
        if at < self.end { started.checked_sub(1) } else { None }
    }
}

/// Calendar days and hours in a time zone.
#[derive(Debug, Clone)]
pub struct Zoned(pub TimeZone);

impl Zoned {
    #[must_use]
    pub fn date(&self, at: Timestamp) -> Date {
        at.to_jiff().to_zoned(self.0.clone()).date()
    }

    /// Returns the start of a day: midnight, or the first instant after it if midnight is skipped.
    #[must_use]
    pub fn start_of(&self, day: Date) -> Timestamp {
        day.to_zoned(self.0.clone()).map_or_else(|_| Timestamp::default(), |start| start.timestamp().into())
    }

    /// Returns the start of the local hour that contains `at`. Some zones are offset by a half or quarter hour.
    #[must_use]
    pub fn hour_of(&self, at: Timestamp) -> Timestamp {
        let offset = i64::from(self.0.to_offset(at.to_jiff()).seconds()) * 1_000_000;
        Timestamp::from_micros((at.as_micros() + offset).div_euclid(HOUR) * HOUR - offset)
    }

    /// Returns the last `count` days including today, oldest first.
    #[must_use]
    pub fn last_days(&self, now: Timestamp, count: u16) -> Vec<Date> {
        let today = self.date(now);
        let back = |days: u16| today.checked_sub(jiff::Span::new().days(i64::from(days))).unwrap_or(today);
        (0..count).rev().map(back).collect()
    }

    /// Returns the buckets of consecutive days.
    #[must_use]
    pub fn days(&self, days: &[Date]) -> Buckets {
        let end = days.last().map_or_else(Timestamp::default, |last| self.start_of(last.tomorrow().unwrap_or(*last)));
        Buckets::new(days.iter().map(|day| self.start_of(*day)).collect(), end)
    }

    /// Returns the buckets of the last `count` hours including the current one.
    #[must_use]
    pub fn last_hours(&self, now: Timestamp, count: u16) -> Buckets {
        let last = self.hour_of(now).as_micros();
        let start = |back: u16| Timestamp::from_micros(last - i64::from(back) * HOUR);
        Buckets::new((0..count).rev().map(start).collect(), Timestamp::from_micros(last + HOUR))
    }

    /// Returns the period from the start of `first` to the end of `last`.
    #[must_use]
    pub fn between(&self, first: Date, last: Date) -> Period {
        let after = last.tomorrow().unwrap_or(last);
        Period { from: self.start_of(first), to: self.start_of(after) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        Timestamp::parse(text).unwrap()
    }

    #[test]
    fn days_follow_the_time_zone_and_its_transitions() {
        let berlin = Zoned(TimeZone::get("Europe/Berlin").unwrap());
        // The day on which daylight saving time starts.
        let day = berlin.date(at("2026-03-28T23:30:00Z"));
        assert_eq!(day.to_string(), "2026-03-29");
        let period = berlin.between(day, day);
        assert_eq!((period.from, period.to), (at("2026-03-28T23:00:00Z"), at("2026-03-29T22:00:00Z")));
        let days = berlin.last_days(at("2026-03-28T23:30:00Z"), 3);
        assert_eq!(
            days.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["2026-03-27", "2026-03-28", "2026-03-29"]
        );
        let buckets = berlin.days(&days);
        assert_eq!(buckets.position(at("2026-03-28T22:59:59Z")), Some(1));
        assert_eq!(buckets.position(at("2026-03-28T23:00:00Z")), Some(2));
        assert_eq!(buckets.position(at("2026-03-29T22:00:00Z")), None);
        assert_eq!(buckets.position(at("2026-03-26T22:59:59Z")), None);
        assert_eq!(buckets.each().last(), Some(period));
    }

    #[test]
    fn hours_follow_the_time_zone() {
        let kathmandu = Zoned(TimeZone::get("Asia/Kathmandu").unwrap());
        assert_eq!(kathmandu.hour_of(at("2026-01-05T09:14:59Z")), at("2026-01-05T08:15:00Z"));
        assert_eq!(kathmandu.hour_of(at("2026-01-05T09:15:00Z")), at("2026-01-05T09:15:00Z"));
        let hours = kathmandu.last_hours(at("2026-01-05T18:20:00Z"), 24);
        let midnight = kathmandu.start_of(kathmandu.date(at("2026-01-05T18:20:00Z")));
        assert!(hours.each().any(|hour| hour.from == midnight), "midnight is the start of an hour");
        assert_eq!((hours.len(), hours.period().to), (24, at("2026-01-05T19:15:00Z")));
    }
}
