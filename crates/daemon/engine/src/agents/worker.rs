//! Deletes the data of deleted agents: files first, then rows, one batch per transaction.

use std::sync::Arc;
use std::time::Duration;

use agentd_base::{Backoff, Timestamp};
use agentd_core::runtime::{NextDue, PurgeTask, WorkerError, WorkerReport};
use agentd_store::{ItemStatus, Lease, Tx};
use tokio::sync::Notify;

use super::model::Purge;
use super::service::Agents;
use super::store;
use super::store::PURGE_QUEUE;

const LEASE_DURATION: Duration = Duration::from_secs(60);
const FILE_BATCH_SIZE: usize = 500;
const ROW_BATCH_SIZE: u32 = 500;
/// Maximum number of batches per run; the item is then requeued so that other items proceed.
const MAX_BATCHES_PER_RUN: usize = 20;
const BACKOFF: Backoff =
    Backoff { base: Duration::from_secs(5), multiplier: 2.0, cap: Duration::from_secs(600), jitter: 0.2 };

/// Worker that completes [`Agents::delete`].
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

impl PurgeTask for PurgeAgents {
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
        let claimed = context.db.claim(PURGE_QUEUE, &context.instance, 1, LEASE_DURATION).await?;
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
        for _ in 0..MAX_BATCHES_PER_RUN {
            let has_more_files = self.agents.workspaces().empty_trash(agent_id.as_str(), FILE_BATCH_SIZE).await?;
            let (owners, id, current_lease) = (self.agents.owners(), agent_id.clone(), lease.clone());
            let is_done = context
                .db
                .write(async move |tx: &mut Tx| {
                    let mut has_more = has_more_files;
                    for owner in &owners {
                        has_more |= owner.purge(tx, &id, ROW_BATCH_SIZE).await?;
                    }
                    if has_more {
                        tx.heartbeat(&current_lease, LEASE_DURATION).await?;
                        return Ok(false);
                    }
                    store::delete_agent(tx, &id).await?;
                    tx.complete(&current_lease).await?;
                    // The queue item contains the agent's id, so it is deleted as well.
                    tx.purge_queue(PURGE_QUEUE, ItemStatus::Done, Timestamp::from_micros(i64::MAX), 100).await?;
                    Ok::<_, agentd_store::StoreError>(true)
                })
                .await?;
            if is_done {
                return Ok(());
            }
        }
        let current_lease = lease.clone();
        context.db.write(async move |tx: &mut Tx| tx.release(&current_lease).await).await?;
        Ok(())
    }
}
