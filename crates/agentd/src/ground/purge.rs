//! Forgets stored answers of `Idempotency-Key` after their day is over.

use std::time::Duration;

use agentd_store::{Db, StoreError, Tx};
use futures_util::future::BoxFuture;

use super::{Worker, WorkerError};

const BATCH: u32 = 500;

/// Deletes a batch a call.
#[derive(Debug, Clone)]
pub struct PurgeAnswers(pub Db);

impl Worker for PurgeAnswers {
    fn name(&self) -> &'static str {
        "purge_answers"
    }

    fn interval(&self) -> Duration {
        Duration::from_secs(600)
    }

    fn run_once(&self) -> BoxFuture<'_, Result<bool, WorkerError>> {
        Box::pin(async move {
            let purged = self.0.write(async |tx: &mut Tx| Ok::<_, StoreError>(tx.purge_answers(BATCH).await?)).await?;
            Ok(purged >= u64::from(BATCH))
        })
    }
}
