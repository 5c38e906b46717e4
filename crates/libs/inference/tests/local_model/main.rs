//! Tests of the daemon side with real processes: scripted ones that fail on demand, and the engine itself if a model
//! file is available.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test stops at the first thing that is wrong and says what it left out"
)]

mod child;
mod embedder_real;
mod embedder_scripted;
mod orphans;
mod real;
mod scripted;
