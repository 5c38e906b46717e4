//! Keeps connections to platforms that the daemon opens itself, for daemons that nothing outside can reach.

use std::sync::Arc;
use std::time::Duration;

use agentd_base::Timestamp;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::Notify;

use crate::channels::service::Channels;
use crate::runtime::{Worker, WorkerError, WorkerReport};

/// Opens them, takes what came by them, and keeps their leases; each platform's by one daemon at a time.
#[derive(Debug)]
pub(crate) struct KeepConnections(pub Channels);

impl Worker for KeepConnections {
    fn name(&self) -> &'static str {
        "channels.connect"
    }

    /// Settings that another daemon changed are seen then.
    fn interval(&self) -> Duration {
        Duration::from_secs(2)
    }

    fn idle_until(&self) -> Option<Timestamp> {
        Some(self.0.connections_due())
    }

    fn wake(&self) -> Option<Arc<Notify>> {
        Some(self.0.connection_wake())
    }

    fn run_once(&self) -> BoxFuture<'_, Result<WorkerReport, WorkerError>> {
        async { Ok(self.0.keep_connections().await?) }.boxed()
    }
}
