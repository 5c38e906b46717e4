//! What this domain has besides its routes.

use super::service::Hooks;
use super::worker::{DeliverHooks, ExecuteHooks, PurgeHooks, ReadEvents};
use crate::runtime::{Domain, Family, Metrics, Sample, Workers};

impl Domain for Hooks {
    fn add_workers(&self, workers: &mut Workers) {
        workers.add(ReadEvents::new(self.clone()));
        workers.add(DeliverHooks::new(self.clone()));
        workers.add(ExecuteHooks(self.clone()));
        workers.add(PurgeHooks::new(self.clone()));
    }

    fn add_metrics(&self, metrics: &Metrics) {
        let family = Family::gauge("svc_hook_queue", "Deliveries of hooks that are kept, by their status.");
        metrics.read(family.by(&["status"]), self, async |hooks| {
            let counts = hooks.queue_stats().await?;
            Ok(Sample::each([
                ("pending", counts.pending),
                ("processing", counts.processing),
                ("success", counts.success),
                ("failed", counts.failed),
                ("dead_letter", counts.dead_letter),
            ]))
        });
        let help = "Attempts of deliveries of hooks by what came of them, since the daemon started.";
        metrics.read(Family::counter("svc_hook_deliveries_total", help).by(&["status"]), self, async |hooks| {
            let ends = hooks.delivery_ends();
            let ends = [("success", ends.success), ("failed", ends.failed), ("dead_letter", ends.dead_letter)];
            Ok(Sample::each(ends))
        });
        let help = "The age of the oldest event that no hook has looked at.";
        metrics.read(Family::gauge("svc_hook_reader_lag_seconds", help), self, async |hooks| {
            Ok(Sample::seconds(hooks.reader_lag().await?))
        });
        let help = "1 while so much waits to be delivered that events are left where they are.";
        metrics.read(Family::gauge("svc_hook_reader_paused", help), self, async |hooks| {
            Ok(Sample::one(hooks.is_reader_paused().into()))
        });
        let help = "Hooks for which so much waits without getting on that what further comes for them is given up.";
        metrics
            .read(Family::gauge("svc_hooks_behind", help), self, async |hooks| Ok(Sample::one(hooks.hooks_behind())));
        let help = "Receivers that nothing is sent to for a while because they failed.";
        metrics.read(Family::gauge("svc_hook_open_circuits", help), self, async |hooks| {
            Ok(Sample::one(hooks.open_circuits().await?))
        });
    }
}
