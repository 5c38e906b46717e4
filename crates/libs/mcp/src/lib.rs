//! The client of MCP tool servers: programs that speak over their standard streams, and servers
//! that speak streamable HTTP, of both eras of the protocol (`initialize` up to 2025-11-25,
//! `server/discover` from 2026-07-28 on), with the protocol's official library.
//!
//! A server is a stranger. Invariants, whatever it does:
//! - every call ends, with a result or one error, within its time; a call that is given up is
//!   cancelled at the server;
//! - nothing is held beyond a limit: messages, lists, outputs, requests in flight, error output;
//! - only answers that somebody waits for come in, once each; what nobody asked for is dropped and
//!   slows the server down, not the daemon;
//! - what a server asks for (sampling, roots, elicitation) is refused as the protocol demands;
//! - a broken tool is left out with the reason, and the others stand;
//! - what a server wrote is in no log above debug level, and credentials are in no error. The
//!   protocol library logs peers at `info`: the daemon keeps its target (`rmcp`) at `warn`.
//!
//! Deliberately absent: starting and ending programs (the daemon does, in the sandbox), restarts and
//! backoff, deciding which tools may run, OAuth, and the HTTP+SSE transport of 2024-11-05.

#[cfg(test)]
mod arbitrary;
mod budget;
pub mod catalog;
mod changes;
mod connection;
mod error;
mod failure;
mod gate;
mod handshake;
mod http;
mod message;
mod options;
mod session;
mod stdio;
mod tail;
mod text;
mod tools;

pub use changes::ToolsChanges;
pub use connection::{Connection, StdioStreams};
pub use error::{CloseReason, ConnectError, McpError};
pub use handshake::ServerInfo;
pub use options::{CallLimits, ConnectOptions, Lifecycle, ListLimits};
pub use tools::{Attachment, LeftOutTool, ToolDescription, ToolHints, ToolList, ToolOutput};
