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

const LOOKUP_TIME: Duration = Duration::from_secs(5);
const LOOKUPS_AT_ONCE: usize = 32;
/// A hostile name server may answer with hundreds; each one tried costs time.
const ADDRESSES_LOOKED_AT: usize = 256;
const ADDRESSES_TRIED: usize = 8;

/// The addresses of a name, or why there are none.
pub type Lookups = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;

/// Where names are looked up; tests put fixed answers in its place.
pub trait Lookup: Send + Sync + 'static {
    fn lookup(&self, host: &str) -> Lookups;
}

/// The operating system's resolver (`getaddrinfo`: hosts file, then DNS). Each value has a bound of
/// its own, so that slow names of one client do not keep another from resolving.
#[derive(Debug, Clone)]
pub struct SystemLookup {
    /// A lookup that nobody waits for any more still occupies a thread until the system gives up.
    places: Arc<Semaphore>,
}

impl Default for SystemLookup {
    fn default() -> Self {
        Self { places: Arc::new(Semaphore::new(LOOKUPS_AT_ONCE)) }
    }
}

impl Lookup for SystemLookup {
    fn lookup(&self, host: &str) -> Lookups {
        let host = host.to_owned();
        let places = Arc::clone(&self.places);
        Box::pin(async move {
            let place = places.acquire_owned().await.map_err(io::Error::other)?;
            let look_up = move || {
                let found =
                    (host.as_str(), 0).to_socket_addrs().map(|found| found.map(|address| address.ip()).collect());
                drop(place);
                found
            };
            tokio::task::spawn_blocking(look_up).await.map_err(io::Error::other)?
        })
    }
}

/// Sits between the HTTP client and [`Lookup`]; bound to the policy its client was built for.
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
            // Port 0 stands for the URL's own.
            let addresses: Addrs = Box::new(found.into_iter().map(|address| SocketAddr::new(address, 0)));
            Ok(addresses)
        })
    }
}

/// Looks `host` up once and answers the addresses that pass, at least one; if none does, the first
/// refusal.
pub(crate) async fn resolve_permitted(
    policy: &NetPolicy,
    trust: Trust,
    lookup: &dyn Lookup,
    host: &str,
) -> Result<Vec<IpAddr>, NetError> {
    if let Some(literal) = literal_guard::unwrap(host) {
        // Nothing to look up: the literal was refused before, and is refused here.
        policy.check_address(&literal.to_string(), literal, trust)?;
        return Err(unresolved(host, io::Error::from(io::ErrorKind::PermissionDenied)));
    }
    policy.check_name(host, trust)?;
    let found = match tokio::time::timeout(LOOKUP_TIME, lookup.lookup(host)).await {
        Ok(found) => found.map_err(|error| unresolved(host, error))?,
        Err(_) => return Err(unresolved(host, io::Error::from(io::ErrorKind::TimedOut))),
    };
    let mut refusal = None;
    let mut passed = Vec::new();
    for address in found.into_iter().take(ADDRESSES_LOOKED_AT) {
        match policy.check_address(host, address, trust) {
            Ok(()) => passed.push(address),
            Err(error) => refusal = refusal.or(Some(error)),
        }
    }
    passed.truncate(ADDRESSES_TRIED);
    match refusal {
        Some(refusal) if passed.is_empty() => Err(refusal),
        _ if passed.is_empty() => {
            Err(unresolved(host, io::Error::new(io::ErrorKind::NotFound, "the name has no address")))
        }
        _ => Ok(passed),
    }
}

fn unresolved(host: &str, error: io::Error) -> NetError {
    NetError::Resolve { host: host.to_owned(), source: Arc::new(error) }
}
