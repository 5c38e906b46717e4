//! Writes down what deliveries came to. What ends while a transaction is under way shares the next one.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use agentd_base::Backoff;
use agentd_store::{Durability, StoreError, Tx};
use parking_lot::Mutex;

use crate::hooks::cache::LoadedHook;
use crate::hooks::limits::HookPermit;
use crate::hooks::model::{DeliveryResult, DeliveryStatus, FAILURES_TO_OPEN, HookId, Sent, circuit_pause};
use crate::hooks::service::Hooks;
use crate::hooks::store;
use crate::hooks::store::deliveries;
use crate::hooks::store::figures::{self, Figures};
use crate::hooks::store::queue::{self, Claim};

/// A transaction writes down so many.
const RESULTS_A_BATCH: usize = 64;

/// A delivery that was tried.
#[derive(Debug, Clone)]
pub(super) struct Attempted {
    pub(super) hook: Arc<LoadedHook>,
    pub(super) claim: Claim,
    pub(super) is_probe: bool,
    pub(super) sent: Sent,
    /// 0 to 1, at random.
    pub(super) jitter: f64,
}

/// Results that wait to be written, each with the permit of its delivery, so never more than there are permits.
#[derive(Debug)]
pub(super) struct Recorder {
    hooks: Hooks,
    results: Mutex<Results>,
}

#[derive(Debug, Default)]
struct Results {
    waiting: Vec<(Attempted, HookPermit)>,
    is_writing: bool,
}

/// Whoever writes. Another one may begin if it is cut off.
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

    /// Hands in what a delivery came to. Its permit is given back only when that is written: what is sent and not recorded
    /// would be sent again after a crash.
    pub(super) fn record(self: &Arc<Self>, attempted: Attempted, permit: HookPermit) {
        if self.add(attempted, permit) {
            let recorder = Arc::clone(self);
            tokio::spawn(async move { recorder.write_results().await });
        }
    }

    /// Writes until nothing waits.
    async fn write_results(&self) {
        let mut writer = Writer { recorder: self, is_done: false };
        while let Some((batch, permits)) = writer.recorder.take() {
            self.write_batch(batch).await;
            // All at once, so that one claim finds all of them.
            drop(permits);
        }
        writer.is_done = true;
    }

    async fn write_batch(&self, batch: Vec<Attempted>) {
        let count = batch.len();
        let write = async move |tx: &mut Tx| write(tx, &batch).await;
        match self.hooks.db().write_locking(Durability::Full, write).await {
            Ok(ended) => {
                let context = self.hooks.context();
                context.feed.tell_soon("delivery.changed", context.clock.now());
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
                tracing::warn!(error, count, "what deliveries came to could not be recorded; they will be sent again");
            }
        }
    }

    /// Answers whether somebody must begin to write.
    fn add(&self, attempted: Attempted, permit: HookPermit) -> bool {
        let mut results = self.results.lock();
        results.waiting.push((attempted, permit));
        !std::mem::replace(&mut results.is_writing, true)
    }

    /// All that waits; `None` when nothing does, and then the next result needs a writer of its own.
    fn take(&self) -> Option<(Vec<Attempted>, Vec<HookPermit>)> {
        let mut results = self.results.lock();
        if results.waiting.is_empty() {
            results.is_writing = false;
            return None;
        }
        let count = results.waiting.len().min(RESULTS_A_BATCH);
        Some(results.waiting.drain(..count).unzip())
    }
}

/// What the results of a batch say of one receiver.
#[derive(Default)]
struct Receiver<'b> {
    has_succeeded: bool,
    /// In a row, up to the last one.
    failures: u64,
    failed_probe: bool,
    disable: Option<&'static str>,
    pause: Option<(Backoff, f64)>,
    /// Those that the hook allows a delivery.
    attempts: u32,
    figures: BTreeMap<&'b str, Figures>,
}

impl<'b> Receiver<'b> {
    fn add(&mut self, attempted: &'b Attempted, result: &DeliveryResult) {
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

/// Answers what became of those that were still held.
async fn write(tx: &mut Tx, batch: &[Attempted]) -> Result<Vec<DeliveryStatus>, StoreError> {
    let now = tx.clock().now();
    let hooks: BTreeSet<&str> = batch.iter().map(|attempted| attempted.claim.hook_id.as_str()).collect();
    let deleted = store::find_deleted(tx, &hooks.into_iter().collect::<Vec<_>>()).await?;
    let result = |attempted: &Attempted| {
        let Attempted { hook, claim, sent, jitter, .. } = attempted;
        DeliveryResult::new(&hook.hook, sent, claim.attempt_count + 1, *jitter, now, deleted.contains(&claim.hook_id))
    };
    let results: Vec<DeliveryResult> = batch.iter().map(result).collect();
    let claims = batch.iter().map(|attempted| &attempted.claim);
    let held = deliveries::update_results(tx, claims.zip(&results)).await?;
    let mut ended = Vec::with_capacity(batch.len());
    // In one order, so that two of these never wait for each other crosswise.
    let mut receivers: BTreeMap<&HookId, Receiver> = BTreeMap::new();
    for (attempted, result) in batch.iter().zip(&results) {
        if !held.contains(&attempted.claim.id) {
            tracing::warn!(id = attempted.claim.id, "a delivery was taken over by others or closed while it was sent");
            continue;
        }
        ended.push(result.status);
        receivers.entry(&attempted.claim.hook_id).or_default().add(attempted, result);
    }
    let ids: Vec<&str> = receivers.keys().map(|id| id.as_str()).collect();
    let circuits = queue::list_circuits(tx, &ids).await?;
    for (hook, receiver) in &receivers {
        // Nothing is sent to it any more.
        if deleted.contains(*hook) {
            continue;
        }
        look_at_circuit(tx, hook, receiver, &circuits).await?;
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

async fn look_at_circuit(
    tx: &mut Tx,
    hook: &HookId,
    receiver: &Receiver<'_>,
    circuits: &HashSet<HookId>,
) -> Result<(), StoreError> {
    if receiver.has_succeeded && circuits.contains(hook) {
        queue::close_circuit(tx, hook).await?;
    }
    if receiver.failures == 0 {
        return Ok(());
    }
    let (failures, openings, is_open) = queue::add_failures(tx, hook, receiver.failures).await?;
    // What was under way when it opened says nothing new.
    let opens = failures >= FAILURES_TO_OPEN && (!is_open || receiver.failed_probe);
    if let Some((backoff, jitter)) = receiver.pause.as_ref().filter(|_| opens) {
        let until = tx.clock().now() + circuit_pause(backoff, receiver.attempts, openings + 1, *jitter);
        queue::open_circuit(tx, hook, openings + 1, until).await?;
    }
    Ok(())
}
