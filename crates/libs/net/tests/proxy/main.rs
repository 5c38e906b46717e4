//! The filtering proxy over real sockets: servers of ours on loopback, names that resolve to what a
//! test says, and clients that write raw bytes.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod bounds;
mod exchanges;
mod sockets;
mod support;
mod tunnels;
