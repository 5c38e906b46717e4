//! Purges expired pairing codes and old failed attempts.

use agentd_core::runtime::{PurgeTask, WorkerError, WorkerReport};
use agentd_store::{StoreError, Tx};

use super::model::FAILURE_WINDOW;
use super::service::Devices;
use super::store;

const BATCH_SIZE: u32 = 500;
/// Failed attempts in excess of this number are deleted, oldest first.
const MAX_STORED_FAILURES: u32 = 10_000;

impl PurgeTask for Devices {
    const WORKER: &'static str = "devices.purge";
    const DESCRIPTION: &'static str = "Deletes expired pairing codes.";

    async fn purge_batch(&self) -> Result<WorkerReport, WorkerError> {
        let context = self.context();
        let before = context.clock.now() - FAILURE_WINDOW;
        if !store::has_expired(&mut context.db.read().await?, before, MAX_STORED_FAILURES).await? {
            return Ok(WorkerReport::IDLE);
        }
        let purge = async move |tx: &mut Tx| {
            let counts = [
                store::delete_expired_codes(tx, BATCH_SIZE).await?,
                store::delete_older_failures(tx, before, BATCH_SIZE).await?,
                store::delete_surplus_failures(tx, MAX_STORED_FAILURES, BATCH_SIZE).await?,
            ];
            Ok::<_, StoreError>(WorkerReport::batches(&counts, BATCH_SIZE))
        };
        Ok(context.db.write_relaxed(purge).await?)
    }
}
