//! Tests of the client with real servers and with scripted ones.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test fails by panicking, and skips loudly"
)]

mod support;

mod http_eras;
mod http_hostile;
mod logs;
mod real_servers;
mod stdio_calls;
mod stdio_floods;
mod stdio_handshake;
mod stdio_hostile;
