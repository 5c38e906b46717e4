//! Requests in chats the approvals that turns of channels wait for.

use std::time::Duration;

use agentd_base::Timestamp;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use crate::channels::service::Channels;
use crate::runtime::{NextDue, Worker, WorkerError, WorkerReport};

#[derive(Debug)]
pub(crate) struct RequestApprovals(pub Channels);

impl Worker for RequestApprovals {
    fn name(&self) -> &'static str {
        "channels.approvals"
    }

    fn interval(&self) -> Duration {
        Duration::from_secs(2)
    }

    /// Nothing is ever due but by what was written.
    fn idle_until(&self) -> Option<Timestamp> {
        Some(NextDue::NEVER)
    }

    fn run_once(&self) -> BoxFuture<'_, Result<WorkerReport, WorkerError>> {
        async { Ok(WorkerReport::done(self.0.request_approvals().await?)) }.boxed()
    }
}
