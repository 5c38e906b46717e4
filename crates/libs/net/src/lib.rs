//! Outbound network access. Every request of the daemon goes through this crate: it decides which addresses may be
//! reached, resolves names, and provides the only HTTP client.
//!
//! Invariants:
//! - The checked address is the address that is connected to. Names are resolved once, inside the client, and only
//!   addresses that passed are given to the connector, which prevents DNS rebinding.
//! - IP literals never reach the resolver; they are checked before the request is built, and again inside the client
//!   for code that uses it directly.
//! - `blocked_hosts` takes precedence over everything; `allowed_hosts` is the only exception to [`Trust`].
//! - Proxy environment variables are ignored. A redirect is a new request: [`GuardedClient::fetch`] checks each one,
//!   and everything else leaves redirects to its caller.
//! - Code that does not use this client reaches the network through [`FilteringProxy`], under the same rules.
//! - No error text contains a path, a query or a header.
//!
//! The crate also contains two conventions of HTTP peers: `Retry-After` and webhook signatures.
//!
//! Out of scope: retries and backoff (callers know what may be repeated), and the origin of an address (the domains
//! know who entered it).

mod address;
mod client;
mod dial;
mod error;
mod fetch;
mod headers;
mod literal_guard;
mod own_address;
mod pattern;
mod policy;
mod ports;
mod proxy;
mod resolver;
mod retry_after;
mod tls;
pub mod webhook_signature;
mod websocket;

pub use address::{AddressClass, Trust};
pub use client::{GuardedClient, GuardedRequest};
pub use dial::{Connect, ConnectFuture, SystemConnect};
pub use error::NetError;
pub use fetch::{FetchLimits, FetchRequest, Fetched, OpenResponse};
pub use pattern::{HostPattern, PatternError};
pub use policy::{Exchange, ExchangeFuture, NetPolicy, PolicyHandle};
pub use proxy::{
    FilteringProxy, ListedPorts, ProxyError, ProxyLimits, ProxyListener, ProxyObserver, ProxyOptions, SocketOwner,
};
pub use resolver::{Lookup, LookupFuture, SystemLookup};
pub use retry_after::{MAX_RETRY_AFTER, retry_after};
pub use websocket::{WebSocket, WebSocketEvent};
