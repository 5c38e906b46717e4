//! Devices: other machines of the owner, paired by a one-time code, that lend their tools to agents
//! and talk to agents over one WebSocket each.
//!
//! Invariants
//! - Codes and tokens are stored as SHA-256 alone. A code is used once; of racing pairings one wins.
//! - A token opens the socket and nothing else; no other credential opens the socket. It is looked
//!   up at every connection.
//! - A device has one connection, on whichever replica: a new one replaces the old. The row says
//!   which, and a connection that is not in its row ends.
//! - A revoked device's socket is closed before the answer here, and on other replicas as soon as
//!   they hear of it.
//! - What a device sends is bounded in size, number and pace; nothing that it sends or leaves out
//!   holds up anybody else.
//! - A call ends: with the device's answer, its time limit, or the end of the connection. It is made
//!   once.
//!
//! | wrong codes | answer |
//! |---|---|
//! | up to 5 in a minute from one network | 401 |
//! | more | 429, without looking at the code |
//! | 10 in all since a code was made | every open code is void |
//!
//! With several replicas a device is connected to one of them, and only that one offers its tools.
//! Deliberately absent: what a device lets its tools do, which is the device's own matter.

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
        let family = Family::gauge("svc_devices_connected", "Devices whose socket is open at this daemon.");
        metrics.read(family, self, async |devices| Ok(Sample::one(u64::try_from(devices.connected())?)));
        let help = "Calls of devices' tools by how they ended (done, failed, abandoned), since the daemon started.";
        let family = Family::counter("svc_device_calls_total", help).by(&["status"]);
        metrics.read(family, self, async |devices| Ok(Sample::each(devices.call_counts().read())));
        metrics
    }
}
