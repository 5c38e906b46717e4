//! Tests of the index against a naive model.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests, and what they share, fail by panicking")]

mod crashes;
mod model;
mod random;
mod searching;
mod support;
mod visiting;
