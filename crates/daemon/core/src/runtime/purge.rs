//! Retention of idempotency records and events.
//!
//! No lease is needed: if two replicas delete the same rows, one of them retries and finds none.

use std::time::Duration;

use agentd_store::{Db, IDEMPOTENCY_RETENTION, StoreError, Tx};

use super::purge_worker::PurgeTask;
use super::report::{Retention, WorkerError, WorkerReport};

const BATCH_SIZE: u32 = 500;
const INTERVAL: Duration = Duration::from_secs(600);
/// Retention of events that every consumer has read; they stay available as history.
const EVENT_RETENTION: Duration = Duration::from_secs(7 * 24 * 3600);

/// Purges stored responses of idempotent requests.
#[derive(Debug)]
pub(super) struct StoredResponses(pub Db);

impl PurgeTask for StoredResponses {
    const WORKER: &'static str = "idempotency.purge";
    const DESCRIPTION: &'static str = "Deletes stored responses of idempotent requests.";
    const RETENTION: &'static [Retention] =
        &[Retention { what: "Responses of requests with an Idempotency-Key", kept: IDEMPOTENCY_RETENTION }];
    const INTERVAL: Duration = INTERVAL;

    async fn purge_batch(&self) -> Result<WorkerReport, WorkerError> {
        let purged =
            self.0.write(async |tx: &mut Tx| Ok::<_, StoreError>(tx.purge_responses(BATCH_SIZE).await?)).await?;
        Ok(WorkerReport::batch(purged, BATCH_SIZE))
    }
}

/// Purges events that every consumer has read.
#[derive(Debug)]
pub(super) struct ReadEvents(pub Db);

impl PurgeTask for ReadEvents {
    const WORKER: &'static str = "events.purge";
    const DESCRIPTION: &'static str = "Deletes old events that every consumer has read.";
    const RETENTION: &'static [Retention] = &[Retention { what: "Events", kept: EVENT_RETENTION }];
    const INTERVAL: Duration = INTERVAL;

    async fn purge_batch(&self) -> Result<WorkerReport, WorkerError> {
        let before = self.0.clock().now() - EVENT_RETENTION;
        let prune = async move |tx: &mut Tx| Ok::<_, StoreError>(tx.prune_outbox(before, BATCH_SIZE).await?);
        Ok(WorkerReport::batch(self.0.write(prune).await?, BATCH_SIZE))
    }
}
