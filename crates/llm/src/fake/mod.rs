//! A server on loopback that speaks one vendor's format, for integration tests and benchmarks: set
//! a provider's `base_url` to [`FakeVendor::base_url`]. Behind the feature `fake`; never in a daemon
//! that is shipped.
//!
//! What it answers is a [`Script`]: always the same [`Reply`], a queue of them, or a function of the
//! request. A reply without gate or delay leaves in one write (rendered once, however often it is
//! played); a gated one leaves piece by piece as the test releases it.

mod failure;
mod format;
mod reply;
mod server;

pub use failure::DocumentedFailure;
pub use reply::{Ending, Piece, Reply, Script};
pub use server::{FakeVendor, RecordedRequest};
