//! Deletes stored answers of `Idempotency-Key` after their day, and events after their week.
//!
//! Of two replicas that delete the same rows, one runs again and finds them gone.

use std::time::Duration;

use agentd_store::{Db, IDEMPOTENCY_KEPT, StoreError, Tx};

use super::purge_worker::PurgesData;
use super::report::{Retention, WorkerError, WorkerReport};

const BATCH: u32 = 500;
const INTERVAL: Duration = Duration::from_secs(600);
/// Events that every consumer has read are kept this long, for people who look back.
const EVENTS_ARE_KEPT_FOR: Duration = Duration::from_secs(7 * 24 * 3600);

#[derive(Debug)]
pub(super) struct StoredAnswers(pub Db);

impl PurgesData for StoredAnswers {
    const WORKER: &'static str = "purge_answers";
    const DESCRIPTION: &'static str = "Deletes stored responses of idempotent requests.";
    const RETENTION: &'static [Retention] =
        &[Retention { what: "Responses of requests with an Idempotency-Key", kept: IDEMPOTENCY_KEPT }];
    const INTERVAL: Duration = INTERVAL;

    async fn purge_batch(&self) -> Result<WorkerReport, WorkerError> {
        let purged = self.0.write(async |tx: &mut Tx| Ok::<_, StoreError>(tx.purge_answers(BATCH).await?)).await?;
        Ok(WorkerReport::batch(purged, BATCH))
    }
}

/// Events that every consumer has read.
#[derive(Debug)]
pub(super) struct ReadEvents(pub Db);

impl PurgesData for ReadEvents {
    const WORKER: &'static str = "prune_events";
    const DESCRIPTION: &'static str = "Deletes old events that every consumer has read.";
    const RETENTION: &'static [Retention] = &[Retention { what: "Events", kept: EVENTS_ARE_KEPT_FOR }];
    const INTERVAL: Duration = INTERVAL;

    async fn purge_batch(&self) -> Result<WorkerReport, WorkerError> {
        let before = self.0.clock().now() - EVENTS_ARE_KEPT_FOR;
        let prune = async move |tx: &mut Tx| Ok::<_, StoreError>(tx.prune_outbox(before, BATCH).await?);
        Ok(WorkerReport::batch(self.0.write(prune).await?, BATCH))
    }
}
