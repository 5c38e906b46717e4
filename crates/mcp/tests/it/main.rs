//! The client against servers that are real, and against one that does whatever a test tells it.

mod support;

mod http_eras;
mod http_hostile;
mod real_servers;
mod stdio_calls;
mod stdio_handshake;
mod stdio_hostile;
