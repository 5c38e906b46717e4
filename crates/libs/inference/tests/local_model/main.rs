//! The daemon's side against real processes: scripted ones that misbehave on demand, and the engine
//! itself where a model file is there.

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
