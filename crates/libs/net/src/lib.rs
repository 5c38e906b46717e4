//! Every request that the daemon makes goes through this crate: it decides which addresses may be
//! reached, resolves names, and hands out the HTTP client that can connect to nothing else.
//!
//! Invariants
//! - The address that was checked is the address that is connected to. Names are resolved once,
//!   inside the client, and only the addresses that passed are given to the connector, so a name
//!   that resolves differently a moment later gains nothing.
//! - IP literals never reach the resolver; they are checked before the request is built, and once
//!   more inside the client, for whoever uses that by itself.
//! - `blocked_hosts` wins over everything; `allowed_hosts` is the only way past [`Trust`].
//! - Proxy variables of the environment are ignored. A redirect is a new request: [`GuardedClient::fetch`]
//!   checks each one, and everything else leaves redirects to its caller.
//! - Code that does not use this client reaches the network through [`FilteringProxy`] and by the
//!   same rules.
//! - No error text carries a path, a query or a header.
//!
//! Beside it stands what both ends of HTTP between machines agree on: how long a server asks to wait,
//! and how a webhook is signed.
//!
//! Deliberately absent: retries and backoff (each caller knows what may be repeated), and the
//! decision who may be trusted (the domains know who typed an address).

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
pub use dial::{Connect, Connecting, SystemConnect};
pub use error::NetError;
pub use fetch::{FetchLimits, FetchRequest, Fetched, Opened};
pub use pattern::{HostPattern, PatternError};
pub use policy::{Exchange, Exchanging, NetPolicy, PolicyHandle};
pub use proxy::{
    FilteringProxy, ListedPorts, ProxyError, ProxyLimits, ProxyListener, ProxyObserver, ProxyOptions, SocketOwner,
};
pub use resolver::{Lookup, Lookups, SystemLookup};
pub use retry_after::{LONGEST_RETRY_AFTER, retry_after};
pub use websocket::{WebSocket, WebSocketEvent};
