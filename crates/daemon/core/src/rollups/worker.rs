//! Workers that store measurements and compact old buckets.
//!
//! They need no lease: each daemon stores its own rows, and if two daemons compact the same buckets, one of them
//! retries and finds none.

use std::sync::Arc;
use std::time::Duration;

use agentd_base::Timestamp;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::Notify;

use super::service::Rollups;
use crate::runtime::{NextDue, Worker, WorkerError, WorkerReport};

/// Stores latencies once a minute if any were recorded.
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
        Some(self.0.recorder().notify())
    }

    fn idle_until(&self) -> Option<Timestamp> {
        Some(self.0.minute_end().unwrap_or(NextDue::NEVER))
    }

    fn run_once(&self) -> BoxFuture<'_, Result<WorkerReport, WorkerError>> {
        async { Ok(WorkerReport { items: self.0.flush(false).await? as u64, has_more: false }) }.boxed()
    }
}

/// Merges old buckets into longer ones.
#[derive(Debug)]
pub(super) struct CompactBuckets(pub(super) Rollups);

impl Worker for CompactBuckets {
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
            let (items, has_more) = self.0.compact().await?;
            Ok(WorkerReport { items, has_more })
        }
        .boxed()
    }
}
