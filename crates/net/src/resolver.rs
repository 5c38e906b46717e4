//! Name resolution that yields only addresses the policy permits.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::{NetError, NetPolicy, Trust};

/// The addresses of a name, or why there are none.
pub type Lookups = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;

/// Where names are looked up; tests put fixed answers in its place.
pub trait Lookup: Send + Sync + 'static {
    fn lookup(&self, host: &str) -> Lookups;
}

/// The operating system's resolver (`getaddrinfo`: hosts file, then DNS).
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemLookup;

impl Lookup for SystemLookup {
    fn lookup(&self, host: &str) -> Lookups {
        let host = host.to_owned();
        Box::pin(async move { Ok(tokio::net::lookup_host((host, 0)).await?.map(|address| address.ip()).collect()) })
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
        let host = name.as_str().to_owned();
        let (policy, trust) = (Arc::clone(&self.policy), self.trust);
        let found = policy.check_name(&host, trust).map(|()| self.lookup.lookup(&host));
        Box::pin(async move {
            let found =
                found?.await.map_err(|error| NetError::Resolve { host: host.clone(), source: Arc::new(error) })?;
            Ok(permitted(&policy, trust, &host, found)?)
        })
    }
}

/// The addresses that pass; if none does, the first refusal. Port 0 stands for the URL's own.
fn permitted(policy: &NetPolicy, trust: Trust, host: &str, found: Vec<IpAddr>) -> Result<Addrs, NetError> {
    let mut refusal = None;
    let mut passed = Vec::with_capacity(found.len());
    for address in found {
        match policy.check_address(host, address, trust) {
            Ok(()) => passed.push(SocketAddr::new(address, 0)),
            Err(error) => refusal = refusal.or(Some(error)),
        }
    }
    match refusal {
        Some(refusal) if passed.is_empty() => Err(refusal),
        _ if passed.is_empty() => Err(NetError::Resolve {
            host: host.to_owned(),
            source: Arc::new(io::Error::new(io::ErrorKind::NotFound, "the name has no address")),
        }),
        _ => Ok(Box::new(passed.into_iter())),
    }
}
