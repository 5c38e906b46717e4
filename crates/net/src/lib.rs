//! Every request that the daemon makes goes through this crate: it decides which addresses may be
//! reached, resolves names, and hands out the HTTP client that can connect to nothing else.
//!
//! Invariants
//! - The address that was checked is the address that is connected to. Names are resolved once,
//!   inside the client, and only the addresses that passed are given to the connector, so a name
//!   that resolves differently a moment later gains nothing.
//! - IP literals never reach the resolver; they are checked before the request is built.
//! - `blocked_hosts` wins over everything; `allowed_hosts` is the only way past [`Trust`].
//! - Proxy variables of the environment are ignored and redirects are not followed: a redirect is
//!   a new request, which its caller must check anew.
//! - No error text carries a path, a query or a header.
//!
//! Deliberately absent: retries and backoff (each caller knows what may be repeated), and the
//! decision who may be trusted (the domains know who typed an address).

mod address;
mod client;
mod error;
mod pattern;
mod policy;
mod resolver;
mod tls;

pub use address::AddressClass;
pub use client::{GuardedClient, GuardedRequest};
pub use error::NetError;
pub use pattern::{HostPattern, PatternError};
pub use policy::{NetPolicy, PolicyHandle, Trust};
pub use resolver::{Lookup, Lookups, SystemLookup};
