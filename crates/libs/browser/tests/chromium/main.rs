//! Tests of a real Chromium against a server on loopback.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test fails by panicking"
)]

mod actions;
mod clickable;
mod emulation;
mod forms;
mod frames;
mod network;
mod process;
mod proxy;
mod recordings;
mod screencast;
mod shortcuts;
mod snapshots;
mod storage_state;
mod support;
mod tabs;
mod videos;
mod waits;
