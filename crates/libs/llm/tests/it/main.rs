//! Vendor formats, failures and the fake vendor, over real sockets on loopback.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod connectivity;
mod endings;
mod failures;
mod fakes;
mod opaque;
mod quirks;
mod requests;
mod scripted;
mod splits;
mod support;
mod transcripts;
