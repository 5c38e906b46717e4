//! What this domain has besides its routes.

use super::service::Channels;
use super::worker::{KeepConnections, PurgeMessages, ReportProgress, RequestApprovals, StartTurns};
use crate::runtime::{Domain, Family, Metrics, QueueWorker, Sample, Workers};

impl Domain for Channels {
    fn add_workers(&self, workers: &mut Workers) {
        workers.add(QueueWorker(StartTurns(self.clone())));
        workers.add(RequestApprovals(self.clone()));
        workers.add(ReportProgress(self.clone()));
        workers.add(KeepConnections(self.clone()));
        workers.add(PurgeMessages(self.clone()));
    }

    fn add_metrics(&self, metrics: &Metrics) {
        let help = "Messages of chat platforms, and requests that were refused, by what became of them (accepted, \
                    repeated, unsigned, disabled, rate_limited, overloaded, invalid, failed), since the daemon started.";
        let family = Family::counter("svc_channel_messages_total", help).by(&["outcome"]);
        metrics.read(family, self, async |channels| Ok(Sample::each(channels.request_counts())));
    }
}
