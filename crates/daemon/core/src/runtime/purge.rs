//! Forgets what has had its time: stored answers of `Idempotency-Key` after their day, events after
//! their week.
//!
//! Neither needs a lease: each call deletes a bounded batch, and of two replicas that meet on the
//! same rows one is run again and finds them gone.

use std::time::Duration;

use agentd_store::{Db, IDEMPOTENCY_KEPT, StoreError, Tx};
use futures_util::future::BoxFuture;

use super::Worker;
use super::report::{Retention, WorkerError, WorkerReport};

const BATCH: u32 = 500;
/// Events that every consumer has read are kept this long, for people who look back.
const EVENTS_ARE_KEPT_FOR: Duration = Duration::from_secs(7 * 24 * 3600);

/// Deletes a batch a call.
#[derive(Debug, Clone)]
pub(super) struct PurgeAnswers(pub Db);

impl Worker for PurgeAnswers {
    fn name(&self) -> &'static str {
        "purge_answers"
    }

    fn description(&self) -> &'static str {
        "Deletes stored responses of idempotent requests."
    }

    fn retention(&self) -> &'static [Retention] {
        &[Retention { what: "Responses of requests with an Idempotency-Key", kept: IDEMPOTENCY_KEPT }]
    }

    fn interval(&self) -> Duration {
        Duration::from_secs(600)
    }

    fn run_once(&self) -> BoxFuture<'_, Result<WorkerReport, WorkerError>> {
        Box::pin(async move {
            let purged = self.0.write(async |tx: &mut Tx| Ok::<_, StoreError>(tx.purge_answers(BATCH).await?)).await?;
            Ok(WorkerReport::batch(purged, BATCH))
        })
    }
}

/// Deletes a batch of old events a call, never one that a consumer has still to read.
#[derive(Debug, Clone)]
pub(super) struct PruneEvents(pub Db);

impl Worker for PruneEvents {
    fn name(&self) -> &'static str {
        "prune_events"
    }

    fn description(&self) -> &'static str {
        "Deletes old events that every consumer has read."
    }

    fn retention(&self) -> &'static [Retention] {
        &[Retention { what: "Events", kept: EVENTS_ARE_KEPT_FOR }]
    }

    fn interval(&self) -> Duration {
        Duration::from_secs(600)
    }

    fn run_once(&self) -> BoxFuture<'_, Result<WorkerReport, WorkerError>> {
        Box::pin(async move {
            let before = self.0.clock().now() - EVENTS_ARE_KEPT_FOR;
            let prune = async move |tx: &mut Tx| Ok::<_, StoreError>(tx.prune_outbox(before, BATCH).await?);
            Ok(WorkerReport::batch(self.0.write(prune).await?, BATCH))
        })
    }
}
