//! Background work: writing when keys and sessions were last used, and purging what has expired.

use std::time::Duration;

use agentd_base::Timestamp;
use agentd_store::Tx;
use futures_util::future::BoxFuture;

use super::service::Auth;
use super::store;
use crate::runtime::{NextDue, PurgesData, Worker, WorkerError, WorkerReport};

/// Writes the noted uses of credentials, off the path of the requests that used them.
#[derive(Debug, Clone)]
pub(super) struct CredentialUseWriter(pub Auth);

impl Worker for CredentialUseWriter {
    fn name(&self) -> &'static str {
        "credential uses"
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
        // Whoever notes a use wakes it.
        Some(NextDue::NEVER)
    }

    fn run_once(&self) -> BoxFuture<'_, Result<WorkerReport, WorkerError>> {
        Box::pin(async move { Ok(WorkerReport::more(self.0.uses().write(&self.0.context().db).await?)) })
    }
}

const BATCH: u32 = 500;
/// Failed logins beyond this many are forgotten, the oldest first.
const MOST_FAILURES: u32 = 50_000;

/// Expired sessions and tickets, and failed logins that count no more.
impl PurgesData for Auth {
    const WORKER: &'static str = "login purge";
    const DESCRIPTION: &'static str = "Deletes expired sessions, tickets and login attempts.";

    async fn purge_batch(&self) -> Result<WorkerReport, WorkerError> {
        let context = self.context();
        let forget_before = context.clock.now() - self.login_policy().window;
        if !store::has_expired(&mut context.db.read().await?, forget_before, MOST_FAILURES).await? {
            return Ok(WorkerReport::IDLE);
        }
        let work = async move |tx: &mut Tx| {
            let counts = [
                store::sessions::delete_expired(tx, BATCH).await?,
                store::tickets::delete_expired(tx, BATCH).await?,
                store::failures::delete_older(tx, forget_before, BATCH).await?,
                store::failures::delete_surplus(tx, MOST_FAILURES, BATCH).await?,
            ];
            Ok::<_, agentd_store::StoreError>(WorkerReport::batches(&counts, BATCH))
        };
        Ok(context.db.write_relaxed(work).await?)
    }
}
