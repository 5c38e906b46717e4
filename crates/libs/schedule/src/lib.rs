//! When something is due. A [`Schedule`] is cron in a time zone, an interval, or one date; this crate says
//! when it comes next, which slots were missed, how a person reads it, and what a person who writes
//! "every weekday at 9" means.
//!
//! What always holds:
//! - Everything is a pure function of its arguments: no clock, no IO, no randomness. The time zone database
//!   is compiled in, so daemons over one database agree on every slot, whatever their machines have installed.
//! - A [`Schedule`] that exists has a next slot at some time, or had one: what can never fire is refused with
//!   the reason.
//! - [`Schedule::next_after`] is strictly later than what it was asked, and nothing lies between.
//! - No text makes anything here panic or run long.
//!
//! Daylight saving in cron: a fixed time (one minute, one hour) that falls into the gap is due at the first
//! instant after it, and one that comes twice is due once, on the first pass. Every other pattern skips the
//! gap and is due on both passes.
//!
//! Deliberately absent: jobs, runs, SQL, async code, a model that reads what the grammar does not know.

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
pub use missed::{CatchUp, MAX_PASSED_OVER, MisfirePolicy, catch_up, missed};
pub use natural::{MAX_TEXT_LENGTH, MIN_CONFIDENCE, Parsed, parse_natural};
pub use schedule::{At, Cron, Every, Occurrences, Schedule, ScheduleType};
pub use spec::{MAX_INTERVAL_SECONDS, MIN_INTERVAL_SECONDS, ScheduleSpec};
pub use zone::{Zone, ZoneError};
