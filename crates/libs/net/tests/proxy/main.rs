//! Tests of the filtering proxy over real sockets, with test servers on loopback, scripted names, and clients that
//! write raw bytes.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod bounds;
mod exchanges;
mod sockets;
mod support;
mod tunnels;
