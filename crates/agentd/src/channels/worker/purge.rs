//! Forgets messages after their time, codes that ended, and places in the queue of what began.

use std::time::Duration;

use agentd_store::{ItemStatus, StoreError, Tx};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use crate::channels::model::{KEPT, QUEUE};
use crate::channels::service::Channels;
use crate::channels::store;
use crate::runtime::{Worker, WorkerError, WorkerReport};

const ROWS_A_BATCH: u32 = 500;

/// Deletes a batch of each kind a call. Needs no lease: deleting twice is deleting once.
#[derive(Debug)]
pub(crate) struct PurgeMessages(pub Channels);

impl Worker for PurgeMessages {
    fn name(&self) -> &'static str {
        "channels.purge"
    }

    fn interval(&self) -> Duration {
        Duration::from_secs(600)
    }

    fn run_once(&self) -> BoxFuture<'_, Result<WorkerReport, WorkerError>> {
        async {
            let context = self.0.context();
            let now = context.clock.now();
            let mut read = context.db.read().await?;
            let is_due = store::has_expired(&mut read, now - KEPT).await? || read.queue_stats(QUEUE).await?.done > 0;
            drop(read);
            if !is_due {
                return Ok(WorkerReport::IDLE);
            }
            let purge = async move |tx: &mut Tx| {
                store::delete_expired_pairings(tx, now).await?;
                let messages = store::purge_messages(tx, now - KEPT, ROWS_A_BATCH).await?;
                let conversations = store::purge_conversations(tx, ROWS_A_BATCH).await?;
                let approvals = store::purge_approvals(tx, ROWS_A_BATCH).await?;
                let items = tx.purge_queue(QUEUE, ItemStatus::Done, now, ROWS_A_BATCH).await?;
                Ok::<_, StoreError>(messages.max(conversations).max(approvals).max(items))
            };
            Ok(WorkerReport::batch(context.db.write_relaxed(purge).await?, ROWS_A_BATCH))
        }
        .boxed()
    }
}
