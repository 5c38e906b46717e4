//! Functions for the parts of a time, such as its hour, in UTC or in a zone.
//!
//! The interpreter has such functions too, but with its own time zone database, whose rules differ from those of
//! schedules, and without a zone they use the offset in which a time was written.

use std::sync::{Arc, LazyLock};

use cel::common::functions::Function;
use cel::common::types::{CelDuration, CelInt, CelString, CelTimestamp, DYN_TYPE, STRING_TYPE};
use cel::common::value::CowVal;
use cel::{Env, ExecutionError};
use chrono::{DateTime, Datelike, FixedOffset, NaiveDateTime, TimeDelta, Timelike};
use jiff::tz::{TimeZone, TimeZoneDatabase};

/// Name that marks errors of these functions, whose messages are complete sentences.
pub(crate) const ERRORS: &str = "calendar";
/// Maximum length of a zone name in the database.
const MAX_NAME_LENGTH: usize = 64;
const SECONDS_PER_HOUR: i64 = 3_600;

/// Database that the scheduler uses too.
static DATABASE: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// Part of a time that each function returns; those up to hours also apply to durations.
const PARTS: [(&str, Function); 10] = [
    ("getFullYear", |values| part(values, |at| at.year().into(), None)),
    ("getMonth", |values| part(values, |at| at.month0().into(), None)),
    ("getDayOfYear", |values| part(values, |at| at.ordinal0().into(), None)),
    ("getDayOfMonth", |values| part(values, |at| at.day0().into(), None)),
    ("getDate", |values| part(values, |at| at.day().into(), None)),
    ("getDayOfWeek", |values| part(values, |at| at.weekday().num_days_from_sunday().into(), None)),
    ("getHours", |values| part(values, |at| at.hour().into(), Some(TimeDelta::num_hours))),
    ("getMinutes", |values| part(values, |at| at.minute().into(), Some(TimeDelta::num_minutes))),
    ("getSeconds", |values| part(values, |at| at.second().into(), Some(TimeDelta::num_seconds))),
    ("getMilliseconds", |values| {
        part(values, |at| (at.nanosecond() / 1_000_000 % 1_000).into(), Some(TimeDelta::num_milliseconds))
    }),
];

/// Functions that a condition may call.
pub(crate) static FUNCTIONS: LazyLock<Arc<Env>> = LazyLock::new(|| {
    let mut functions = Env::default();
    for (name, read) in PARTS {
        // The first matching overload is called, so these take precedence over the interpreter's own.
        let in_utc = functions.add_member_overload(name, "calendar_in_utc", DYN_TYPE, Vec::new(), read);
        let in_zone = functions.add_member_overload(name, "calendar_in_zone", DYN_TYPE, vec![STRING_TYPE], read);
        debug_assert!(in_utc.is_ok() && in_zone.is_ok(), "{name} is there twice");
    }
    Arc::new(functions.with_stdlib())
});

/// Whether this is the name of one of these functions.
pub(crate) fn is_part(name: &str) -> bool {
    PARTS.iter().any(|(known, _)| *known == name)
}

/// Returns a part of the first value, a time or a duration, in the zone named by the second one.
fn part<'b, 'v>(
    values: Vec<CowVal<'b, 'v>>,
    of_time: fn(&NaiveDateTime) -> i64,
    of_span: Option<fn(&TimeDelta) -> i64>,
) -> Result<CowVal<'b, 'v>, ExecutionError> {
    let error = |sentence: String| ExecutionError::function_error(ERRORS, sentence);
    let read = match values.as_slice() {
        [value, zone @ ..] => {
            let zone = zone.first().and_then(|zone| zone.downcast_ref::<CelString>());
            let (time, span) = (value.downcast_ref::<CelTimestamp>(), value.downcast_ref::<CelDuration>());
            match (time, span, of_span, zone) {
                (Some(time), ..) => {
                    let local = match zone {
                        Some(zone) => in_zone(time.inner(), zone.inner()).map_err(error)?,
                        None => time.inner().naive_utc(),
                    };
                    of_time(&local)
                }
                (None, Some(span), Some(of_span), None) => of_span(span.inner()),
                _ => {
                    let kind = value.get_type().name();
                    return Err(error(format!("a value of type {kind} has no such date or time component")));
                }
            }
        }
        [] => return Err(ExecutionError::missing_argument_or_target()),
    };
    Ok(CowVal::owned(CelInt::from(read)))
}

/// Returns the local time in the zone.
fn in_zone(time: &DateTime<FixedOffset>, zone: &str) -> Result<NaiveDateTime, String> {
    let seconds = match zone.contains(':') {
        true => fixed_offset(zone),
        // The last days of the year 9999 are beyond the database; its last offset is used.
        false => named_zone(zone).map(|zone| {
            let at = jiff::Timestamp::from_second(time.timestamp()).unwrap_or(jiff::Timestamp::MAX);
            zone.to_offset(at).seconds().into()
        }),
    };
    let Some(seconds) = seconds else {
        let zone: String = zone.chars().take(MAX_NAME_LENGTH).collect();
        return Err(format!(
            "unknown time zone `{zone}`; use an IANA name such as 'Europe/Berlin', 'UTC', or an offset such as '+02:00'"
        ));
    };
    Ok(time.naive_utc() + TimeDelta::seconds(seconds))
}

fn named_zone(name: &str) -> Option<TimeZone> {
    if name == "UTC" {
        return Some(TimeZone::UTC);
    }
    if name.is_empty() || name.len() > MAX_NAME_LENGTH {
        return None;
    }
    DATABASE.get(name).ok().filter(|zone| zone.iana_name().is_some())
}

/// Parses an offset such as `-08:00` into seconds east of UTC; without a sign it is positive.
fn fixed_offset(text: &str) -> Option<i64> {
    let (sign, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let (hours, minutes) = unsigned.split_once(':')?;
    let number = |digits: &str| {
        let is_number = digits.len() == 2 && digits.bytes().all(|digit| digit.is_ascii_digit());
        if is_number { digits.parse::<i64>().ok() } else { None }
    };
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    (hours < 24 && minutes < 60).then_some(sign * (hours * SECONDS_PER_HOUR + minutes * 60))
}
