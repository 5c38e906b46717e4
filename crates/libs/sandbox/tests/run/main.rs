//! Guarantees of a run, tested on every available tier.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

mod files;
mod limits;
mod machine;
mod orphans;
mod programs;
mod streams;
