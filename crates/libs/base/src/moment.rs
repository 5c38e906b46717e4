//! Times as people and programs write them in queries and bodies.

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;

use crate::{Problems, Timestamp};

/// Which end of a span a time stands for, where only its day is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edge {
    /// The day's first instant.
    First,
    /// The day's last instant.
    Last,
}

impl Timestamp {
    /// Reads an ISO 8601 date or time. One without an offset is meant in `zone`; one that lies beyond all time
    /// that is counted is the end of that. A `+` of an offset may have become a blank, as it does in a URL.
    #[must_use]
    pub fn read(text: &str, zone: &TimeZone, edge: Edge) -> Option<Self> {
        let text = text.trim();
        let text = match text.rsplit_once(' ') {
            Some((time, offset)) if time.contains(['T', 't']) => format!("{time}+{offset}"),
            _ => text.to_owned(),
        };
        if let Ok(time) = text.parse::<jiff::Timestamp>() {
            return Some(time.into());
        }
        // A time also begins with a day.
        if text.len() <= "2026-01-31".len()
            && let Ok(day) = text.parse::<Date>()
        {
            return Some(match edge {
                Edge::First => instant(day.at(0, 0, 0, 0), zone),
                Edge::Last => day.tomorrow().map_or(Self::from_micros(i64::MAX), |next| {
                    Self::from_micros(instant(next.at(0, 0, 0, 0), zone).as_micros() - 1)
                }),
            });
        }
        if let Ok(time) = text.parse::<DateTime>() {
            return Some(instant(time, zone));
        }
        let civil = text.trim_end_matches(['Z', 'z']);
        let civil = civil.split_once('+').map_or(civil, |(civil, _)| civil);
        // With an offset and yet no instant: at the very end of the years that are counted, or nonsense.
        civil.parse::<DateTime>().ok().and_then(beyond)
    }

    /// As [`Self::read`] in UTC, for a field of a request; what is wrong goes to `problems`.
    pub fn read_field(field: &str, text: Option<&str>, edge: Edge, problems: &mut Problems) -> Option<Self> {
        let text = text?;
        let read = Self::read(text, &TimeZone::UTC, edge);
        if read.is_none() {
            problems.add(field, "must be an ISO 8601 date such as 2026-01-31, or a time such as 2026-01-31T09:00:00Z");
        }
        read
    }
}

fn instant(time: DateTime, zone: &TimeZone) -> Timestamp {
    let zoned = time.to_zoned(zone.clone()).map(|zoned| zoned.timestamp().into());
    zoned.unwrap_or_else(|_| beyond(time).unwrap_or_default())
}

/// The end of all time that is counted, for what lies beyond it.
fn beyond(time: DateTime) -> Option<Timestamp> {
    match time.year() {
        9999 => Some(jiff::Timestamp::MAX.into()),
        -9999 => Some(jiff::Timestamp::MIN.into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str, edge: Edge) -> Option<String> {
        Timestamp::read(text, &TimeZone::UTC, edge).map(|time| time.to_string())
    }

    #[test]
    fn a_day_is_meant_as_a_whole() {
        assert_eq!(read("2026-01-31", Edge::First).unwrap(), "2026-01-31T00:00:00.000Z");
        assert_eq!(read("2026-01-31", Edge::Last).unwrap(), "2026-01-31T23:59:59.999Z");
        let berlin = TimeZone::get("Europe/Berlin").unwrap();
        let there = Timestamp::read("2026-01-31", &berlin, Edge::First).unwrap();
        assert_eq!(there.to_string(), "2026-01-30T23:00:00.000Z");
    }

    #[test]
    fn a_time_may_have_an_offset() {
        for text in [
            "2026-01-31T10:00:00+01:00",
            "2026-01-31T10:00:00 01:00",
            "2026-01-31T09:00:00Z",
            "2026-01-31T09:00:00",
            "2026-01-31T09:00",
            "2026-01-31 09:00:00",
            " 2026-01-31t09:00:00z ",
        ] {
            assert_eq!(read(text, Edge::Last).as_deref(), Some("2026-01-31T09:00:00.000Z"), "{text}");
        }
    }

    #[test]
    fn the_end_of_time_is_a_time() {
        for text in ["9999-12-31", "9999-12-31T23:59:59", "9999-12-31T23:59:59Z", "9999-12-31T23:59:59+00:00"] {
            for edge in [Edge::First, Edge::Last] {
                assert!(
                    Timestamp::read(text, &TimeZone::UTC, edge).unwrap()
                        >= "9999-12-30T22:00:00Z".parse::<jiff::Timestamp>().unwrap().into(),
                    "{text}"
                );
            }
        }
    }

    #[test]
    fn nonsense_is_no_time() {
        for text in ["", "soon", "2026-02-30", "2026-13-01", "2026-01-31T25:00:00Z", "1", "2026-01-31T09:00:00 x"] {
            assert_eq!(read(text, Edge::First), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,40}|[0-9TZ: +-]{0,40}") {
            let _ = read(&text, Edge::Last);
        }

        #[test]
        fn what_is_shown_is_read(millis in -62_000_000_000_000i64..250_000_000_000_000) {
            let time = Timestamp::from_micros(millis * 1000);
            prop_assert_eq!(Timestamp::read(&time.to_string(), &TimeZone::UTC, Edge::First), Some(time));
        }
    }
}
