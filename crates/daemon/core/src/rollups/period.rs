//! Hours and days of a time zone as points in time.

use agentd_base::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

const HOUR: i64 = 3_600_000_000;

/// From the beginning of `from` to before `to`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Period {
    pub from: Timestamp,
    pub to: Timestamp,
}

/// Periods that follow each other without a gap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Buckets {
    starts: Vec<Timestamp>,
    end: Timestamp,
}

impl Buckets {
    /// `starts` rise, and `end` is behind them.
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

    /// Of all of them together.
    #[must_use]
    pub fn period(&self) -> Period {
        Period { from: self.starts.first().copied().unwrap_or(self.end), to: self.end }
    }

    /// In their order.
    pub fn each(&self) -> impl Iterator<Item = Period> + '_ {
        let ends = self.starts.iter().skip(1).copied().chain([self.end]);
        self.starts.iter().zip(ends).map(|(from, to)| Period { from: *from, to })
    }

    /// The one that this falls into.
    #[must_use]
    pub fn position(&self, at: Timestamp) -> Option<usize> {
        let begun = self.starts.partition_point(|start| *start <= at);
        if at < self.end { begun.checked_sub(1) } else { None }
    }
}

/// Days and hours as people count them.
#[derive(Debug, Clone)]
pub struct Zoned(pub TimeZone);

impl Zoned {
    #[must_use]
    pub fn date(&self, at: Timestamp) -> Date {
        at.to_jiff().to_zoned(self.0.clone()).date()
    }

    /// When this day begins: at midnight, or where the clocks skip it at the first instant after.
    #[must_use]
    pub fn start_of(&self, day: Date) -> Timestamp {
        day.to_zoned(self.0.clone()).map_or_else(|_| Timestamp::default(), |start| start.timestamp().into())
    }

    /// When the hour begins that `at` falls into: a full one of this zone's clocks, of which some are half an hour or a
    /// quarter off those of others.
    #[must_use]
    pub fn hour_of(&self, at: Timestamp) -> Timestamp {
        let offset = i64::from(self.0.to_offset(at.to_jiff()).seconds()) * 1_000_000;
        Timestamp::from_micros((at.as_micros() + offset).div_euclid(HOUR) * HOUR - offset)
    }

    /// The days up to the one of `now`, itself included, `count` of them, the oldest first.
    #[must_use]
    pub fn last_days(&self, now: Timestamp, count: u16) -> Vec<Date> {
        let today = self.date(now);
        let back = |days: u16| today.checked_sub(jiff::Span::new().days(i64::from(days))).unwrap_or(today);
        (0..count).rev().map(back).collect()
    }

    /// Days that follow each other.
    #[must_use]
    pub fn days(&self, days: &[Date]) -> Buckets {
        let end = days.last().map_or_else(Timestamp::default, |last| self.start_of(last.tomorrow().unwrap_or(*last)));
        Buckets::new(days.iter().map(|day| self.start_of(*day)).collect(), end)
    }

    /// The hours up to the one of `now`, itself included, `count` of them.
    #[must_use]
    pub fn last_hours(&self, now: Timestamp, count: u16) -> Buckets {
        let last = self.hour_of(now).as_micros();
        let start = |back: u16| Timestamp::from_micros(last - i64::from(back) * HOUR);
        Buckets::new((0..count).rev().map(start).collect(), Timestamp::from_micros(last + HOUR))
    }

    /// Both days included.
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
    fn days_are_those_of_the_zone_and_as_long_as_they_are() {
        let berlin = Zoned(TimeZone::get("Europe/Berlin").unwrap());
        // The day on which the clocks go forward.
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
    fn hours_are_those_of_the_zone() {
        let kathmandu = Zoned(TimeZone::get("Asia/Kathmandu").unwrap());
        assert_eq!(kathmandu.hour_of(at("2026-01-05T09:14:59Z")), at("2026-01-05T08:15:00Z"));
        assert_eq!(kathmandu.hour_of(at("2026-01-05T09:15:00Z")), at("2026-01-05T09:15:00Z"));
        let hours = kathmandu.last_hours(at("2026-01-05T18:20:00Z"), 24);
        let midnight = kathmandu.start_of(kathmandu.date(at("2026-01-05T18:20:00Z")));
        assert!(hours.each().any(|hour| hour.from == midnight), "a day is whole hours");
        assert_eq!((hours.len(), hours.period().to), (24, at("2026-01-05T19:15:00Z")));
    }
}
