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
use listen::Bound;
pub use listen::{ProxyError, ProxyListener, SocketOwner};
pub use options::{ListedPorts, ProxyLimits, ProxyObserver, ProxyOptions};
use shared::Shared;

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
        let shared = Shared {
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
