//! Days and hours of a time zone as points in time.

use agentd_base::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

/// From the beginning of `from` to before `to`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Period {
    pub from: Timestamp,
    pub to: Timestamp,
}

/// Days as people count them.
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

    /// The days up to the one of `now`, itself included, `count` of them, the oldest first.
    #[must_use]
    pub fn last_days(&self, now: Timestamp, count: u16) -> Vec<Date> {
        let today = self.date(now);
        let back = |days: u16| today.checked_sub(jiff::Span::new().days(i64::from(days))).unwrap_or(today);
        (0..count).rev().map(back).collect()
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

    #[test]
    fn days_are_those_of_the_zone_and_as_long_as_they_are() {
        let berlin = Zoned(TimeZone::get("Europe/Berlin").unwrap());
        let at = |text: &str| Timestamp::parse(text).unwrap();
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
    }
}
