//! Unvalidated schedule in its serialized form.

use agentd_base::{FieldProblem, Problems, Timestamp};
use jiff::civil::DateTime;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::cron::CronExpression;
use crate::schedule::{At, Cron, Every, Schedule, ScheduleType};
use crate::zone::Zone;

/// Shortest interval, in seconds.
pub const MIN_INTERVAL_SECONDS: i64 = 1;
/// Longest interval, in seconds: ten years including leap days.
pub const MAX_INTERVAL_SECONDS: i64 = 3_653 * 86_400;

/// Serialized schedule: `{"type": "cron", "expression", "timezone"}`, `{"type": "every", "interval", "timezone"?}` or
/// `{"type": "at", "datetime", "timezone"?}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ScheduleSpec {
    /// Type of the schedule, which determines the other fields.
    #[serde(rename = "type")]
    pub kind: ScheduleType,
    /// Cron expression for `cron`: five fields (minute, hour, day of month, month, weekday) or a name such as `@daily`;
    /// at most 256 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 256, example = "0 9 * * 1-5")]
    pub expression: Option<String>,
    /// IANA time zone name. Required for `cron`; for `at`, the zone of a time without an offset. Default for `at`: the
    /// profile's zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 64, example = "Europe/Berlin")]
    pub timezone: Option<String>,
    /// Interval for `every`, in seconds: 1 to 315,619,200 (ten years).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = 3600)]
    pub interval: Option<i64>,
    /// Time for `at`: RFC 3339, or a local time without an offset in `timezone`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 64, example = "2026-12-24T18:00:00")]
    pub datetime: Option<String>,
}

impl ScheduleSpec {
    /// Creates a cron schedule in a zone.
    #[must_use]
    pub fn cron(expression: impl Into<String>, timezone: impl Into<String>) -> Self {
        Self { expression: Some(expression.into()), timezone: Some(timezone.into()), ..Self::empty(ScheduleType::Cron) }
    }

    /// Creates an interval in seconds.
    #[must_use]
    pub fn every(interval_seconds: i64) -> Self {
        Self { interval: Some(interval_seconds), ..Self::empty(ScheduleType::Every) }
    }

    /// Creates a single date, RFC 3339 or without an offset.
    #[must_use]
    pub fn at(datetime: impl Into<String>) -> Self {
        Self { datetime: Some(datetime.into()), ..Self::empty(ScheduleType::At) }
    }

    const fn empty(kind: ScheduleType) -> Self {
        Self { kind, expression: None, timezone: None, interval: None, datetime: None }
    }

    /// Validates the schedule; `default_zone` applies to a date without an offset and `timezone`.
    ///
    /// # Errors
    /// All invalid fields: `expression`, `timezone`, `interval` or `datetime`, each with the reason and the allowed
    /// values.
    pub fn check(&self, default_zone: &Zone) -> Result<Schedule, Vec<FieldProblem>> {
        let mut problems = Problems::new();
        let zone = self.zone(&mut problems);
        let schedule = match self.kind {
            ScheduleType::Cron => self.check_cron(zone, &mut problems),
            ScheduleType::Every => self.check_every(zone, &mut problems),
            ScheduleType::At => self.check_at(zone, default_zone, &mut problems),
        };
        match schedule {
            Some(schedule) => problems.into_result().map(|()| schedule),
            None => Err(problems.into_result().err().unwrap_or_default()),
        }
    }

    /// Returns `None` if the zone is absent or invalid; the latter is added to `problems`.
    fn zone(&self, problems: &mut Problems) -> Option<Zone> {
        match self.timezone.as_deref().map(Zone::parse)? {
            Ok(zone) => Some(zone),
            Err(error) => {
                problems.add("timezone", error.to_string());
                None
            }
        }
    }

    fn check_cron(&self, zone: Option<Zone>, problems: &mut Problems) -> Option<Schedule> {
        problems.require(
            self.timezone.is_some(),
            "timezone",
            "is required for the type cron: an IANA time zone such as Europe/Berlin or UTC",
        );
        let Some(text) = &self.expression else {
            problems.add("expression", "is required for the type cron: five fields such as `0 9 * * 1-5`");
            return None;
        };
        match CronExpression::parse(text) {
            Ok(expression) => Some(Schedule::Cron(Cron::new(expression, zone?))),
            Err(error) => {
                problems.add("expression", error.to_string());
                None
            }
        }
    }

    fn check_every(&self, zone: Option<Zone>, problems: &mut Problems) -> Option<Schedule> {
        match self.interval {
            Some(seconds) if (MIN_INTERVAL_SECONDS..=MAX_INTERVAL_SECONDS).contains(&seconds) => {
                Some(Schedule::Every(Every::new(seconds, zone)))
            }
            Some(seconds) => {
                problems.add(
                    "interval",
                    format!(
                        "must be {MIN_INTERVAL_SECONDS} to {MAX_INTERVAL_SECONDS} seconds (ten years), not {seconds}"
                    ),
                );
                None
            }
            None => {
                problems.add("interval", "is required for the type every: a number of seconds such as 3600");
                None
            }
        }
    }

    fn check_at(&self, zone: Option<Zone>, default_zone: &Zone, problems: &mut Problems) -> Option<Schedule> {
        let Some(text) = &self.datetime else {
            problems.add("datetime", "is required for the type at: a time such as 2026-12-24T18:00:00Z");
            return None;
        };
        let read = read_datetime(text.trim());
        if read.is_none() {
            problems.add("datetime", if is_beyond_last(text.trim()) { OUT_OF_RANGE } else { NO_TIME });
        }
        let read = read?;
        if self.timezone.is_some() && zone.is_none() {
            return None;
        }
        match read {
            Datetime::Instant(instant) => Some(Schedule::At(At::new(instant, zone))),
            Datetime::Wall(wall) => {
                let zone = zone.unwrap_or_else(|| default_zone.clone());
                let instant = zone.instant(wall);
                problems.require(instant.is_some(), "datetime", OUT_OF_RANGE);
                Some(Schedule::At(At::new(instant?, Some(zone))))
            }
        }
    }
}

impl Schedule {
    /// Returns the serialized form.
    #[must_use]
    pub fn spec(&self) -> ScheduleSpec {
        let spec = match self {
            Self::Cron(cron) => ScheduleSpec::cron(cron.expression().as_str(), cron.zone().name()),
            Self::Every(every) => ScheduleSpec::every(every.interval_seconds()),
            Self::At(at) => ScheduleSpec::at(at.instant().to_string()),
        };
        ScheduleSpec { timezone: self.zone().map(|zone| zone.name().to_owned()), ..spec }
    }
}

impl Serialize for Schedule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.spec().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Schedule {
    /// Interprets a date without an offset or zone as UTC; use [`ScheduleSpec::check`] for user input.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        ScheduleSpec::deserialize(deserializer)?.check(&Zone::UTC).map_err(|problems| {
            let sentences: Vec<String> =
                problems.into_iter().map(|problem| format!("{} {}", problem.field, problem.message)).collect();
            de::Error::custom(sentences.join("; "))
        })
    }
}

const NO_TIME: &str = "must be a time such as 2026-12-24T18:00:00Z, 2026-12-24T18:00:00+01:00 or 2026-12-24T18:00:00";
/// Range of instants with a year from 0 to 9999 in every zone.
const OUT_OF_RANGE: &str = "is out of range: it must be between 0000-01-01T00:00:00Z and 9999-12-30T22:00:00Z";

/// Whether the text has the form of a time, but is after the last supported one.
fn is_beyond_last(text: &str) -> bool {
    text.starts_with("9999-12-3") && matches!(read_datetime(&format!("2000{}", &text[4..])), Some(Datetime::Instant(_)))
}

enum Datetime {
    Instant(Timestamp),
    Wall(DateTime),
}

/// Parses the accepted forms: a full date, `T` or a space, a time with optional seconds, an optional offset. Rejects
/// other forms supported by jiff (annotations, week dates, dates without a time).
fn read_datetime(text: &str) -> Option<Datetime> {
    let bytes = text.as_bytes();
    let plain = bytes.len() >= 16
        && bytes.len() <= 40
        && bytes.iter().all(|byte| byte.is_ascii_digit() || b"-:.+TtZz ".contains(byte))
        && bytes[..4].iter().all(u8::is_ascii_digit)
        && b"Tt ".contains(&bytes[10]);
    if !plain {
        return None;
    }
    let has_offset = bytes[11..].iter().any(|byte| b"+-Zz".contains(byte));
    if has_offset {
        let instant: jiff::Timestamp = text.parse().ok()?;
        Some(Datetime::Instant(Timestamp::from(instant)))
    } else {
        text.parse().ok().map(Datetime::Wall)
    }
}
