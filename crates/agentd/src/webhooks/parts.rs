//! What this domain has besides its routes.

use super::service::Webhooks;
use super::worker::{PurgeDeliveries, StartTurns};
use crate::runtime::{Domain, Family, Metrics, QueueWorker, Sample, Workers};

impl Domain for Webhooks {
    fn add_workers(&self, workers: &mut Workers) {
        workers.add(QueueWorker(StartTurns(self.clone())));
        workers.add(PurgeDeliveries(self.clone()));
    }

    fn add_metrics(&self, metrics: &Metrics) {
        let help = "Requests to inbound webhooks by what became of them (accepted, repeated, unsigned, disabled, \
                    rate_limited, overloaded, invalid, failed), since the daemon started.";
        let family = Family::counter("svc_webhook_requests_total", help).by(&["outcome"]);
        metrics.read(family, self, async |webhooks| Ok(Sample::each(webhooks.request_counts())));
        let help = "Deliveries of inbound webhooks whose agent has still to begin.";
        metrics.read(Family::gauge("svc_webhook_turns_waiting", help), self, async |webhooks| {
            Ok(Sample::one(webhooks.waiting_turns().await?))
        });
    }
}
