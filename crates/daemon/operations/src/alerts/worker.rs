//! Workers that evaluate alerts and purge old firings.

use std::sync::Arc;
use std::time::Duration;

use agentd_base::Timestamp;
use agentd_core::runtime::{PurgeTask, Retention, Worker, WorkerError, WorkerReport};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::Notify;

use super::service::{Alerts, EVALUATION_INTERVAL, FIRING_RETENTION};

const PURGE_BATCH_SIZE: u32 = 200;

/// Runs immediately after a change of alerts, and periodically while one is enabled.
#[derive(Debug)]
pub(super) struct EvaluateAlerts(pub(super) Alerts);

impl Worker for EvaluateAlerts {
    fn name(&self) -> &'static str {
        "alerts.evaluate"
    }

    fn description(&self) -> &'static str {
        "Evaluates alerts and sends their notices."
    }

    fn interval(&self) -> Duration {
        EVALUATION_INTERVAL
    }

    fn wake(&self) -> Option<Arc<Notify>> {
        Some(self.0.wake())
    }

    fn idle_until(&self) -> Option<Timestamp> {
        Some(self.0.next_evaluation())
    }

    fn run_once(&self) -> BoxFuture<'_, Result<WorkerReport, WorkerError>> {
        async { Ok(WorkerReport::done(self.0.evaluate().await?)) }.boxed()
    }
}

impl PurgeTask for Alerts {
    const WORKER: &'static str = "alerts.purge";
    const DESCRIPTION: &'static str = "Deletes old firings of alerts.";
    const RETENTION: &'static [Retention] =
        &[Retention { what: "Firings of alerts, at most the newest 1,000 per alert", kept: FIRING_RETENTION }];
    const INTERVAL: Duration = Duration::from_secs(600);

    async fn purge_batch(&self) -> Result<WorkerReport, WorkerError> {
        Ok(WorkerReport::batch(self.purge(PURGE_BATCH_SIZE).await?, PURGE_BATCH_SIZE))
    }
}
