//! Options and limits of a proxy.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::{Connect, Lookup, NetError, PolicyHandle, SystemConnect, SystemLookup, Trust};

/// Limits of one proxy.
#[derive(Debug, Clone, Copy)]
pub struct ProxyLimits {
    /// Maximum number of connections, including tunnels. Further clients wait in the system's queue.
    pub connections: usize,
    /// Maximum size of a request or response head; at least 8 KiB.
    pub head_bytes: usize,
    /// Time limit for receiving a whole head.
    pub head_timeout: Duration,
    /// Time limit for connecting to all addresses of a name together, after a lookup of at most 5 s.
    pub connect_timeout: Duration,
    /// Maximum time without a byte in either direction.
    pub idle_timeout: Duration,
    /// Time limit of one exchange or tunnel. A client's connection ends shortly after it, regardless of the number of
    /// exchanges.
    pub total_timeout: Duration,
    /// Maximum number of bytes of one exchange or tunnel, in each direction.
    pub bytes_each_way: Option<u64>,
}

impl Default for ProxyLimits {
    /// Returns the defaults: 64 connections, heads of 32 KiB in 10 s, 10 s to connect, 2 min idle, 1 h in total,
    /// unlimited bytes.
    fn default() -> Self {
        Self {
            connections: 64,
            head_bytes: 32 << 10,
            head_timeout: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(120),
            total_timeout: Duration::from_secs(3600),
            bytes_each_way: None,
        }
    }
}

/// Allowed ports, and the name of the setting that lists them, for error messages.
#[derive(Debug, Clone)]
pub struct ListedPorts {
    pub ports: Vec<u16>,
    pub setting: &'static str,
}

/// Receives requests that the proxy answered itself. Called from the proxy's tasks, so it must not block. Clients
/// determine how often it is called, so anything it stores must be bounded.
pub trait ProxyObserver: Send + Sync + 'static {
    /// Reports a refused request. `host` is the parsed host; `reason` is a refusal ([`NetError::is_refusal`]).
    fn refused(&self, host: &str, port: u16, reason: &NetError);

    /// Reports a server that could not be reached, for example a name that does not resolve.
    fn failed(&self, _host: &str, _port: u16, _error: &NetError) {}
}

/// Configuration of a proxy.
pub struct ProxyOptions {
    pub policy: PolicyHandle,
    pub trust: Trust,
    pub ports: Option<ListedPorts>,
    pub limits: ProxyLimits,
    pub observer: Option<Arc<dyn ProxyObserver>>,
    pub lookup: Arc<dyn Lookup>,
    pub connect: Arc<dyn Connect>,
}

impl ProxyOptions {
    /// Creates options with the system's resolver and network, the default limits and no observer.
    #[must_use]
    pub fn new(policy: PolicyHandle, trust: Trust) -> Self {
        Self {
            policy,
            trust,
            ports: None,
            limits: ProxyLimits::default(),
            observer: None,
            lookup: Arc::new(SystemLookup::default()),
            connect: Arc::new(SystemConnect),
        }
    }
}

impl fmt::Debug for ProxyOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProxyOptions")
            .field("trust", &self.trust)
            .field("ports", &self.ports)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}
