//! Test doubles for language models, for tests and benchmarks.
//!
//! [`FakeVendor`] is a server on loopback that implements one vendor's wire format: set a provider's `base_url` to
//! [`FakeVendor::base_url`]. A [`Script`] determines its replies: a constant [`Reply`], a queue of replies, or a
//! function of the request. A reply without gate or delay is rendered once and sent in one write; a gated reply is sent
//! piece by piece as the test releases it.
//!
//! [`ScriptedBackend`] implements [`ModelBackend`](agentd_llm::ModelBackend) without a network.

mod failure;
mod format;
mod reply;
mod scripted;
mod server;

pub use failure::DocumentedFailure;
pub use reply::{Ending, Piece, Reply, Script};
pub use scripted::{Gate, ScriptedBackend, ScriptedReply};
pub use server::{FakeVendor, RecordedRequest};
