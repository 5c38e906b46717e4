//! What a proxy is made of, and its bounds.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::{Connect, Lookup, NetError, PolicyHandle, SystemConnect, SystemLookup, Trust};

/// Bounds of one proxy.
#[derive(Debug, Clone, Copy)]
pub struct ProxyLimits {
    /// Tunnels included. Further clients wait in the system's queue.
    pub connections: usize,
    /// Of a request's or an answer's head; at least 8 KiB.
    pub head_bytes: usize,
    /// For a whole head to arrive.
    pub head_time: Duration,
    /// For connecting to all addresses of a name together, after at most 5 s of looking it up.
    pub connect_time: Duration,
    /// Without a byte in either direction, on the client's side or the server's.
    pub idle_time: Duration,
    /// For one exchange or tunnel. A client's connection ends after little more, however many
    /// exchanges it served.
    pub total_time: Duration,
    /// For one exchange or tunnel, each way.
    pub bytes_each_way: Option<u64>,
}

impl Default for ProxyLimits {
    /// 64 connections, heads of 32 KiB in 10 s, 10 s to connect, 2 min idle, 1 h in all, any number of bytes.
    fn default() -> Self {
        Self {
            connections: 64,
            head_bytes: 32 << 10,
            head_time: Duration::from_secs(10),
            connect_time: Duration::from_secs(10),
            idle_time: Duration::from_secs(120),
            total_time: Duration::from_secs(3600),
            bytes_each_way: None,
        }
    }
}

/// The only ports that may be reached, and the setting that lists them, for the sentence of a refusal.
#[derive(Debug, Clone)]
pub struct ListedPorts {
    pub ports: Vec<u16>,
    pub setting: &'static str,
}

/// Receives requests that the proxy answered by itself. Called from the proxy's tasks, so it must not block; clients decide
/// how often it is called, so what it keeps must be bounded.
pub trait ProxyObserver: Send + Sync + 'static {
    /// `host` as it was parsed; `reason` is a refusal ([`NetError::is_refusal`]).
    fn refused(&self, host: &str, port: u16, reason: &NetError);

    /// Reports a server that could not be reached, for example a name that does not resolve.
    fn failed(&self, _host: &str, _port: u16, _error: &NetError) {}
}

/// What a proxy is made of.
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
    /// The system's resolver and network, the default limits, no observer.
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
