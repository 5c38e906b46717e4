//! Client for MCP tool servers, both programs that use their standard streams and servers that use streamable HTTP. It
//! supports both generations of the protocol (`initialize` up to 2025-11-25, `server/discover` from 2026-07-28 on) with
//! the protocol's official library.
//!
//! Servers are untrusted. Invariants, whatever a server does:
//! - every call ends with a result or one error within its time limit; an abandoned call is cancelled at the server;
//! - memory is bounded: messages, lists, outputs, requests in flight, error output;
//! - only expected responses are accepted, once each; anything else is dropped and slows down the server, not the
//!   daemon;
//! - requests from the server (sampling, roots, elicitation) are refused as the protocol requires;
//! - an invalid tool is skipped with a reason, without affecting the others;
//! - nothing that a server wrote is logged above debug level, and no error contains credentials. The protocol library
//!   logs peers at `info`: the daemon limits its target (`rmcp`) to `warn`.
//!
//! Out of scope: starting and ending programs (done by the daemon, in the sandbox), restarts and backoff, deciding
//! which tools may run, OAuth, and the HTTP+SSE transport of 2024-11-05.

#[cfg(test)]
mod arbitrary;
mod budget;
pub mod catalog;
mod changes;
mod connection;
mod error;
mod failure;
mod handshake;
mod http;
mod message;
mod message_filter;
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
pub use tools::{Attachment, SkippedTool, ToolDescription, ToolHints, ToolList, ToolOutput};
