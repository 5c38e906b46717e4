//! Delivers what is due.

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
use super::record::{Attempted, Recorder};
use crate::hooks::act::Work;
use crate::hooks::model::{Action, DELIVERY_LEASE, Sent};
use crate::hooks::service::Hooks;
use crate::hooks::store::queue::QueueKind;

/// Claims deliveries that are due and sends them, many at once.
#[derive(Debug)]
pub(crate) struct DeliverHooks {
    hooks: Hooks,
    recorder: Arc<Recorder>,
}

impl DeliverHooks {
    #[must_use]
    pub(crate) fn new(hooks: Hooks) -> Self {
        Self { recorder: Recorder::new(hooks.clone()), hooks }
    }
}

impl Worker for DeliverHooks {
    fn name(&self) -> &'static str {
        "hooks.deliver"
    }

    fn description(&self) -> &'static str {
        "Sends queued hook deliveries to their receivers."
    }

    fn interval(&self) -> Duration {
        INTERVAL
    }

    fn idle_until(&self) -> Option<Timestamp> {
        Some(self.hooks.next_due(QueueKind::Deliveries).at())
    }

    fn wake(&self) -> Option<Arc<Notify>> {
        Some(self.hooks.wake_of(QueueKind::Deliveries))
    }

    fn run_once(&self) -> BoxFuture<'_, Result<WorkerReport, WorkerError>> {
        self.run().boxed()
    }
}

impl DeliverHooks {
    async fn run(&self) -> Result<WorkerReport, WorkerError> {
        // What ended since then may be due again earlier than was seen.
        let had_work = self.hooks.limits().of(QueueKind::Deliveries).is_in_use();
        let claimed = claim_due(&self.hooks, QueueKind::Deliveries, DELIVERY_LEASE)
            .await
            .inspect_err(|_| self.hooks.invalidate_cache())?;
        if claimed.is_empty() {
            let has_more = rest(&self.hooks, QueueKind::Deliveries).await || had_work;
            return Ok(WorkerReport { items: 0, has_more });
        }
        let items = claimed.len();
        for task in claimed {
            let (hooks, recorder) = (self.hooks.clone(), Arc::clone(&self.recorder));
            let (trace, span) = (task.claim.trace, claim_span(&task.claim));
            // In a task of its own: what has begun is not cut off when the workers stop.
            let delivering = async move { deliver(&hooks, &recorder, task).await };
            tokio::spawn(trace::within(trace, delivering).instrument(span));
        }
        Ok(WorkerReport::more(items))
    }
}

async fn deliver(hooks: &Hooks, recorder: &Arc<Recorder>, task: Task) {
    let Task { hook, claim, is_probe, mut permit } = task;
    let sent = match &hook.hook.action {
        Action::Http(http) => Work::new(hooks, &hook, &claim).send(http, || permit.count_as_slow()).await,
        Action::Broken(problem) => Sent::impossible(problem),
        Action::Python(_) | Action::Builtin(_) => Sent::impossible("the hook sends nothing"),
    };
    let jitter = hooks.context().entropy.unit();
    recorder.record(Attempted { hook, claim, is_probe, sent, jitter }, permit);
}
