//! What a run promises, on every tier that this machine has.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

mod files;
mod limits;
mod machine;
mod orphans;
mod programs;
mod streams;
