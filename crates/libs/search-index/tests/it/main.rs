//! What the index promises, held against a model that recomputes everything from plain lists.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests, and what they share, fail by panicking")]

mod crashes;
mod model;
mod random;
mod searching;
mod support;
mod visiting;
