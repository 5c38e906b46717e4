//! Time as an argument. Production code takes a [`Clock`]; tests hold the [`MockClock`] behind it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// An instant: microseconds since the Unix epoch, UTC. On the wire RFC 3339 with milliseconds
/// and `Z`; in the store a `BIGINT` of microseconds.
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
    /// A sentence on what is wrong with the text.
    pub fn parse(text: &str) -> Result<Self, String> {
        text.parse::<jiff::Timestamp>()
            .map(|t| Self(t.as_microsecond()))
            .map_err(|_| format!("`{text}` is not an RFC 3339 time such as 2026-01-31T09:30:00.000Z"))
    }

    /// The time elapsed from `earlier` to `self`; zero if `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// The same instant as a `jiff` timestamp, for calendar arithmetic.
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
        // Whole milliseconds, rounded down, so that a stored time never reads as later than it is.
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

#[derive(Clone)]
enum Source {
    System,
    Mock(Arc<AtomicI64>),
}

/// Where the present time comes from. Cheap to clone.
#[derive(Clone)]
pub struct Clock(Source);

impl Clock {
    /// The machine's clock. Called once, in `main`.
    #[must_use]
    pub fn system() -> Self {
        Self(Source::System)
    }

    /// Whether it is the machine's, so that the kernel can say when it shows a time.
    #[must_use]
    pub fn is_system(&self) -> bool {
        matches!(self.0, Source::System)
    }

    #[must_use]
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            #[allow(clippy::disallowed_methods, reason = "the one place that reads the machine's clock")]
            Source::System => {
                let since_epoch =
                    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
                Timestamp(i64::try_from(since_epoch.as_micros()).unwrap_or(i64::MAX))
            }
            Source::Mock(micros) => Timestamp(micros.load(Ordering::SeqCst)),
        }
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Clock({})", self.now())
    }
}

/// A clock that stands still until a test moves it.
#[derive(Debug, Clone)]
pub struct MockClock(Arc<AtomicI64>);

impl MockClock {
    #[must_use]
    pub fn new(start: Timestamp) -> Self {
        Self(Arc::new(AtomicI64::new(start.as_micros())))
    }

    #[must_use]
    pub fn clock(&self) -> Clock {
        Clock(Source::Mock(Arc::clone(&self.0)))
    }

    pub fn advance(&self, by: Duration) {
        let micros = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
        self.0.fetch_add(micros, Ordering::SeqCst);
    }

    pub fn set(&self, to: Timestamp) {
        self.0.store(to.as_micros(), Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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

    proptest! {
        #[test]
        fn milliseconds_survive_the_wire(millis in -62_000_000_000_000i64..250_000_000_000_000) {
            let timestamp = Timestamp::from_micros(millis * 1000);
            prop_assert_eq!(Timestamp::parse(&timestamp.to_string()), Ok(timestamp));
        }
    }
}
