//! Forgets deliveries after their time, those beyond what a webhook keeps, and what deleted webhooks
//! left.

use std::sync::Arc;
use std::time::Duration;

use agentd_base::Timestamp;
use agentd_store::{ItemStatus, StoreError, Tx};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::Notify;

use crate::runtime::{NextDue, Worker, WorkerError, WorkerReport};
use crate::webhooks::model::{KEPT, MAX_BYTES, MAX_DELIVERIES, QUEUE, REPEATS_WITHIN, WebhookDeliveryId, WebhookId};
use crate::webhooks::service::Webhooks;
use crate::webhooks::store::purge;

/// A body may have two megabytes.
const DELIVERIES_A_BATCH: u32 = 50;
const ROWS_A_BATCH: u32 = 500;

/// Deletes a batch of each kind a call. Needs no lease: what goes was decided already, and deleting
/// twice is deleting once.
#[derive(Debug)]
pub(crate) struct PurgeDeliveries(pub Webhooks);

impl Worker for PurgeDeliveries {
    fn name(&self) -> &'static str {
        "webhooks.purge"
    }

    fn interval(&self) -> Duration {
        Duration::from_secs(60)
    }

    fn wake(&self) -> Option<Arc<Notify>> {
        Some(self.0.purge_wake())
    }

    fn idle_until(&self) -> Option<Timestamp> {
        // Deletions are written, and what is too old can wait.
        Some(NextDue::NEVER)
    }

    fn run_once(&self) -> BoxFuture<'_, Result<WorkerReport, WorkerError>> {
        self.run().boxed()
    }
}

impl PurgeDeliveries {
    async fn run(&self) -> Result<WorkerReport, WorkerError> {
        let old = self.purge_old().await?.and(self.purge_surplus().await?);
        let deleted = self.purge_deleted().await?;
        Ok(old.and(deleted).and(self.purge_messages().await?).and(self.purge_items().await?))
    }

    async fn purge_old(&self) -> Result<WorkerReport, WorkerError> {
        let context = self.0.context();
        let before = context.clock.now() - KEPT;
        let old = purge::list_old(&mut context.db.read().await?, before, DELIVERIES_A_BATCH).await?;
        self.delete(old).await
    }

    async fn purge_surplus(&self) -> Result<WorkerReport, WorkerError> {
        let mut report = WorkerReport::IDLE;
        for webhook in self.0.take_fed().await? {
            let mut read = self.0.context().db.read().await?;
            let surplus =
                purge::list_surplus(&mut read, &webhook, MAX_DELIVERIES, MAX_BYTES, DELIVERIES_A_BATCH).await?;
            drop(read);
            let deleted = self.delete(surplus).await?;
            if deleted.has_more {
                self.0.note_fed(&webhook);
            }
            report = report.and(deleted);
        }
        Ok(report)
    }

    /// Deletes these: there may be more if they were a whole batch.
    async fn delete(&self, ids: Vec<WebhookDeliveryId>) -> Result<WorkerReport, WorkerError> {
        if ids.is_empty() {
            return Ok(WorkerReport::IDLE);
        }
        let report = WorkerReport::batch(ids.len(), DELIVERIES_A_BATCH);
        let delete = async move |tx: &mut Tx| purge::delete_deliveries(tx, &ids).await;
        self.0.context().db.write(delete).await?;
        Ok(report)
    }

    async fn purge_deleted(&self) -> Result<WorkerReport, WorkerError> {
        let db = &self.0.context().db;
        let Some(webhook) = purge::find_hidden(&mut db.read().await?).await? else { return Ok(WorkerReport::IDLE) };
        db.write(async move |tx: &mut Tx| purge_webhook(tx, &webhook).await).await?;
        Ok(WorkerReport::more(1))
    }

    async fn purge_messages(&self) -> Result<WorkerReport, WorkerError> {
        let context = self.0.context();
        let before = context.clock.now() - REPEATS_WITHIN;
        if !purge::has_old_messages(&mut context.db.read().await?, before).await? {
            return Ok(WorkerReport::IDLE);
        }
        let delete = async move |tx: &mut Tx| purge::delete_old_messages(tx, before, ROWS_A_BATCH).await;
        Ok(WorkerReport::batch(context.db.write_relaxed(delete).await?, ROWS_A_BATCH))
    }

    /// Places in the queue of turns that began.
    async fn purge_items(&self) -> Result<WorkerReport, WorkerError> {
        let context = self.0.context();
        if context.db.read().await?.queue_stats(QUEUE).await?.done == 0 {
            return Ok(WorkerReport::IDLE);
        }
        // What ended in this very moment is left for the next time.
        let before = context.clock.now();
        let delete = async move |tx: &mut Tx| tx.purge_queue(QUEUE, ItemStatus::Done, before, ROWS_A_BATCH).await;
        Ok(WorkerReport::batch(context.db.write_relaxed(delete).await?, ROWS_A_BATCH))
    }
}

/// Deletes a batch of what a deleted webhook left, and its row with the last of it.
async fn purge_webhook(tx: &mut Tx, webhook: &WebhookId) -> Result<(), StoreError> {
    let deliveries = purge::list_of_webhook(tx, webhook, DELIVERIES_A_BATCH).await?;
    purge::delete_deliveries(tx, &deliveries).await?;
    let messages = purge::delete_messages(tx, webhook, ROWS_A_BATCH).await?;
    if deliveries.is_empty() && messages == 0 {
        purge::delete_hidden(tx, webhook).await?;
    }
    Ok(())
}
