//! Forgets codes that have expired and wrong tries that count no more.

use std::time::Duration;

use agentd_base::Timestamp;
use agentd_core::runtime::{NextDue, Worker, WorkerError, WorkerReport};
use agentd_store::{StoreError, Tx};
use futures_util::future::BoxFuture;

use super::model::FAILURE_WINDOW;
use super::service::Devices;
use super::store;

const BATCH: u32 = 500;
/// Wrong tries beyond this many are forgotten, the oldest first.
const MOST_FAILURES: u32 = 10_000;

/// Deletes a batch a call. Needs no lease: deleting twice is deleting once.
#[derive(Debug, Clone)]
pub(super) struct PurgePairing(pub Devices);

impl Worker for PurgePairing {
    fn name(&self) -> &'static str {
        "pairing purge"
    }

    fn description(&self) -> &'static str {
        "Deletes expired pairing codes."
    }

    fn interval(&self) -> Duration {
        Duration::from_secs(60)
    }

    fn idle_until(&self) -> Option<Timestamp> {
        // What has expired is refused, whether or not it is still there.
        Some(NextDue::NEVER)
    }

    fn run_once(&self) -> BoxFuture<'_, Result<WorkerReport, WorkerError>> {
        Box::pin(async move {
            let context = self.0.context();
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
        })
    }
}
