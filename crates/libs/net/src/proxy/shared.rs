//! What all connections of a proxy share, and reaching the server that a request names.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use arc_swap::ArcSwap;
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::access::Access;
use super::meter::{Meter, Metered, Permission};
use super::target::Target;
use super::{ListedPorts, ProxyLimits, ProxyObserver};
use crate::NetError;
use crate::dial::Dialer;

pub(super) struct Shared {
    pub(super) dialer: Dialer,
    pub(super) access: Access,
    pub(super) ports: Option<ListedPorts>,
    pub(super) limits: ProxyLimits,
    pub(super) observer: Option<Arc<dyn ProxyObserver>>,
    pub(super) stop: CancellationToken,
    pub(super) tasks: TaskTracker,
    /// Connections of clients that were accepted.
    pub(super) accepted: Arc<AtomicU64>,
}

/// The permit that a connection holds until its last task is gone.
pub(super) type ConnectionPermit = Arc<OwnedSemaphorePermit>;

/// A connection to where a request leads.
pub(super) struct Upstream {
    pub(super) stream: Metered<TcpStream>,
    pub(super) meter: Arc<Meter>,
}

impl Shared {
    /// Tells the observer why a request got no answer of its server.
    pub(super) fn report(&self, target: &Target, error: &NetError) {
        let Some(observer) = &self.observer else { return };
        let host = target.host.to_string();
        if error.is_refusal() {
            observer.refused(&host, target.port, error);
        } else {
            observer.failed(&host, target.port, error);
        }
    }

    pub(super) async fn reach(&self, target: &Target) -> Result<Upstream, NetError> {
        // What the policy says comes first: its reason is the better one.
        self.dialer.policy.current().check_target(&target.host, target.port, self.dialer.trust)?;
        if let Some(listed) = self.ports.as_ref().filter(|listed| !listed.ports.contains(&target.port)) {
            let (host, setting) = (target.host.to_string(), listed.setting);
            return Err(NetError::PortNotListed { host, port: target.port, setting });
        }
        let dialed = self.dialer.dial(&target.host, target.port).await?;
        let permission = Permission {
            policy: self.dialer.policy.clone(),
            granted_under: ArcSwap::new(dialed.policy),
            trust: self.dialer.trust,
            host: target.host.clone(),
            port: target.port,
            address: dialed.address,
        };
        let meter = Meter::new(self.limits.idle_time)
            .bounded(self.limits.total_time, self.limits.bytes_each_way)
            .permitted(permission);
        let meter = Arc::new(meter);
        Ok(Upstream { stream: Metered::new(dialed.stream, Arc::clone(&meter)), meter })
    }
}
