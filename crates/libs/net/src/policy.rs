//! Network policy from the security settings, which can change while requests are running.

use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use serde::{Deserialize, Serialize};
use url::{Host, Url};

use crate::address::embedded_v4;
use crate::{AddressClass, HostPattern, NetError, Trust, own_address, ports};

/// Host lists configured by the owner.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetPolicy {
    /// Exceptions to the address restrictions. A `*.` entry or a large block permits private and loopback addresses.
    /// Link-local addresses need an explicit entry, and metadata services their exact address or name: a name that the
    /// owner trusts for other reasons must not resolve to them.
    pub allowed_hosts: Vec<HostPattern>,
    /// Hosts that are never reachable, regardless of trust.
    pub blocked_hosts: Vec<HostPattern>,
}

impl NetPolicy {
    /// Checks everything that is known about `url` before its name is resolved.
    ///
    /// # Errors
    /// [`NetError::Scheme`], [`NetError::NoHost`], or the errors of [`Self::check_target`].
    pub fn check_url(&self, url: &Url, trust: Trust) -> Result<(), NetError> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(NetError::Scheme { scheme: url.scheme().to_owned() });
        }
        let host = url.host().ok_or(NetError::NoHost)?;
        self.check_target(&host, url.port_or_known_default().unwrap_or_default(), trust)
    }

    /// Checks a parsed host and a port before the name is resolved.
    ///
    /// # Errors
    /// [`NetError::Blocked`], [`NetError::Refused`] or [`NetError::Port`].
    pub fn check_target<S: AsRef<str>>(&self, host: &Host<S>, port: u16, trust: Trust) -> Result<(), NetError> {
        let text = match host {
            Host::Domain(name) => normalized(name.as_ref()),
            Host::Ipv4(address) => address.to_string(),
            Host::Ipv6(address) => address.to_string(),
        };
        let named = match host {
            Host::Domain(_) => {
                self.check_name(&text, trust)?;
                self.allowed_hosts.iter().any(|entry| entry.matches_name(&text))
            }
            Host::Ipv4(address) => self.check_literal(&text, (*address).into(), trust)?,
            Host::Ipv6(address) => self.check_literal(&text, (*address).into(), trust)?,
        };
        if port == 0 || (trust == Trust::Untrusted && !named && ports::is_blocked(port)) {
            return Err(NetError::Port { host: text, port });
        }
        Ok(())
    }

    /// Performs [`Self::check_address`] and returns whether `allowed_hosts` names the address.
    fn check_literal(&self, text: &str, address: IpAddr, trust: Trust) -> Result<bool, NetError> {
        self.check_address(text, address, trust)?;
        Ok(self.allowed_hosts.iter().any(|entry| entry.matches_address(address)))
    }

    /// Checks a host name; its addresses must also pass [`Self::check_address`].
    ///
    /// # Errors
    /// [`NetError::Blocked`], or [`NetError::Refused`] for names of metadata services.
    pub fn check_name(&self, host: &str, trust: Trust) -> Result<(), NetError> {
        let host = normalized(host);
        if self.blocked_hosts.iter().any(|entry| entry.matches_name(&host)) {
            return Err(NetError::Blocked { host });
        }
        let named = self.allowed_hosts.contains(&HostPattern::Name(host.clone()));
        if AddressClass::is_metadata_name(&host) && !named {
            return Err(NetError::Refused { host, class: AddressClass::Metadata, trust });
        }
        Ok(())
    }

    /// Checks an address of `host`; for a literal, `host` is the literal.
    ///
    /// # Errors
    /// [`NetError::Blocked`] or [`NetError::Refused`].
    pub fn check_address(&self, host: &str, address: IpAddr, trust: Trust) -> Result<(), NetError> {
        let host = normalized(host);
        let carried = match address {
            IpAddr::V4(_) => Vec::new(),
            IpAddr::V6(v6) => embedded_v4(v6),
        };
        // A blocked range also applies to addresses that embed one of its addresses.
        let is_blocked = self.blocked_hosts.iter().any(|entry| {
            entry.matches_name(&host)
                || entry.matches_address(address)
                || carried.iter().any(|inside| entry.matches_address((*inside).into()))
        });
        if is_blocked {
            return Err(NetError::Blocked { host });
        }
        let mut class = AddressClass::of(address);
        if class == AddressClass::Public
            && trust == Trust::Untrusted
            && (own_address::is_own(address) || carried.iter().any(|inside| own_address::is_own((*inside).into())))
        {
            class = AddressClass::Loopback;
        }
        if trust.may_reach(class) {
            return Ok(());
        }
        let named = self.allowed_hosts.iter().any(|entry| match class {
            AddressClass::Unreachable => false,
            AddressClass::Metadata => {
                (entry.is_single_address() && entry.matches_address(address))
                    || (AddressClass::is_metadata_name(&host) && *entry == HostPattern::Name(host.clone()))
            }
            AddressClass::LinkLocal => {
                entry.is_explicit() && (entry.matches_address(address) || entry.matches_name(&host))
            }
            AddressClass::Public | AddressClass::Private | AddressClass::Loopback => {
                entry.matches_address(address) || entry.matches_name(&host)
            }
        });
        if named { Ok(()) } else { Err(NetError::Refused { host, class, trust }) }
    }
}

fn normalized(host: &str) -> String {
    host.trim_end_matches('.').to_ascii_lowercase()
}

/// Future of a response.
pub type ExchangeFuture = Pin<Box<dyn Future<Output = Result<reqwest::Response, NetError>> + Send>>;

/// Test replacement for the network that answers requests which passed the policy.
pub trait Exchange: Send + Sync + std::fmt::Debug {
    /// Performs the request. Dropping the future cancels it. The implementation enforces the request's time limit.
    fn exchange(&self, request: reqwest::Request) -> ExchangeFuture;
}

/// Handle of the active policy. Cheap to clone; every clone sees the policy set by [`Self::set`].
#[derive(Debug, Clone, Default)]
pub struct PolicyHandle(Arc<PolicyState>);

#[derive(Debug, Default)]
struct PolicyState {
    policy: ArcSwap<NetPolicy>,
    exchange: OnceLock<Arc<dyn Exchange>>,
}

impl PolicyHandle {
    #[must_use]
    pub fn new(policy: NetPolicy) -> Self {
        Self(Arc::new(PolicyState { policy: ArcSwap::from_pointee(policy), exchange: OnceLock::new() }))
    }

    /// Activates `policy` for all new requests; idle connections are closed.
    pub fn set(&self, policy: NetPolicy) {
        self.0.policy.store(Arc::new(policy));
    }

    #[must_use]
    pub fn current(&self) -> Arc<NetPolicy> {
        self.0.policy.load_full()
    }

    /// Answers requests that pass the policy with `exchange` instead of the network. Only the first call has an effect.
    pub fn set_exchange(&self, exchange: Arc<dyn Exchange>) {
        // May already be set.
        drop(self.0.exchange.set(exchange));
    }

    pub(crate) fn exchange(&self) -> Option<Arc<dyn Exchange>> {
        self.0.exchange.get().cloned()
    }
}
