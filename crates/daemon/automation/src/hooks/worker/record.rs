//! Recorder of delivery results. Results that arrive during a transaction are batched into the next one.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use agentd_base::Backoff;
use agentd_store::{Durability, StoreError, Tx};
use parking_lot::Mutex;

use crate::hooks::cache::LoadedHook;
use crate::hooks::limits::HookPermit;
use crate::hooks::model::{DeliveryResult, DeliveryStatus, FAILURES_TO_OPEN, HookId, SendOutcome, circuit_pause};
use crate::hooks::service::Hooks;
use crate::hooks::store;
use crate::hooks::store::deliveries;
use crate::hooks::store::figures::{self, Figures};
use crate::hooks::store::queue::{self, Claim};

/// Maximum number of results recorded in one transaction.
const RESULTS_PER_BATCH: usize = 64;

/// A delivery with the outcome of its attempt.
#[derive(Debug, Clone)]
pub(super) struct DeliveryAttempt {
    pub(super) hook: Arc<LoadedHook>,
    pub(super) claim: Claim,
    pub(super) is_probe: bool,
    pub(super) sent: SendOutcome,
    /// Random number from 0 to 1.
    pub(super) jitter: f64,
}

/// Queue of unrecorded results. Each holds the permit of its delivery, so the queue is bounded by the permits.
#[derive(Debug)]
pub(super) struct Recorder {
    hooks: Hooks,
    results: Mutex<Results>,
}

#[derive(Debug, Default)]
struct Results {
    waiting: Vec<(DeliveryAttempt, HookPermit)>,
    is_writing: bool,
}

/// Guard of the active writer. Dropping it early allows another writer to start.
struct Writer<'r> {
    recorder: &'r Recorder,
    is_done: bool,
}

impl Drop for Writer<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            self.recorder.results.lock().is_writing = false;
        }
    }
}

impl Recorder {
    pub(super) fn new(hooks: Hooks) -> Arc<Self> {
        Arc::new(Self { hooks, results: Mutex::default() })
    }

    /// Queues a delivery result. The permit is released only after the result is recorded, which bounds the number of
    /// deliveries that a crash would send again.
    pub(super) fn record(self: &Arc<Self>, attempted: DeliveryAttempt, permit: HookPermit) {
        if self.add(attempted, permit) {
            let recorder = Arc::clone(self);
            tokio::spawn(async move { recorder.write_results().await });
        }
    }

    /// Writes batches until the queue is empty.
    async fn write_results(&self) {
        let mut writer = Writer { recorder: self, is_done: false };
        while let Some((batch, permits)) = writer.recorder.take() {
            self.write_batch(batch).await;
            // Released together, so that one claim can use all of them.
            drop(permits);
        }
        writer.is_done = true;
    }

    async fn write_batch(&self, batch: Vec<DeliveryAttempt>) {
        let count = batch.len();
        let write = async move |tx: &mut Tx| write(tx, &batch).await;
        match self.hooks.db().write_locking(Durability::Full, write).await {
            Ok(ended) => {
                let context = self.hooks.context();
                context.feed.publish_coalesced("delivery.changed", context.clock.now());
                let counters = self.hooks.counters();
                for status in ended {
                    let counter = match status {
                        DeliveryStatus::Success => &counters.succeeded,
                        DeliveryStatus::DeadLetter => &counters.dead,
                        _ => &counters.failed,
                    };
                    counter.fetch_add(1, Ordering::Relaxed);
                }
            }
            Err(error) => {
                let error: &dyn Error = &error;
                tracing::warn!(error, count, "failed to record delivery results; deliveries will be sent again");
            }
        }
    }

    /// Queues a result. Returns whether the caller must start a writer.
    fn add(&self, attempted: DeliveryAttempt, permit: HookPermit) -> bool {
        let mut results = self.results.lock();
        results.waiting.push((attempted, permit));
        !std::mem::replace(&mut results.is_writing, true)
    }

    /// Takes the next batch. Returns `None` if the queue is empty; the next result then starts a new writer.
    fn take(&self) -> Option<(Vec<DeliveryAttempt>, Vec<HookPermit>)> {
        let mut results = self.results.lock();
        if results.waiting.is_empty() {
            results.is_writing = false;
            return None;
        }
        let count = results.waiting.len().min(RESULTS_PER_BATCH);
        Some(results.waiting.drain(..count).unzip())
    }
}

/// Summary of a batch for one receiver.
#[derive(Default)]
struct ReceiverSummary<'b> {
    has_succeeded: bool,
    /// Consecutive failures at the end of the batch.
    failures: u64,
    failed_probe: bool,
    disable: Option<&'static str>,
    pause: Option<(Backoff, f64)>,
    /// Maximum number of attempts of the hook's deliveries.
    attempts: u32,
    figures: BTreeMap<&'b str, Figures>,
}

impl<'b> ReceiverSummary<'b> {
    fn add(&mut self, attempted: &'b DeliveryAttempt, result: &DeliveryResult) {
        let is_success = result.status == DeliveryStatus::Success;
        if is_success {
            (self.has_succeeded, self.failures) = (true, 0);
        } else {
            self.failures += 1;
            self.failed_probe |= attempted.is_probe;
            self.disable = self.disable.or(attempted.sent.problem.as_ref().and_then(|problem| problem.disable));
            self.attempts = attempted.hook.hook.max_retries;
            self.pause = attempted.hook.hook.backoff().map(|backoff| (*backoff, attempted.jitter));
        }
        if result.due_at.is_none() {
            let figures = Figures::of(is_success, result.duration_ms);
            self.figures.entry(&attempted.claim.event_type).or_default().add(figures);
        }
    }
}

/// Records a batch. Returns the new states of the deliveries whose lease was still held.
async fn write(tx: &mut Tx, batch: &[DeliveryAttempt]) -> Result<Vec<DeliveryStatus>, StoreError> {
    let now = tx.clock().now();
    let hooks: BTreeSet<&str> = batch.iter().map(|attempted| attempted.claim.hook_id.as_str()).collect();
    let deleted = store::find_deleted(tx, &hooks.into_iter().collect::<Vec<_>>()).await?;
    let result = |attempted: &DeliveryAttempt| {
        let DeliveryAttempt { hook, claim, sent, jitter, .. } = attempted;
        DeliveryResult::new(&hook.hook, sent, claim.attempt_count + 1, *jitter, now, deleted.contains(&claim.hook_id))
    };
    let results: Vec<DeliveryResult> = batch.iter().map(result).collect();
    let claims = batch.iter().map(|attempted| &attempted.claim);
    let held = deliveries::update_results(tx, claims.zip(&results)).await?;
    let mut ended = Vec::with_capacity(batch.len());
    // Ordered, so that concurrent transactions lock rows in the same order and cannot deadlock.
    let mut receivers: BTreeMap<&HookId, ReceiverSummary> = BTreeMap::new();
    for (attempted, result) in batch.iter().zip(&results) {
        if !held.contains(&attempted.claim.id) {
            tracing::warn!(id = attempted.claim.id, "delivery lease lost or delivery closed during sending");
            continue;
        }
        ended.push(result.status);
        receivers.entry(&attempted.claim.hook_id).or_default().add(attempted, result);
    }
    let ids: Vec<&str> = receivers.keys().map(|id| id.as_str()).collect();
    let circuits = queue::list_circuits(tx, &ids).await?;
    for (hook, receiver) in &receivers {
        // A deleted hook has no circuit.
        if deleted.contains(*hook) {
            continue;
        }
        update_circuit(tx, hook, receiver, &circuits).await?;
        if let Some(reason) = receiver.disable {
            store::disable_hook(tx, hook, reason).await?;
        }
    }
    let figures = receivers.iter().flat_map(|(hook, receiver)| {
        receiver.figures.iter().map(|(event_type, figures)| (*hook, *event_type, *figures))
    });
    figures::add_deliveries(tx, &figures.collect::<Vec<_>>()).await?;
    Ok(ended)
}

async fn update_circuit(
    tx: &mut Tx,
    hook: &HookId,
    receiver: &ReceiverSummary<'_>,
    circuits: &HashSet<HookId>,
) -> Result<(), StoreError> {
    if receiver.has_succeeded && circuits.contains(hook) {
        queue::close_circuit(tx, hook).await?;
    }
    if receiver.failures == 0 {
        return Ok(());
    }
    let (failures, openings, is_open) = queue::add_failures(tx, hook, receiver.failures).await?;
    // Failures of requests started before the circuit opened do not extend its pause.
    let opens = failures >= FAILURES_TO_OPEN && (!is_open || receiver.failed_probe);
    if let Some((backoff, jitter)) = receiver.pause.as_ref().filter(|_| opens) {
        let until = tx.clock().now() + circuit_pause(backoff, receiver.attempts, openings + 1, *jitter);
        queue::open_circuit(tx, hook, openings + 1, until).await?;
    }
    Ok(())
}
