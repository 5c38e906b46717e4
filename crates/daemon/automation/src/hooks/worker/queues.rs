//! Workers of the delivery and execution queues. They claim due work fairly: permits are granted round-robin, one per
//! hook and round, within the hook's limits. Each claimed item runs in its own task.

use std::sync::Arc;
use std::time::Duration;

use agentd_base::{Timestamp, trace};
use agentd_core::runtime::{Worker, WorkerError, WorkerReport, until_due};
use agentd_store::{Durability, Tx};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::Notify;
use tracing::Instrument as _;

use super::POLL_INTERVAL;
use super::record::{DeliveryAttempt, Recorder};
use crate::hooks::act::{self, Work};
use crate::hooks::cache::{HookCache, LoadedHook};
use crate::hooks::error::HookError;
use crate::hooks::limits::{HookPermit, QueueLimits};
use crate::hooks::model::{Action, DELIVERY_LEASE, EXECUTION_LEASE, HookId, SendOutcome};
use crate::hooks::service::Hooks;
use crate::hooks::store::queue::{self, Backlog, Claim, QueueKind};

/// Maximum wait after a round without due work, so that the worker becomes idle regularly while tasks are running.
const MAX_WAIT: Duration = Duration::from_secs(1);

/// Claims deliveries that are due and sends them, many concurrently.
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
        POLL_INTERVAL
    }

    fn idle_until(&self) -> Option<Timestamp> {
        Some(self.hooks.next_due(QueueKind::Deliveries).at())
    }

    fn wake(&self) -> Option<Arc<Notify>> {
        Some(self.hooks.wake_of(QueueKind::Deliveries))
    }

    fn run_once(&self) -> BoxFuture<'_, Result<WorkerReport, WorkerError>> {
        let start = |task| deliver(self.hooks.clone(), Arc::clone(&self.recorder), task);
        run_queue(&self.hooks, QueueKind::Deliveries, DELIVERY_LEASE, start).boxed()
    }
}

async fn deliver(hooks: Hooks, recorder: Arc<Recorder>, task: Task) {
    let Task { hook, claim, is_probe, mut permit } = task;
    let sent = match &hook.hook.action {
        Action::Http(http) => act::send(&hooks, &hook, &claim, http, || permit.count_as_slow()).await,
        Action::Broken(problem) => SendOutcome::unsendable(problem),
        Action::Python(_) | Action::Builtin(_) => SendOutcome::unsendable("the hook is no longer an http hook"),
    };
    let jitter = hooks.context().entropy.unit();
    recorder.record(DeliveryAttempt { hook, claim, is_probe, sent, jitter }, permit);
}

/// Claims executions that are due, including those whose lease expired, and runs a few concurrently.
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
        POLL_INTERVAL
    }

    fn idle_until(&self) -> Option<Timestamp> {
        Some(self.0.next_due(QueueKind::Executions).at())
    }

    fn wake(&self) -> Option<Arc<Notify>> {
        Some(self.0.wake_of(QueueKind::Executions))
    }

    fn run_once(&self) -> BoxFuture<'_, Result<WorkerReport, WorkerError>> {
        let start = |task| execute(self.0.clone(), task);
        run_queue(&self.0, QueueKind::Executions, EXECUTION_LEASE, start).boxed()
    }
}

async fn execute(hooks: Hooks, task: Task) {
    let Task { hook, claim, mut permit, .. } = task;
    Work::new(&hooks, &hook, &claim).execute(hook.hook.max_retries, &mut permit).await;
    let has_left_queue = permit.has_left_queue();
    drop(permit);
    if has_left_queue {
        // The released permit was not one of the queue, so its limit sends no signal; the hook may have more work.
        hooks.wake_of(QueueKind::Executions).notify_one();
    }
}

/// A claimed delivery or execution.
struct Task {
    hook: Arc<LoadedHook>,
    claim: Claim,
    /// Whether it tests a receiver whose circuit is open.
    is_probe: bool,
    permit: HookPermit,
}

/// Claims due work and starts a task for each item. A round without due work waits until a permit is released, or until
/// the next item is due.
async fn run_queue<F>(
    hooks: &Hooks,
    queue: QueueKind,
    lease: Duration,
    start: impl Fn(Task) -> F,
) -> Result<WorkerReport, WorkerError>
where
    F: Future<Output = ()> + Send + 'static,
{
    let limits = hooks.limits().of(queue);
    // An item that completes during the claim may be due again earlier than `next_due`.
    let had_work = limits.is_in_use();
    let claimed = claim_due(hooks, queue, lease).await.inspect_err(|_| hooks.invalidate_cache())?;
    if claimed.is_empty() {
        let due = until_due(hooks.next_due(queue).at(), hooks.context().clock.now());
        let max_wait = due.map_or(MAX_WAIT, |wait| wait.min(MAX_WAIT));
        let has_work = limits.settle(&hooks.wake_of(queue), max_wait).await;
        return Ok(WorkerReport { items: 0, has_more: has_work || had_work });
    }
    let items = claimed.len();
    for task in claimed {
        let trace = task.claim.trace;
        let trace_id = trace.map(|trace| tracing::field::display(trace.trace_id));
        let span = tracing::info_span!("claim", item = task.claim.id, trace_id);
        // Runs in its own task, so that started work is not cancelled when the workers stop.
        tokio::spawn(trace::with_context(trace, start(task)).instrument(span));
    }
    Ok(WorkerReport::more(items))
}

/// A hook with due work, and one permit for each row to claim.
struct ReadyHook {
    hook: Arc<LoadedHook>,
    backlog: Backlog,
    permits: Vec<HookPermit>,
}

/// Claim request for one hook.
struct Quota {
    hook_id: HookId,
    /// Hooks of a higher priority that receive the same events.
    higher_priority: Vec<String>,
    limit: usize,
    /// End of the pause of an open circuit, if the claim probes the receiver.
    probes: Option<Timestamp>,
}

/// Claims due work for the available permits.
async fn claim_due(hooks: &Hooks, queue: QueueKind, lease: Duration) -> Result<Vec<Task>, HookError> {
    let limits = hooks.limits().of(queue);
    if limits.is_full() {
        return Ok(Vec::new());
    }
    let (cache, backlogs) = {
        let mut read = hooks.db().read().await?;
        (hooks.cache(&mut read).await?, queue::list_backlogs(&mut read, queue).await?)
    };
    let now = hooks.context().clock.now();
    // An open circuit delays its hook until the next probe.
    let due =
        |backlog: &Backlog| backlog.open_until.map_or(backlog.due_at, |open_until| open_until.max(backlog.due_at));
    hooks.next_due(queue).note(backlogs.iter().map(due).min());
    let waiting = backlogs.into_iter().filter(|backlog| due(backlog) <= now).filter_map(|backlog| {
        let hook = cache.find(&backlog.hook_id).filter(|hook| hook.hook.enabled)?;
        Some(ReadyHook { hook: Arc::clone(hook), backlog, permits: Vec::new() })
    });
    let waiting = distribute_permits(limits, waiting.collect());
    if waiting.is_empty() {
        return Ok(Vec::new());
    }
    let quotas: Vec<Quota> = waiting.iter().map(|one| one.quota(&cache)).collect();
    let owner = Arc::clone(&hooks.context().instance);
    let claim = async move |tx: &mut Tx| {
        let mut claims = Vec::with_capacity(quotas.len());
        for quota in &quotas {
            claims.push(quota.claim(tx, queue, &owner, lease).await?);
        }
        Ok::<_, HookError>(claims)
    };
    // A claim lost in a power failure is repeated, so it needs no full durability.
    let claims = hooks.db().write_locking(Durability::Relaxed, claim).await?;
    let mut tasks = Vec::new();
    for (one, claims) in waiting.into_iter().zip(claims) {
        let is_probe = one.backlog.open_until.is_some();
        let with_permits = claims.into_iter().zip(one.permits);
        tasks.extend(with_permits.map(|(claim, permit)| Task { hook: Arc::clone(&one.hook), claim, is_probe, permit }));
    }
    Ok(tasks)
}

/// Distributes permits in rounds of one per hook: highest priority first, then fewest held permits. Returns the hooks
/// that received permits.
fn distribute_permits(limits: &QueueLimits, mut waiting: Vec<ReadyHook>) -> Vec<ReadyHook> {
    limits.remove_idle();
    waiting.sort_by_cached_key(|one| {
        let hook = &one.hook.hook;
        (-hook.priority, limits.held_by(&hook.id), one.backlog.due_at)
    });
    let mut has_given = true;
    while has_given {
        has_given = false;
        for one in &mut waiting {
            // An open circuit permits a single probe.
            if one.backlog.open_until.is_some() && !one.permits.is_empty() {
                continue;
            }
            if let Some(permit) = limits.try_acquire(&one.hook) {
                one.permits.push(permit);
                has_given = true;
            }
        }
    }
    waiting.retain(|one| !one.permits.is_empty());
    waiting
}

impl ReadyHook {
    fn quota(&self, cache: &HookCache) -> Quota {
        let probes = self.backlog.open_until;
        // A probe does not wait for hooks of higher priority.
        let higher = if probes.is_some() { Vec::new() } else { cache.higher_priority_hooks(&self.hook.hook) };
        let higher_priority = higher.into_iter().map(str::to_owned).collect();
        Quota { hook_id: self.backlog.hook_id.clone(), higher_priority, limit: self.permits.len(), probes }
    }
}

impl Quota {
    async fn claim(
        &self,
        tx: &mut Tx,
        queue: QueueKind,
        owner: &str,
        lease: Duration,
    ) -> Result<Vec<Claim>, HookError> {
        if let Some(open_until) = self.probes
            && !queue::begin_probe(tx, &self.hook_id, open_until, lease).await?
        {
            return Ok(Vec::new());
        }
        Ok(queue::claim(tx, queue, (&self.hook_id, &self.higher_priority), self.limit, owner, lease).await?)
    }
}
