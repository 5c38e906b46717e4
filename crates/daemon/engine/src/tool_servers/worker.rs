//! Worker that reconciles sessions with registrations: closes idle, deleted or outdated sessions and pings servers over
//! HTTP.

use std::sync::Arc;
use std::time::Duration;

use agentd_base::Timestamp;
use agentd_core::runtime::{NextDue, Worker, WorkerError, WorkerReport};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::Notify;

use super::service::ToolServers;

const INTERVAL: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub struct ToolServerMaintenance(pub ToolServers);

impl Worker for ToolServerMaintenance {
    fn name(&self) -> &'static str {
        "tool_servers.keep"
    }

    fn description(&self) -> &'static str {
        "Connects tool servers and ends idle ones."
    }

    fn interval(&self) -> Duration {
        INTERVAL
    }

    fn wake(&self) -> Option<Arc<Notify>> {
        Some(self.0.link_created())
    }

    fn idle_until(&self) -> Option<Timestamp> {
        self.0.has_no_links().then_some(NextDue::NEVER)
    }

    fn run_once(&self) -> BoxFuture<'_, Result<WorkerReport, WorkerError>> {
        async move { Ok(WorkerReport::done(self.0.reconcile().await?)) }.boxed()
    }
}
