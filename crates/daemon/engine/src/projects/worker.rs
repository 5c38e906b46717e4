//! Removes references to deleted projects, one batch per transaction.

use std::sync::Arc;

use agentd_core::runtime::{PurgeTask, WorkerError, WorkerReport};
use agentd_store::{StoreError, Tx};
use tokio::sync::Notify;

use super::service::Projects;
use super::store;

const ROW_BATCH_SIZE: u32 = 500;

impl PurgeTask for Projects {
    const WORKER: &'static str = "projects.purge";
    const DESCRIPTION: &'static str = "Removes references to deleted projects.";

    fn wake(&self) -> Option<Arc<Notify>> {
        Some(self.purge_wake())
    }

    async fn purge_batch(&self) -> Result<WorkerReport, WorkerError> {
        let db = &self.context().db;
        let Some(id) = store::find_hidden(&mut db.read().await?).await? else { return Ok(WorkerReport::IDLE) };
        let referrers = self.referrers();
        let purge = async move |tx: &mut Tx| {
            for referrer in &referrers {
                if referrer.release(tx, &id, ROW_BATCH_SIZE).await? {
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
