//! Shared parts of the benchmarks: a daemon under test, an efficient load generator, and statistics.
//!
//! Every benchmark prints its result next to a reference measured alternately in the same run, because machines drift;
//! quote the ratio.

pub mod daemon;
pub mod figures;
#[cfg(feature = "embedded")]
pub mod inside;
pub mod load;

/// Result of a benchmark step; an error ends the benchmark with its message.
pub type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;
