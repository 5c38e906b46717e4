//! The browser under test: pages of our own with a task each, what does the tasks, pages that want to
//! reach what they must not, and pages that want to hurt.
//!
//! A crate of its own, so that it is built without what the other benchmarks need.

#[path = "../../src/daemon.rs"]
pub mod daemon;
#[path = "../../src/figures.rs"]
pub mod figures;
pub mod hostile;
#[path = "../../src/load.rs"]
pub mod load;
pub mod peer;
pub mod reach;
pub mod runner;
pub mod server;
pub mod suite;

/// A failure ends a benchmark with its sentence.
pub type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;
