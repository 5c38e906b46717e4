//! Stores what was recorded, and makes old buckets wider.
//!
//! Neither needs a lease: each daemon stores its own rows, and of two that widen the same buckets one is run again
//! and finds them gone.

use std::sync::Arc;
use std::time::Duration;

use agentd_base::Timestamp;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::Notify;

use super::service::Rollups;
use crate::runtime::{NextDue, Worker, WorkerError, WorkerReport};

/// Once a minute, if anything was recorded.
#[derive(Debug)]
pub(super) struct StoreLatencies(pub(super) Rollups);

impl Worker for StoreLatencies {
    fn name(&self) -> &'static str {
        "rollups.store"
    }

    fn description(&self) -> &'static str {
        "Stores measured response times."
    }

    fn interval(&self) -> Duration {
        Duration::from_secs(60)
    }

    fn wake(&self) -> Option<Arc<Notify>> {
        Some(self.0.recorder().news())
    }

    fn idle_until(&self) -> Option<Timestamp> {
        Some(self.0.minute_ends().unwrap_or(NextDue::NEVER))
    }

    fn run_once(&self) -> BoxFuture<'_, Result<WorkerReport, WorkerError>> {
        async { Ok(WorkerReport { items: self.0.flush(false).await? as u64, has_more: false }) }.boxed()
    }
}

#[derive(Debug)]
pub(super) struct WidenBuckets(pub(super) Rollups);

impl Worker for WidenBuckets {
    fn name(&self) -> &'static str {
        "rollups.widen"
    }

    fn description(&self) -> &'static str {
        "Merges old statistics into longer intervals."
    }

    fn interval(&self) -> Duration {
        Duration::from_secs(600)
    }

    fn run_once(&self) -> BoxFuture<'_, Result<WorkerReport, WorkerError>> {
        async {
            let (items, has_more) = self.0.widen().await?;
            Ok(WorkerReport { items, has_more })
        }
        .boxed()
    }
}
