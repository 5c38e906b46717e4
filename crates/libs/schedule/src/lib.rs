//! Schedules. A [`Schedule`] is a cron expression in a time zone, an interval, or a single date. This crate computes
//! due times and missed slots, formats schedules as text, and parses phrases such as "every weekday at 9".
//!
//! Invariants:
//! - Everything is a pure function of its arguments: no clock, no IO, no randomness. The time zone database is compiled
//!   in, so daemons on one database agree on every slot regardless of their machines.
//! - A [`Schedule`] has a next slot at some time, or had one: schedules that can never fire are rejected with the
//!   reason.
//! - [`Schedule::next_after`] returns the first slot strictly after its argument.
//! - No input text causes a panic or a long run time.
//!
//! Daylight saving in cron: a fixed time (one minute, one hour) that falls into the gap is due at the first instant
//! after it, and one that occurs twice is due once, on the first pass. Every other pattern skips the gap and is due on
//! both passes.
//!
//! Deliberately absent: jobs, runs, SQL, async code, a language model for phrases beyond the grammar.

mod cron;
mod language;
mod missed;
mod natural;
mod schedule;
mod spec;
mod text;
mod zone;

pub use cron::{CronError, CronExpression, CronField, MAX_EXPRESSION_LENGTH};
pub use language::Language;
pub use missed::{CatchUp, MAX_SKIPPED, MisfirePolicy, catch_up, missed};
pub use natural::{MAX_TEXT_LENGTH, MIN_CONFIDENCE, Parsed, parse_natural};
pub use schedule::{At, Cron, Every, Occurrences, Schedule, ScheduleType};
pub use spec::{MAX_INTERVAL_SECONDS, MIN_INTERVAL_SECONDS, ScheduleSpec};
pub use zone::{Zone, ZoneError};
