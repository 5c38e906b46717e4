//! Name resolution that yields only addresses the policy permits.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::sync::Semaphore;

use crate::{NetError, NetPolicy, Trust, literal_guard};

const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);
const MAX_CONCURRENT_LOOKUPS: usize = 32;
/// Maximum number of addresses that are checked, since a hostile name server may return hundreds.
const MAX_CHECKED_ADDRESSES: usize = 256;
const MAX_TRIED_ADDRESSES: usize = 8;

/// Future of a lookup.
pub type LookupFuture = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;

/// Name lookup; tests replace it with fixed answers.
pub trait Lookup: Send + Sync + 'static {
    fn lookup(&self, host: &str) -> LookupFuture;
}

/// Resolver of the operating system (`getaddrinfo`: hosts file, then DNS). Each instance has its own concurrency limit,
/// so that slow names of one client do not block another.
#[derive(Debug, Clone)]
pub struct SystemLookup {
    /// Permits for lookups. An abandoned lookup still occupies a thread until the system call returns.
    permits: Arc<Semaphore>,
}

impl Default for SystemLookup {
    fn default() -> Self {
        Self { permits: Arc::new(Semaphore::new(MAX_CONCURRENT_LOOKUPS)) }
    }
}

impl Lookup for SystemLookup {
    fn lookup(&self, host: &str) -> LookupFuture {
        let host = host.to_owned();
        let permits = Arc::clone(&self.permits);
        Box::pin(async move {
            let permit = permits.acquire_owned().await.map_err(io::Error::other)?;
            let look_up = move || {
                let found =
                    (host.as_str(), 0).to_socket_addrs().map(|found| found.map(|address| address.ip()).collect());
                drop(permit);
                found
            };
            tokio::task::spawn_blocking(look_up).await.map_err(io::Error::other)?
        })
    }
}

/// Resolver of the HTTP client, bound to the policy for which the client was built.
pub(crate) struct GuardedResolver {
    pub(crate) policy: Arc<NetPolicy>,
    pub(crate) trust: Trust,
    pub(crate) lookup: Arc<dyn Lookup>,
}

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (policy, trust, lookup) = (Arc::clone(&self.policy), self.trust, Arc::clone(&self.lookup));
        Box::pin(async move {
            let found = resolve_permitted(&policy, trust, lookup.as_ref(), name.as_str()).await?;
            // Port 0 is replaced with the URL's port.
            let addresses: Addrs = Box::new(found.into_iter().map(|address| SocketAddr::new(address, 0)));
            Ok(addresses)
        })
    }
}

/// Resolves `host` once and returns the permitted addresses, at least one. If none is permitted, returns the first
/// refusal.
pub(crate) async fn resolve_permitted(
    policy: &NetPolicy,
    trust: Trust,
    lookup: &dyn Lookup,
    host: &str,
) -> Result<Vec<IpAddr>, NetError> {
    if let Some(literal) = literal_guard::decode(host) {
        // A literal that was already refused, and is refused here with its reason.
        policy.check_address(&literal.to_string(), literal, trust)?;
        return Err(resolve_error(host, io::Error::from(io::ErrorKind::PermissionDenied)));
    }
    policy.check_name(host, trust)?;
    let found = match tokio::time::timeout(LOOKUP_TIMEOUT, lookup.lookup(host)).await {
        Ok(found) => found.map_err(|error| resolve_error(host, error))?,
        Err(_) => return Err(resolve_error(host, io::Error::from(io::ErrorKind::TimedOut))),
    };
    let mut refusal = None;
    let mut passed = Vec::new();
    for address in found.into_iter().take(MAX_CHECKED_ADDRESSES) {
        match policy.check_address(host, address, trust) {
            Ok(()) => passed.push(address),
            Err(error) => refusal = refusal.or(Some(error)),
        }
    }
    passed.truncate(MAX_TRIED_ADDRESSES);
    match refusal {
        Some(refusal) if passed.is_empty() => Err(refusal),
        _ if passed.is_empty() => {
            Err(resolve_error(host, io::Error::new(io::ErrorKind::NotFound, "the name has no address")))
        }
        _ => Ok(passed),
    }
}

fn resolve_error(host: &str, error: io::Error) -> NetError {
    NetError::Resolve { host: host.to_owned(), source: Arc::new(error) }
}
