//! Does what other hooks are to do.

use std::sync::Arc;
use std::time::Duration;

use agentd_base::{Timestamp, trace};
use agentd_core::runtime::{Worker, WorkerError, WorkerReport};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::Notify;
use tracing::Instrument as _;

use super::INTERVAL;
use super::claim::{Task, claim_due, claim_span, rest};
use crate::hooks::act::Work;
use crate::hooks::model::EXECUTION_LEASE;
use crate::hooks::service::Hooks;
use crate::hooks::store::queue::QueueKind;

/// Claims executions that are due, and those that a daemon left behind, and carries them out, a few at once.
#[derive(Debug)]
pub(crate) struct ExecuteHooks(pub Hooks);

impl Worker for ExecuteHooks {
    fn name(&self) -> &'static str {
        "hooks.execute"
    }

    fn description(&self) -> &'static str {
        "Runs the built-in actions and programs of hooks."
    }

    fn interval(&self) -> Duration {
        INTERVAL
    }

    fn idle_until(&self) -> Option<Timestamp> {
        Some(self.0.next_due(QueueKind::Executions).at())
    }

    fn wake(&self) -> Option<Arc<Notify>> {
        Some(self.0.wake_of(QueueKind::Executions))
    }

    fn run_once(&self) -> BoxFuture<'_, Result<WorkerReport, WorkerError>> {
        self.run().boxed()
    }
}

impl ExecuteHooks {
    async fn run(&self) -> Result<WorkerReport, WorkerError> {
        let had_work = self.0.limits().of(QueueKind::Executions).is_in_use();
        let claimed = claim_due(&self.0, QueueKind::Executions, EXECUTION_LEASE)
            .await
            .inspect_err(|_| self.0.invalidate_cache())?;
        if claimed.is_empty() {
            let has_more = rest(&self.0, QueueKind::Executions).await || had_work;
            return Ok(WorkerReport { items: 0, has_more });
        }
        let items = claimed.len();
        for task in claimed {
            let hooks = self.0.clone();
            let (trace, span) = (task.claim.trace, claim_span(&task.claim));
            // In a task of its own: what has begun is not cut off when the workers stop.
            let executing = async move {
                let Task { hook, claim, mut permit, .. } = task;
                Work::new(&hooks, &hook, &claim).execute(hook.hook.max_retries, &mut permit).await;
                let has_left_queue = permit.has_left_queue();
                drop(permit);
                if has_left_queue {
                    // The limit of the queue has nothing to tell, but the hook may have another one.
                    hooks.wake_of(QueueKind::Executions).notify_one();
                }
            };
            tokio::spawn(trace::within(trace, executing).instrument(span));
        }
        Ok(WorkerReport::more(items))
    }
}
