//! Background work: storing the last use of keys and sessions, and purging expired rows.

use std::time::Duration;

use agentd_base::Timestamp;
use agentd_store::Tx;
use futures_util::future::BoxFuture;

use super::service::Auth;
use super::store;
use crate::runtime::{NextDue, PurgeTask, Worker, WorkerError, WorkerReport};

/// Writes recorded uses of credentials outside of the requests that used them.
#[derive(Debug, Clone)]
pub(super) struct CredentialUseWriter(pub Auth);

impl Worker for CredentialUseWriter {
    fn name(&self) -> &'static str {
        "auth.record_uses"
    }

    fn description(&self) -> &'static str {
        "Stores when keys and sessions were last used."
    }

    fn interval(&self) -> Duration {
        Duration::from_secs(60)
    }

    fn wake(&self) -> Option<std::sync::Arc<tokio::sync::Notify>> {
        Some(self.0.uses().wake())
    }

    fn idle_until(&self) -> Option<Timestamp> {
        // Recording a use wakes the worker.
        Some(NextDue::NEVER)
    }

    fn run_once(&self) -> BoxFuture<'_, Result<WorkerReport, WorkerError>> {
        Box::pin(async move { Ok(WorkerReport::more(self.0.uses().write(&self.0.context().db).await?)) })
    }
}

const BATCH_SIZE: u32 = 500;
/// Maximum number of stored failed logins; the oldest are deleted first.
const MAX_FAILURES: u32 = 50_000;

/// Purges expired sessions and tickets, and failed logins outside of the window.
impl PurgeTask for Auth {
    const WORKER: &'static str = "auth.purge";
    const DESCRIPTION: &'static str = "Deletes expired sessions, tickets and login attempts.";

    async fn purge_batch(&self) -> Result<WorkerReport, WorkerError> {
        let context = self.context();
        let failures_before = context.clock.now() - self.login_policy().window;
        if !store::has_expired(&mut context.db.read().await?, failures_before, MAX_FAILURES).await? {
            return Ok(WorkerReport::IDLE);
        }
        let work = async move |tx: &mut Tx| {
            let counts = [
                store::sessions::delete_expired(tx, BATCH_SIZE).await?,
                store::tickets::delete_expired(tx, BATCH_SIZE).await?,
                store::failures::delete_older(tx, failures_before, BATCH_SIZE).await?,
                store::failures::delete_surplus(tx, MAX_FAILURES, BATCH_SIZE).await?,
            ];
            Ok::<_, agentd_store::StoreError>(WorkerReport::batches(&counts, BATCH_SIZE))
        };
        Ok(context.db.write_relaxed(work).await?)
    }
}
