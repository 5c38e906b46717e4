//! What this domain has besides its routes.

use super::execute::StartRuns;
use super::maintenance::RunMaintenance;
use super::service::Scheduler;
use super::tick::Tick;
use crate::runtime::{Domain, Family, Metrics, Sample, Workers};

impl Domain for Scheduler {
    fn add_workers(&self, workers: &mut Workers) {
        workers.add(Tick(self.clone()));
        workers.add(StartRuns::new(self.clone()));
        workers.add(RunMaintenance::new(self.clone()));
    }

    fn add_metrics(&self, metrics: &Metrics) {
        let family = Family::gauge("svc_scheduler_jobs_active", "Jobs of the scheduler that wait for their next run.");
        metrics.read(family, self, async |scheduler| Ok(Sample::one(scheduler.count_active().await?)));
        let help = "Runs of jobs by how they ended here, since the daemon started.";
        metrics.read(Family::counter("svc_scheduler_runs_total", help).by(&["status"]), self, async |scheduler| {
            Ok(Sample::each(scheduler.counts().ended().into_iter().map(|(status, runs)| (status.as_str(), runs))))
        });
        let help = "How long after its slot the newest run was taken up here.";
        metrics.read(Family::gauge("svc_scheduler_lateness_seconds", help), self, async |scheduler| {
            Ok(Sample::seconds(scheduler.counts().lateness()))
        });
    }
}
