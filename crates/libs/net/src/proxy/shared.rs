//! State shared by all connections of a proxy, and connections to upstream servers.

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
    /// Number of accepted client connections.
    pub(super) accepted: Arc<AtomicU64>,
}

/// Permit that a connection holds until its last task has ended.
pub(super) type ConnectionPermit = Arc<OwnedSemaphorePermit>;

/// Connection to the destination of a request.
pub(super) struct Upstream {
    pub(super) stream: Metered<TcpStream>,
    pub(super) meter: Arc<Meter>,
}

impl Shared {
    /// Reports to the observer why a request was not answered by its server.
    pub(super) fn report(&self, target: &Target, error: &NetError) {
        let Some(observer) = &self.observer else { return };
        let host = target.host.to_string();
        if error.is_refusal() {
            observer.refused(&host, target.port, error);
        } else {
            observer.failed(&host, target.port, error);
        }
    }

    pub(super) async fn connect_upstream(&self, target: &Target) -> Result<Upstream, NetError> {
        // The policy is checked first, since its error is more specific.
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
        let meter = Meter::new(self.limits.idle_timeout)
            .with_limits(self.limits.total_timeout, self.limits.bytes_each_way)
            .with_permission(permission);
        let meter = Arc::new(meter);
        Ok(Upstream { stream: Metered::new(dialed.stream, Arc::clone(&meter)), meter })
    }
}
