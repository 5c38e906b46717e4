//! Tests of the public API.

#![allow(clippy::unwrap_used, reason = "tests, and what they share, fail by panicking")]

mod change_of_clocks;
mod cron;
mod missed;
mod natural;
mod spec;
mod text;
