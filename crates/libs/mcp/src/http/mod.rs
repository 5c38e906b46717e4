//! MCP over streamable HTTP: the guarded client under the protocol library's transport.
//!
//! Invariants: every request passes the address policy; no response, event or body exceeds its limit in memory; the
//! owner's credentials are sent only to the registered address and appear in no error.

mod answer;
mod client;
mod events;
mod headers;

pub(crate) use answer::HttpFault;
pub(crate) use client::GuardedHttp;
pub(crate) use headers::OwnerHeaders;
