//! MCP over streamable HTTP: the guarded client under the protocol library's transport.
//!
//! Invariants: every request passes the address policy; no answer, event or body is held beyond
//! its limit; the owner's credentials go to the registered address alone and are in no error.

mod answer;
mod client;
mod events;
mod headers;

pub(crate) use answer::HttpFault;
pub(crate) use client::GuardedHttp;
pub(crate) use headers::OwnerHeaders;
