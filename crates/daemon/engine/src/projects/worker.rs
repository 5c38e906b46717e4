//! Takes the names of deleted projects off what named them, a batch a transaction.

use std::sync::Arc;

use agentd_core::runtime::{PurgesData, WorkerError, WorkerReport};
use agentd_store::{StoreError, Tx};
use tokio::sync::Notify;

use super::service::Projects;
use super::store;

const ROWS_A_BATCH: u32 = 500;

impl PurgesData for Projects {
    const WORKER: &'static str = "projects.purge";
    const DESCRIPTION: &'static str = "Removes references to deleted projects.";

    fn wake(&self) -> Option<Arc<Notify>> {
        Some(self.purge_wake())
    }

    async fn purge_batch(&self) -> Result<WorkerReport, WorkerError> {
        let db = &self.context().db;
        let Some(id) = store::find_hidden(&mut db.read().await?).await? else { return Ok(WorkerReport::IDLE) };
        let namers = self.namers();
        let purge = async move |tx: &mut Tx| {
            for namer in &namers {
                if namer.release(tx, &id, ROWS_A_BATCH).await? {
                    return Ok(());
                }
            }
            store::delete_hidden(tx, &id).await?;
            Ok::<_, StoreError>(())
        };
        db.write(purge).await?;
        Ok(WorkerReport::more(1))
    }
}
