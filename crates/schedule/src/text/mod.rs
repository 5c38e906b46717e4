//! Schedules as a person would say them.

use crate::language::Language;
use crate::schedule::Schedule;

/// The whole text of a schedule.
pub(crate) fn describe(schedule: &Schedule, _language: Language) -> String {
    let spec = schedule.spec();
    spec.expression.or(spec.datetime).unwrap_or_default()
}
