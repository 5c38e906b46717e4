//! A forward proxy that holds code which is not ours to the rules of the guarded client: sandboxed
//! code on a unix socket, the browser on a loopback port.
//!
//! Invariants
//! - A request is checked against the policy in force when it arrives. Its name is resolved once,
//!   and the address that passed is the one that is connected to.
//! - A tunnel that the policy no longer permits carries nothing more: every piece is checked
//!   against a changed policy before it passes.
//! - The host is parsed by one parser, the URL standard's; what the HTTP parser reads differently
//!   is refused. `Host` is written anew from what was checked.
//! - Nothing of a path, query or header is observed or logged.
//! - Connections, head sizes, times and (where set) bytes are bounded. After
//!   [`FilteringProxy::shutdown`] no task and no socket file is left.
//!
//! Deliberately absent: looking into TLS (what is inside a tunnel is between its two ends, so a
//! blocked name behind the same address as a permitted one cannot be told apart), caching, and
//! connections kept for the next request.

mod access;
mod exchange;
mod listen;
mod meter;
mod refusal;
mod serve;
mod target;
mod tunnel;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use agentd_base::{Entropy, Secret};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::dial::Dialer;
use crate::{Connect, Lookup, NetError, PolicyHandle, SystemConnect, SystemLookup, Trust};

use access::Access;
use listen::Bound;

/// The reason why a proxy could not start.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    #[error("no socket could be made at {}; check that its folder exists and may be written to", path.display())]
    Socket { path: PathBuf, source: io::Error },
    #[error("{} is in use by another process or is not a socket; choose another path or remove it", path.display())]
    Occupied { path: PathBuf },
    #[error("the socket {} could not be given to user {uid}; only root can do that", path.display())]
    Owner { path: PathBuf, uid: u32, source: io::Error },
    #[error("no port could be opened on 127.0.0.1")]
    Port { source: io::Error },
}

/// Where the proxy waits for its clients.
#[derive(Debug, Clone)]
pub enum ProxyListener {
    /// A socket file of mode 0600. A file that a dead process left behind is replaced. With an
    /// `owner` it is handed to that user, which needs the right to do so (root).
    Unix { path: PathBuf, owner: Option<SocketOwner> },
    /// `127.0.0.1`, on a port that the system chooses. Every user of the machine can connect to it,
    /// so each request must carry the credential made at start ([`FilteringProxy::credential`]).
    Loopback,
}

/// Who may use a socket file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocketOwner {
    pub uid: u32,
    pub gid: u32,
}

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

/// A running proxy. Dropping it stops it and removes its socket file; only [`Self::shutdown`]
/// also waits until its last task is gone.
#[must_use = "a proxy stops when it is dropped"]
pub struct FilteringProxy {
    socket: Option<listen::SocketFile>,
    address: Option<SocketAddr>,
    credential: Option<Secret>,
    stop: CancellationToken,
    tasks: TaskTracker,
    accepted: Arc<AtomicU64>,
}

impl fmt::Debug for FilteringProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FilteringProxy").field("path", &self.path()).field("address", &self.address).finish()
    }
}

impl FilteringProxy {
    /// Starts to listen; when this returns, clients can connect. Needs a tokio runtime.
    ///
    /// # Errors
    /// [`ProxyError`], if the socket cannot be had.
    pub fn start(listener: &ProxyListener, options: ProxyOptions, entropy: &Entropy) -> Result<Self, ProxyError> {
        let Bound { acceptor, socket, address } = listen::bind(listener)?;
        let credential = address.map(|_| entropy.secret(""));
        let (stop, tasks, accepted) = (CancellationToken::new(), TaskTracker::new(), Arc::default());
        let shared = serve::Shared {
            dialer: Dialer {
                policy: options.policy,
                trust: options.trust,
                lookup: options.lookup,
                connect: options.connect,
                connect_time: options.limits.connect_time,
            },
            access: Access::new(credential.clone()),
            ports: options.ports,
            limits: options.limits,
            observer: options.observer,
            stop: stop.clone(),
            tasks: tasks.clone(),
            accepted: Arc::clone(&accepted),
        };
        tasks.spawn(serve::accept(Arc::new(shared), acceptor));
        tasks.close();
        Ok(Self { socket, address, credential, stop, tasks, accepted })
    }

    /// The socket file, if it listens on one.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.socket.as_ref().map(listen::SocketFile::path)
    }

    /// The loopback address, if it listens on one.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// User name and password that every request to the loopback port must carry (RFC 7617).
    #[must_use]
    pub fn credential(&self) -> Option<(&'static str, &Secret)> {
        self.credential.as_ref().map(|password| (access::USER, password))
    }

    /// Number of connections that clients have opened so far.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.accepted.load(Ordering::Acquire)
    }

    /// Ends every connection, waits until all is gone and removes the socket file.
    pub async fn shutdown(mut self) {
        self.stop.cancel();
        self.tasks.wait().await;
        self.socket = None;
    }
}

impl Drop for FilteringProxy {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
