//! Alerts: conditions over metrics and costs of the daemon, with notifications when they are met.
//!
//! `model/lifecycle` defines the states and their transitions.
//!
//! Invariants
//! - A firing, its notices and the new state of the alert are one transaction. A daemon that is killed at any point
//!   neither loses a firing nor repeats its notice.
//! - Only the daemon that holds the lease evaluates. A result is not stored if another daemon took over meanwhile.
//! - A condition over an unknown value neither starts nor ends a firing.
//! - An evaluation reads each metric once per period, independent of the number of alerts.
//! - A daemon without enabled alerts does no work.
//!
//! Not part of this module: collecting metrics (`rollups`, `monitoring::SystemProbe`) and sending notifications
//! (`notify`).

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
pub use service::{AlertSources, AlertWithValue, Alerts};

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
        let family = Family::gauge("svc_alerts", "Enabled alerts by state.").by(&["state"]);
        metrics.read(family, self, async |alerts| Ok(Sample::each(alerts.count_by_state().await?)));
        metrics
    }
}
