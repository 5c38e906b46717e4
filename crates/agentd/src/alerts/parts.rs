//! What this domain has besides its routes.

use super::service::Alerts;
use super::worker::{EvaluateAlerts, PurgeAlerts};
use crate::runtime::{Domain, Family, Metrics, Sample, Workers};

impl Domain for Alerts {
    fn add_workers(&self, workers: &mut Workers) {
        workers.add(EvaluateAlerts(self.clone()));
        workers.add(PurgeAlerts(self.clone()));
    }

    fn add_metrics(&self, metrics: &Metrics) {
        let family = Family::gauge("svc_alerts", "Alerts that are turned on, by where they stand.").by(&["state"]);
        metrics.read(family, self, async |alerts| Ok(Sample::each(alerts.count_by_state().await?)));
    }
}
