//! Timestamps, and parsing of dates and times in queries and bodies.

use std::fmt;
use std::time::Duration;

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::Problems;

/// Instant in microseconds since the Unix epoch, UTC. Serialized as RFC 3339 with milliseconds and `Z`; stored as a
/// `BIGINT` of microseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(i64);

impl Timestamp {
    #[must_use]
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    #[must_use]
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    #[must_use]
    pub const fn as_millis(self) -> i64 {
        self.0.div_euclid(1000)
    }

    /// Parses RFC 3339 with an offset (`Z` or `+02:00`).
    ///
    /// # Errors
    /// Returns a message if the text is not a valid time.
    pub fn parse(text: &str) -> Result<Self, String> {
        text.parse::<jiff::Timestamp>()
            .map(|t| Self(t.as_microsecond()))
            .map_err(|_| format!("`{text}` is not an RFC 3339 time such as 2026-01-31T09:30:00.000Z"))
    }

    /// Parses an ISO 8601 date or time. `zone` applies if the text has no offset. Times beyond the supported range are
    /// clamped to its end. A space in place of an offset's `+` is accepted, since URLs decode it that way.
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
        // The beginning of a time also parses as a date.
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
        // A text with an offset that is not an instant is either beyond the supported years or invalid.
        civil.parse::<DateTime>().ok().and_then(range_end_for)
    }

    /// Parses a request field like [`Self::read`] in UTC; adds an invalid value to `problems`.
    pub fn read_field(field: &str, text: Option<&str>, edge: Edge, problems: &mut Problems) -> Option<Self> {
        let text = text?;
        let read = Self::read(text, &TimeZone::UTC, edge);
        if read.is_none() {
            problems.add(field, "must be an ISO 8601 date such as 2026-01-31, or a time such as 2026-01-31T09:00:00Z");
        }
        read
    }

    /// Returns the time elapsed from `earlier` to `self`; zero if `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// Converts to a `jiff` timestamp, for calendar arithmetic.
    #[must_use]
    pub fn to_jiff(self) -> jiff::Timestamp {
        jiff::Timestamp::from_microsecond(self.0).unwrap_or(if self.0 < 0 {
            jiff::Timestamp::MIN
        } else {
            jiff::Timestamp::MAX
        })
    }
}

impl From<jiff::Timestamp> for Timestamp {
    fn from(value: jiff::Timestamp) -> Self {
        Self(value.as_microsecond())
    }
}

impl std::ops::Add<Duration> for Timestamp {
    type Output = Self;

    fn add(self, rhs: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(rhs.as_micros()).unwrap_or(i64::MAX)))
    }
}

impl std::ops::Sub<Duration> for Timestamp {
    type Output = Self;

    fn sub(self, rhs: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(rhs.as_micros()).unwrap_or(i64::MAX)))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Rounded down to milliseconds, so that a stored time is never shown later than it is.
        let millis = jiff::Timestamp::from_millisecond(self.as_millis()).unwrap_or(jiff::Timestamp::MAX);
        write!(f, "{millis:.3}")
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(de::Error::custom)
    }
}

impl utoipa::PartialSchema for Timestamp {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        utoipa::openapi::schema::ObjectBuilder::new()
            .schema_type(utoipa::openapi::schema::Type::String)
            .format(Some(utoipa::openapi::SchemaFormat::KnownFormat(utoipa::openapi::KnownFormat::DateTime)))
            .description(Some("RFC 3339, UTC, milliseconds, `Z`"))
            .into()
    }
}

impl utoipa::ToSchema for Timestamp {
    fn name() -> std::borrow::Cow<'static, str> {
        "Timestamp".into()
    }
}

/// Selects the instant of a day to which a date without a time refers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edge {
    /// First instant of the day.
    First,
    /// Last instant of the day.
    Last,
}

fn instant(time: DateTime, zone: &TimeZone) -> Timestamp {
    let zoned = time.to_zoned(zone.clone()).map(|zoned| zoned.timestamp().into());
    zoned.unwrap_or_else(|_| range_end_for(time).unwrap_or_default())
}

/// Returns the end of the supported range for times beyond it.
fn range_end_for(time: DateTime) -> Option<Timestamp> {
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
    fn writes_milliseconds_and_z() {
        let text = Timestamp::parse("2026-02-28T23:59:59.123456+01:00").map(|t| t.to_string());
        assert_eq!(text.as_deref(), Ok("2026-02-28T22:59:59.123Z"));
        assert_eq!(Timestamp::from_micros(0).to_string(), "1970-01-01T00:00:00.000Z");
    }

    #[test]
    fn refuses_times_without_an_offset() {
        assert!(Timestamp::parse("2026-02-28T23:59:59").is_err());
        assert!(Timestamp::parse("yesterday").is_err());
    }

    #[test]
    fn date_resolves_to_first_or_last_instant() {
        assert_eq!(read("2026-01-31", Edge::First).unwrap(), "2026-01-31T00:00:00.000Z");
        assert_eq!(read("2026-01-31", Edge::Last).unwrap(), "2026-01-31T23:59:59.999Z");
        let berlin = TimeZone::get("Europe/Berlin").unwrap();
        let there = Timestamp::read("2026-01-31", &berlin, Edge::First).unwrap();
        assert_eq!(there.to_string(), "2026-01-30T23:00:00.000Z");
    }

    #[test]
    fn read_accepts_times_with_and_without_offset() {
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
    fn read_clamps_times_beyond_the_supported_range() {
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
    fn read_rejects_invalid_times() {
        for text in ["", "soon", "2026-02-30", "2026-13-01", "2026-01-31T25:00:00Z", "1", "2026-01-31T09:00:00 x"] {
            assert_eq!(read(text, Edge::First), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn milliseconds_round_trip(millis in -62_000_000_000_000i64..250_000_000_000_000) {
            let timestamp = Timestamp::from_micros(millis * 1000);
            prop_assert_eq!(Timestamp::parse(&timestamp.to_string()), Ok(timestamp));
        }

        #[test]
        fn read_never_panics(text in "\\PC{0,40}|[0-9TZ: +-]{0,40}") {
            let _ = read(&text, Edge::Last);
        }

        #[test]
        fn displayed_time_round_trips(millis in -62_000_000_000_000i64..250_000_000_000_000) {
            let time = Timestamp::from_micros(millis * 1000);
            prop_assert_eq!(Timestamp::read(&time.to_string(), &TimeZone::UTC, Edge::First), Some(time));
        }
    }
}
