//! Browser under test: pages with tasks, runners for the tasks, pages that try to reach forbidden addresses, and
//! hostile pages.
//!
//! Separate crate, so that it is built without the dependencies of the other benchmarks.

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

/// Result of a benchmark step; an error ends the benchmark with its message.
pub type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;
