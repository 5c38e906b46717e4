//! Who may reach what. The lists come from the security settings and change while requests run.

use std::net::IpAddr;
use std::sync::Arc;

use arc_swap::ArcSwap;
use serde::{Deserialize, Serialize};
use url::{Host, Url};

use crate::{AddressClass, HostPattern, NetError};

/// Who chose the address of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Trust {
    /// An agent, a page, a template or an event can steer it: public addresses only.
    Steered,
    /// The owner typed it in: private and loopback addresses too.
    Owner,
}

impl Trust {
    fn may_reach(self, class: AddressClass) -> bool {
        match class {
            AddressClass::Public => true,
            AddressClass::Private | AddressClass::Loopback => self == Self::Owner,
            AddressClass::LinkLocal | AddressClass::Metadata | AddressClass::Unreachable => false,
        }
    }
}

/// The owner's two lists.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetPolicy {
    /// What may be reached although its address would not be. A `*.` entry opens private and
    /// loopback addresses; link-local and metadata ones need an entry of their own.
    pub allowed_hosts: Vec<HostPattern>,
    /// What may never be reached, whoever asks.
    pub blocked_hosts: Vec<HostPattern>,
}

impl NetPolicy {
    /// Checks all that can be known of `url` before its name is resolved.
    ///
    /// # Errors
    /// [`NetError::Scheme`], [`NetError::NoHost`], [`NetError::Blocked`] or [`NetError::Refused`].
    pub fn check_url(&self, url: &Url, trust: Trust) -> Result<(), NetError> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(NetError::Scheme { scheme: url.scheme().to_owned() });
        }
        match url.host() {
            Some(Host::Domain(name)) => self.check_name(name, trust),
            Some(Host::Ipv4(address)) => self.check_address(&address.to_string(), address.into(), trust),
            Some(Host::Ipv6(address)) => self.check_address(&address.to_string(), address.into(), trust),
            None => Err(NetError::NoHost),
        }
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
        let named = self.allowed_hosts.iter().any(|entry| entry.is_explicit() && entry.matches_name(&host));
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
        if self.blocked_hosts.iter().any(|entry| entry.matches_address(address) || entry.matches_name(&host)) {
            return Err(NetError::Blocked { host });
        }
        let class = AddressClass::of(address);
        if trust.may_reach(class) {
            return Ok(());
        }
        let named = self.allowed_hosts.iter().any(|entry| {
            let opens = match class {
                AddressClass::Unreachable => false,
                AddressClass::LinkLocal | AddressClass::Metadata => entry.is_explicit(),
                AddressClass::Public | AddressClass::Private | AddressClass::Loopback => true,
            };
            opens && (entry.matches_address(address) || entry.matches_name(&host))
        });
        if named { Ok(()) } else { Err(NetError::Refused { host, class, trust }) }
    }
}

fn normalized(host: &str) -> String {
    host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase()
}

/// The policy in force. Cheap to clone; every clone sees what [`Self::set`] sets.
#[derive(Debug, Clone, Default)]
pub struct PolicyHandle(Arc<ArcSwap<NetPolicy>>);

impl PolicyHandle {
    #[must_use]
    pub fn new(policy: NetPolicy) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(policy)))
    }

    /// Puts `policy` in force for every request that starts from now on, idle connections
    /// included: they are given up.
    pub fn set(&self, policy: NetPolicy) {
        self.0.store(Arc::new(policy));
    }

    #[must_use]
    pub fn current(&self) -> Arc<NetPolicy> {
        self.0.load_full()
    }
}
