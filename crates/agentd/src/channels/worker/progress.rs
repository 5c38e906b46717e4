//! Says of turns that take long that they go on.

use std::time::Duration;

use agentd_base::Timestamp;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use crate::channels::service::Channels;
use crate::runtime::{Worker, WorkerError, WorkerReport};

#[derive(Debug)]
pub(crate) struct ReportProgress(pub Channels);

impl Worker for ReportProgress {
    fn name(&self) -> &'static str {
        "channels.progress"
    }

    fn interval(&self) -> Duration {
        Duration::from_secs(5)
    }

    fn idle_until(&self) -> Option<Timestamp> {
        Some(self.0.progress_due().at())
    }

    fn run_once(&self) -> BoxFuture<'_, Result<WorkerReport, WorkerError>> {
        async {
            let (said, next_due) = self.0.report_progress().await?;
            self.0.progress_due().note(next_due);
            Ok(WorkerReport::done(said))
        }
        .boxed()
    }
}
