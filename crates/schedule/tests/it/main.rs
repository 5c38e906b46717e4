//! What the crate promises, from outside.

mod change_of_clocks;
mod cron;
mod missed;
mod natural;
mod spec;
mod text;
