//! What the crate promises, from outside.

mod change_of_clocks;
mod cron;
mod missed;
mod spec;
mod text;
