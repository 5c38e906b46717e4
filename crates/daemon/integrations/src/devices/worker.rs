//! Forgets codes that have expired and wrong tries that count no more.

use agentd_core::runtime::{PurgesData, WorkerError, WorkerReport};
use agentd_store::{StoreError, Tx};

use super::model::FAILURE_WINDOW;
use super::service::Devices;
use super::store;

const BATCH: u32 = 500;
/// Wrong tries beyond this many are forgotten, the oldest first.
const MOST_FAILURES: u32 = 10_000;

impl PurgesData for Devices {
    const WORKER: &'static str = "pairing purge";
    const DESCRIPTION: &'static str = "Deletes expired pairing codes.";

    async fn purge_batch(&self) -> Result<WorkerReport, WorkerError> {
        let context = self.context();
        let before = context.clock.now() - FAILURE_WINDOW;
        if !store::has_expired(&mut context.db.read().await?, before, MOST_FAILURES).await? {
            return Ok(WorkerReport::IDLE);
        }
        let purge = async move |tx: &mut Tx| {
            let counts = [
                store::delete_expired_codes(tx, BATCH).await?,
                store::delete_older_failures(tx, before, BATCH).await?,
                store::delete_surplus_failures(tx, MOST_FAILURES, BATCH).await?,
            ];
            Ok::<_, StoreError>(WorkerReport::batches(&counts, BATCH))
        };
        Ok(context.db.write_relaxed(purge).await?)
    }
}
