//! MCP over the standard streams of a program: one JSON-RPC message per line.
//!
//! Invariants: a line uses at most its limit of memory, whatever its length; a program that floods or does not read
//! cannot block the daemon; reading and writing end with the connection.

mod lines;
mod stderr;
mod transport;

pub(crate) use stderr::StderrReader;
pub(crate) use transport::{StdioError, StdioTransport, WRITE_QUEUE};
