//! Deletes what deleted agents have left: files first, then rows, a batch a transaction.

use std::sync::Arc;
use std::time::Duration;

use agentd_base::{Backoff, Timestamp};
use agentd_core::runtime::{NextDue, PurgesData, WorkerError, WorkerReport};
use agentd_store::{ItemStatus, Lease, Tx};
use tokio::sync::Notify;

use super::model::Purge;
use super::service::Agents;
use super::store;
use super::store::PURGE_QUEUE;

const LEASE: Duration = Duration::from_secs(60);
const FILES_A_BATCH: usize = 500;
const ROWS_A_BATCH: u32 = 500;
/// After so many batches the item goes back into the queue, so that others have their turn.
const BATCHES_A_RUN: usize = 20;
const BACKOFF: Backoff =
    Backoff { base: Duration::from_secs(5), multiplier: 2.0, cap: Duration::from_secs(600), jitter: 0.2 };

/// The worker behind [`Agents::delete`].
#[derive(Debug)]
pub(super) struct PurgeAgents {
    agents: Agents,
    next_due: NextDue,
}

impl PurgeAgents {
    #[must_use]
    pub(super) fn new(agents: Agents) -> Self {
        Self { agents, next_due: NextDue::default() }
    }
}

impl PurgesData for PurgeAgents {
    const WORKER: &'static str = "agents.purge";
    const DESCRIPTION: &'static str = "Deletes the rows and files of deleted agents.";

    fn wake(&self) -> Option<Arc<Notify>> {
        Some(self.agents.purge_wake())
    }

    fn idle_until(&self) -> Option<Timestamp> {
        Some(self.next_due.at())
    }

    async fn purge_batch(&self) -> Result<WorkerReport, WorkerError> {
        let context = self.agents.context();
        let due = context.db.read().await?.next_due(PURGE_QUEUE).await?;
        self.next_due.note(due);
        if due.is_none_or(|due| due > context.clock.now()) {
            return Ok(WorkerReport::IDLE);
        }
        let claimed = context.db.claim(PURGE_QUEUE, &context.instance, 1, LEASE).await?;
        let Some(lease) = claimed.into_iter().next() else { return Ok(WorkerReport::IDLE) };
        match self.purge(&lease).await {
            Ok(()) => Ok(WorkerReport::more(1)),
            Err(error) => {
                let text = error.to_string();
                let failed = async move |tx: &mut Tx| tx.fail(&lease, &text, &BACKOFF).await.map(|_| ());
                context.db.write(failed).await?;
                Err(error)
            }
        }
    }
}

impl PurgeAgents {
    async fn purge(&self, lease: &Lease) -> Result<(), WorkerError> {
        let context = self.agents.context();
        let Purge { agent_id, svc_name } = lease.payload()?;
        self.agents.release_folder(&agent_id, &svc_name).await?;
        for _ in 0..BATCHES_A_RUN {
            let has_more_files = self.agents.workspaces().empty_trash(agent_id.as_str(), FILES_A_BATCH).await?;
            let (owners, id, held) = (self.agents.owners(), agent_id.clone(), lease.clone());
            let is_done = context
                .db
                .write(async move |tx: &mut Tx| {
                    let mut has_more = has_more_files;
                    for owner in &owners {
                        has_more |= owner.purge(tx, &id, ROWS_A_BATCH).await?;
                    }
                    if has_more {
                        tx.heartbeat(&held, LEASE).await?;
                        return Ok(false);
                    }
                    store::delete_agent(tx, &id).await?;
                    tx.complete(&held).await?;
                    // The item names the agent, so it goes too.
                    tx.purge_queue(PURGE_QUEUE, ItemStatus::Done, Timestamp::from_micros(i64::MAX), 100).await?;
                    Ok::<_, agentd_store::StoreError>(true)
                })
                .await?;
            if is_done {
                return Ok(());
            }
        }
        let held = lease.clone();
        context.db.write(async move |tx: &mut Tx| tx.release(&held).await).await?;
        Ok(())
    }
}
