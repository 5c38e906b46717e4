//! Forward proxy that applies the rules of the guarded client to external code: sandboxed code on a Unix socket, the
//! browser on a loopback port.
//!
//! Invariants:
//! - A request is checked against the policy that is active when it arrives. Its name is resolved once, and the checked
//!   address is the one that is connected to.
//! - A tunnel that the policy no longer permits is closed: if the policy has changed, it is checked again before each
//!   chunk.
//! - The host is parsed only according to the URL standard; if the HTTP parser disagrees, the request is refused.
//!   `Host` is rewritten from the checked value.
//! - Paths, queries and headers are neither observed nor logged.
//! - Connections, head sizes, times and (if configured) bytes are bounded. After [`FilteringProxy::shutdown`] no task
//!   and no socket file remains.
//!
//! Out of scope: TLS inspection (a blocked name that shares its address with a permitted one cannot be distinguished
//! inside a tunnel), caching, and reuse of upstream connections.

mod access;
mod exchange;
mod listen;
mod meter;
mod options;
mod refusal;
mod serve;
mod shared;
mod target;
mod tunnel;

use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use agentd_base::{Entropy, Secret};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::dial::Dialer;
use access::Access;
use listen::BoundListener;
pub use listen::{ProxyError, ProxyListener, SocketOwner};
pub use options::{ListedPorts, ProxyLimits, ProxyObserver, ProxyOptions};
use shared::Shared;

/// Running proxy. Dropping it stops it and removes its socket file; only [`Self::shutdown`] also waits for its last
/// task.
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
    /// Starts listening; clients can connect as soon as this returns. Requires a tokio runtime.
    ///
    /// # Errors
    /// [`ProxyError`], if the socket cannot be bound.
    pub fn start(listener: &ProxyListener, options: ProxyOptions, entropy: &Entropy) -> Result<Self, ProxyError> {
        let BoundListener { acceptor, socket, address } = listen::bind(listener)?;
        let credential = address.map(|_| entropy.secret(""));
        let (stop, tasks, accepted) = (CancellationToken::new(), TaskTracker::new(), Arc::default());
        let shared = Shared {
            dialer: Dialer {
                policy: options.policy,
                trust: options.trust,
                lookup: options.lookup,
                connect: options.connect,
                connect_timeout: options.limits.connect_timeout,
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

    /// Returns the socket file, if the proxy listens on one.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.socket.as_ref().map(listen::SocketFile::path)
    }

    /// Returns the loopback address, if the proxy listens on one.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Returns the user name and password that every request to the loopback port must carry (RFC 7617).
    #[must_use]
    pub fn credential(&self) -> Option<(&'static str, &Secret)> {
        self.credential.as_ref().map(|password| (access::USER, password))
    }

    /// Returns the number of client connections accepted so far.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.accepted.load(Ordering::Acquire)
    }

    /// Closes every connection, waits for all tasks and removes the socket file.
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
