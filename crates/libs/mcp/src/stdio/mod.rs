//! MCP over the standard streams of a program: one JSON-RPC message a line.
//!
//! Invariants: a line costs at most its limit of memory, whatever its length; nothing that the
//! program writes or does not read holds up the daemon; reading and writing end with the
//! connection.

mod lines;
mod stderr;
mod transport;

pub(crate) use stderr::StderrReader;
pub(crate) use transport::{StdioError, StdioTransport, WRITE_QUEUE};
