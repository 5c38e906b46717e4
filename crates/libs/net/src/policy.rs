//! Who may reach what. The lists come from the security settings and change while requests run.

use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use serde::{Deserialize, Serialize};
use url::{Host, Url};

use crate::address::carried_v4;
use crate::{AddressClass, HostPattern, NetError, Trust, own_address, ports};

/// The owner's two lists.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetPolicy {
    /// What may be reached although its address would not be. A `*.` entry or a wide block opens
    /// private and loopback addresses; link-local ones need an entry of their own, and metadata
    /// services their very address or name: a name that an owner trusts for something else must
    /// not lead there by what it resolves to.
    pub allowed_hosts: Vec<HostPattern>,
    /// What may never be reached, whoever asks.
    pub blocked_hosts: Vec<HostPattern>,
}

impl NetPolicy {
    /// Checks all that can be known of `url` before its name is resolved.
    ///
    /// # Errors
    /// [`NetError::Scheme`], [`NetError::NoHost`], or as [`Self::check_target`].
    pub fn check_url(&self, url: &Url, trust: Trust) -> Result<(), NetError> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(NetError::Scheme { scheme: url.scheme().to_owned() });
        }
        let host = url.host().ok_or(NetError::NoHost)?;
        self.check_target(&host, url.port_or_known_default().unwrap_or_default(), trust)
    }

    /// Checks a parsed host and a port, as far as that goes before a name is resolved.
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
        if port == 0 || (trust == Trust::Steered && !named && ports::belongs_to_another_protocol(port)) {
            return Err(NetError::Port { host: text, port });
        }
        Ok(())
    }

    /// [`Self::check_address`], and whether `allowed_hosts` names the address.
    fn check_literal(&self, text: &str, address: IpAddr, trust: Trust) -> Result<bool, NetError> {
        self.check_address(text, address, trust)?;
        Ok(self.allowed_hosts.iter().any(|entry| entry.matches_address(address)))
    }

    /// Checks a host name by itself; its addresses still have to pass [`Self::check_address`].
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

    /// Checks an address that `host` stands for (for a literal, `host` is the literal).
    ///
    /// # Errors
    /// [`NetError::Blocked`] or [`NetError::Refused`].
    pub fn check_address(&self, host: &str, address: IpAddr, trust: Trust) -> Result<(), NetError> {
        let host = normalized(host);
        let carried = match address {
            IpAddr::V4(_) => Vec::new(),
            IpAddr::V6(v6) => carried_v4(v6),
        };
        // A block holds however the address is wrapped: what it carries is where it leads.
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
            && trust == Trust::Steered
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
                (entry.is_one_address() && entry.matches_address(address))
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

/// The future of a response.
pub type Exchanging = Pin<Box<dyn Future<Output = Result<reqwest::Response, NetError>> + Send>>;

/// Answers requests that passed the policy instead of the network, for tests.
pub trait Exchange: Send + Sync + std::fmt::Debug {
    /// Dropping the future ends the exchange. The implementation enforces the request's time limit.
    fn exchange(&self, request: reqwest::Request) -> Exchanging;
}

/// The policy in force. Cheap to clone; every clone sees what [`Self::set`] sets.
#[derive(Debug, Clone, Default)]
pub struct PolicyHandle(Arc<InForce>);

#[derive(Debug, Default)]
struct InForce {
    policy: ArcSwap<NetPolicy>,
    exchange: OnceLock<Arc<dyn Exchange>>,
}

impl PolicyHandle {
    #[must_use]
    pub fn new(policy: NetPolicy) -> Self {
        Self(Arc::new(InForce { policy: ArcSwap::from_pointee(policy), exchange: OnceLock::new() }))
    }

    /// Puts `policy` in force for every request that starts from now on, idle connections
    /// included: they are given up.
    pub fn set(&self, policy: NetPolicy) {
        self.0.policy.store(Arc::new(policy));
    }

    #[must_use]
    pub fn current(&self) -> Arc<NetPolicy> {
        self.0.policy.load_full()
    }

    /// Has `exchange` answer what passes the policy, instead of the network, from now on. The first one counts.
    pub fn set_exchange(&self, exchange: Arc<dyn Exchange>) {
        // It may be set already.
        drop(self.0.exchange.set(exchange));
    }

    pub(crate) fn exchange(&self) -> Option<Arc<dyn Exchange>> {
        self.0.exchange.get().cloned()
    }
}
