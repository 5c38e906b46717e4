//! Evaluates, and forgets what is long over.

use std::sync::Arc;
use std::time::Duration;

use agentd_base::Timestamp;
use agentd_core::runtime::{PurgesData, Retention, Worker, WorkerError, WorkerReport};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::Notify;

use super::service::{Alerts, EVALUATION_INTERVAL, FIRINGS_ARE_KEPT_FOR};

const PURGED_AT_ONCE: u32 = 200;

/// At once after a change of alerts, and in its interval while one is turned on.
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

impl PurgesData for Alerts {
    const WORKER: &'static str = "alerts.purge";
    const DESCRIPTION: &'static str = "Deletes old firings of alerts.";
    const RETENTION: &'static [Retention] =
        &[Retention { what: "Firings of alerts, the newest 1,000 at most", kept: FIRINGS_ARE_KEPT_FOR }];
    const INTERVAL: Duration = Duration::from_secs(600);

    async fn purge_batch(&self) -> Result<WorkerReport, WorkerError> {
        Ok(WorkerReport::batch(self.purge(PURGED_AT_ONCE).await?, PURGED_AT_ONCE))
    }
}
