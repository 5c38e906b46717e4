//! Devices: other machines of the owner, paired with a one-time code. A device provides tools to agents and chats with
//! agents over one WebSocket connection.
//!
//! Invariants
//! - Only SHA-256 hashes of codes and tokens are stored. A code can be used once; of concurrent pairings with it, one
//!   succeeds.
//! - A device token is accepted by the WebSocket endpoint only, and that endpoint accepts no other credential. The
//!   token is looked up for each connection.
//! - A device has at most one connection across all replicas; a new connection replaces the old one. The device's row
//!   holds the id of the current connection, and a connection that is no longer stored there ends.
//! - When a device is revoked, its connection at this daemon is closed before the request completes, and its connection
//!   at another replica as soon as that replica is notified.
//! - Frames from a device are limited in size, number and rate; a slow or misbehaving device does not block other
//!   devices.
//! - Each call ends with the device's answer, with a timeout, or with the connection. It is sent at most once.
//!
//! | Wrong codes | Response |
//! |---|---|
//! | up to 5 per minute from one network | 401 |
//! | more | 429, without checking the code |
//! | 10 in total since a code was created | all open codes are voided |
//!
//! With several replicas, a device is connected to one of them, and only that replica offers its tools.
//!
//! Not included: restrictions on what the tools of a device may do; the device is responsible for those.

mod connection;
mod error;
mod model;
mod routes;
mod service;
mod session;
mod store;
mod worker;

use std::sync::Arc;

use agentd_core::parts::{Domain, DomainParts, ShutdownPhase, ShutdownStep};
use agentd_core::runtime::{Binding, Family, MetricList, PurgeWorker, Sample};
use agentd_engine::tools::ToolSource;

use routes::routes;

pub use connection::{CallCounts, SocketsClosed};
pub use error::DeviceError;
pub use model::{Device, DeviceId, PairingCodeId};
pub use service::{Devices, IssuedCode, Paired};

impl Domain for Devices {
    fn parts(&self) -> DomainParts {
        DomainParts {
            routes: routes().with_state(self.clone()),
            workers: vec![Box::new(PurgeWorker(self.clone()))],
            metrics: self.metrics(),
            bindings: vec![Binding::new::<dyn ToolSource>(Arc::new(self.clone()))],
            shutdown: vec![ShutdownStep::new(ShutdownPhase::Connections, self, async |devices, _| {
                devices.drain().await
            })],
        }
    }
}

impl Devices {
    fn metrics(&self) -> MetricList {
        let mut metrics = MetricList::default();
        let family = Family::gauge("svc_devices_connected", "Devices connected to this daemon.");
        metrics.read(family, self, async |devices| Ok(Sample::one(u64::try_from(devices.connected())?)));
        let help = "Calls to device tools by outcome (done, failed, abandoned) since the daemon started.";
        let family = Family::counter("svc_device_calls_total", help).by(&["status"]);
        metrics.read(family, self, async |devices| Ok(Sample::each(devices.call_counts().read())));
        metrics
    }
}
