//! Alerts: conditions over what the daemon does and what it costs, and telling somebody when one holds.
//!
//! `model/life` has the states and what leads from one to the next.
//!
//! Invariants
//! - A firing, its notices and where the alert stands are one transaction: a daemon that is killed anywhere neither
//!   forgets a firing nor tells of it twice.
//! - Of several daemons one evaluates, under a lease; the transaction that stores what came of it stores nothing if
//!   another has taken over.
//! - A figure that is not known is not given to a condition, so it can neither begin nor end a firing.
//! - What is read for an evaluation is read once for each period, whatever the number of alerts.
//! - A daemon without an alert that is turned on does nothing.
//!
//! Deliberately absent: counting and measuring (`rollups`, `monitoring::SystemProbe`), and sending (`notify`).

mod error;
mod events;
mod model;
mod notice;
mod restored;
mod routes;
mod service;
mod store;
mod worker;

use agentd_core::parts::{Domain, DomainParts};
use agentd_core::runtime::{Family, MetricList, PurgeWorker, Sample};

use routes::routes;
use worker::EvaluateAlerts;

pub use error::AlertError;
pub use model::{
    Alert, AlertChange, AlertDeliveryType, AlertId, AlertSeverity, AlertState, Delivery, Firing, FiringId,
};
pub use restored::ValidateAlerts;
pub use service::{AlertSources, Alerts, ShownAlert};

impl Domain for Alerts {
    fn parts(&self) -> DomainParts {
        DomainParts {
            routes: routes().with_state(self.clone()),
            workers: vec![Box::new(EvaluateAlerts(self.clone())), Box::new(PurgeWorker(self.clone()))],
            metrics: self.metrics(),
            bindings: Vec::new(),
            shutdown: Vec::new(),
        }
    }
}

impl Alerts {
    fn metrics(&self) -> MetricList {
        let mut metrics = MetricList::default();
        let family = Family::gauge("svc_alerts", "Alerts that are turned on, by where they stand.").by(&["state"]);
        metrics.read(family, self, async |alerts| Ok(Sample::each(alerts.count_by_state().await?)));
        metrics
    }
}
