//! Takes the names of deleted projects off what named them, a batch a transaction.

use std::sync::Arc;
use std::time::Duration;

use agentd_base::Timestamp;
use agentd_core::runtime::{NextDue, Worker, WorkerError, WorkerReport};
use agentd_store::{StoreError, Tx};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::Notify;

use super::service::Projects;
use super::store;

const ROWS_A_BATCH: u32 = 500;

/// The worker behind the deletion of projects. It needs no lease: what it does was decided already, and
/// doing it twice changes nothing.
#[derive(Debug)]
pub(super) struct PurgeProjects(pub Projects);

impl Worker for PurgeProjects {
    fn name(&self) -> &'static str {
        "projects.purge"
    }

    fn description(&self) -> &'static str {
        "Removes references to deleted projects."
    }

    fn interval(&self) -> Duration {
        Duration::from_secs(60)
    }

    fn wake(&self) -> Option<Arc<Notify>> {
        Some(self.0.purge_wake())
    }

    fn idle_until(&self) -> Option<Timestamp> {
        // Deletions are written.
        Some(NextDue::NEVER)
    }

    fn run_once(&self) -> BoxFuture<'_, Result<WorkerReport, WorkerError>> {
        self.run().boxed()
    }
}

impl PurgeProjects {
    async fn run(&self) -> Result<WorkerReport, WorkerError> {
        let db = &self.0.context().db;
        let Some(id) = store::find_hidden(&mut db.read().await?).await? else { return Ok(WorkerReport::IDLE) };
        let namers = self.0.namers();
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
