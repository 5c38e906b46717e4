//! What the benchmarks share: a daemon under test, a load that costs little itself, and figures.
//!
//! Every benchmark prints its figure next to a reference that was measured in the same run, in
//! turns, because machines drift; quote the ratio.

pub mod daemon;
pub mod figures;
#[cfg(feature = "embedded")]
pub mod inside;
pub mod load;

/// A failure ends a benchmark with its sentence.
pub type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;
