//! Writes down what deliveries came to. Those that end at about the same time share a transaction: whoever comes
//! first writes for all that wait.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use agentd_base::Backoff;
use agentd_store::{Durability, StoreError, Tx};
use parking_lot::Mutex;

use crate::hooks::act::Sent;
use crate::hooks::known::LoadedHook;
use crate::hooks::model::{
    Action, DeliveryStatus, FAILURES_TO_OPEN, HookId, TEST_EVENT, circuit_pause, delivery_delay,
};
use crate::hooks::service::Hooks;
use crate::hooks::store;
use crate::hooks::store::deliveries::{self, DeliveryResult};
use crate::hooks::store::figures::{self, Figures};
use crate::hooks::store::queue::{self, Claim};

const MOST_AT_ONCE: usize = 64;

/// A delivery that was tried.
#[derive(Debug, Clone)]
pub(in crate::hooks) struct Attempted {
    pub(in crate::hooks) hook: Arc<LoadedHook>,
    pub(in crate::hooks) claim: Claim,
    pub(in crate::hooks) is_probe: bool,
    pub(in crate::hooks) sent: Sent,
    /// 0 to 1, at random.
    pub(in crate::hooks) jitter: f64,
}

/// Results that wait to be written. As many as there are places at most.
#[derive(Debug, Default)]
pub(in crate::hooks) struct Recorder {
    waiting: Mutex<Vec<Attempted>>,
    writing: tokio::sync::Mutex<()>,
}

impl Attempted {
    fn backoff(&self) -> Option<&Backoff> {
        match &self.hook.hook.action {
            Action::Http(http) => Some(&http.backoff),
            _ => None,
        }
    }

    /// What becomes of the delivery.
    fn result(&self, now: agentd_base::Timestamp) -> DeliveryResult {
        let attempts = self.claim.attempt_count + 1;
        let (response_status, duration_ms) = (self.sent.status, self.sent.duration_ms);
        let ended = |status, error| DeliveryResult { status, due_at: None, response_status, duration_ms, error };
        let Some(problem) = &self.sent.problem else { return ended(DeliveryStatus::Success, None) };
        let error = Some(problem.message.clone());
        let backoff = self.backoff().filter(|_| problem.disable.is_none() && attempts < self.hook.hook.max_retries);
        match backoff {
            None => ended(DeliveryStatus::DeadLetter, error),
            Some(backoff) => {
                let delay = delivery_delay(backoff, attempts, self.jitter, problem.retry_after);
                DeliveryResult { due_at: Some(now + delay), ..ended(DeliveryStatus::Failed, error) }
            }
        }
    }
}

/// What the results of a batch say of one receiver.
#[derive(Default)]
struct Receiver {
    has_succeeded: bool,
    /// In a row, up to the last one.
    failures: u64,
    failed_probe: bool,
    disable: Option<&'static str>,
    pause: Option<(Backoff, f64)>,
    figures: BTreeMap<String, Figures>,
}

impl Hooks {
    /// Writes down what a delivery came to, with those of others; answers when it is written, or cannot be.
    pub(super) async fn record(&self, attempted: Attempted) {
        let recorder = self.recorder();
        recorder.waiting.lock().push(attempted);
        let _turn = recorder.writing.lock().await;
        let batch = {
            let mut waiting = recorder.waiting.lock();
            let count = waiting.len().min(MOST_AT_ONCE);
            waiting.drain(..count).collect::<Vec<_>>()
        };
        if batch.is_empty() {
            return;
        }
        let batch = Arc::new(batch);
        let results = Arc::clone(&batch);
        let write = async move |tx: &mut Tx| write(tx, &results).await;
        match self.db().write_locking(Durability::Full, write).await {
            Ok(ended) => {
                let counters = self.counters();
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
                let count = batch.len();
                tracing::warn!(error, count, "what deliveries came to could not be recorded; they will be sent again");
            }
        }
    }
}

/// Answers what became of those that were still held.
async fn write(tx: &mut Tx, batch: &[Attempted]) -> Result<Vec<DeliveryStatus>, StoreError> {
    let now = tx.clock().now();
    let mut ended = Vec::with_capacity(batch.len());
    // In one order, so that two of these never wait for each other crosswise.
    let mut receivers: BTreeMap<HookId, Receiver> = BTreeMap::new();
    for attempted in batch {
        let result = attempted.result(now);
        if !deliveries::update_result(tx, &attempted.claim, &result).await? {
            tracing::warn!(id = attempted.claim.id, "a delivery was taken over by others or closed while it was sent");
            continue;
        }
        ended.push(result.status);
        let receiver = receivers.entry(attempted.claim.hook_id.clone()).or_default();
        if result.status == DeliveryStatus::Success {
            (receiver.has_succeeded, receiver.failures) = (true, 0);
        } else {
            receiver.failures += 1;
            receiver.failed_probe |= attempted.is_probe;
            receiver.disable = receiver.disable.or(attempted.sent.problem.as_ref().and_then(|problem| problem.disable));
            receiver.pause = attempted.backoff().map(|backoff| (*backoff, attempted.jitter));
        }
        if result.due_at.is_none() && attempted.claim.event_type != TEST_EVENT {
            let figures = Figures::of(result.status == DeliveryStatus::Success, result.duration_ms);
            receiver.figures.entry(attempted.claim.event_type.clone()).or_default().add(figures);
        }
    }
    for (hook, receiver) in &receivers {
        look_at_circuit(tx, hook, receiver).await?;
        if let Some(reason) = receiver.disable {
            store::disable_hook(tx, hook, reason).await?;
        }
        for (event_type, figures) in &receiver.figures {
            figures::add_figures(tx, hook, event_type, *figures).await?;
        }
    }
    Ok(ended)
}

async fn look_at_circuit(tx: &mut Tx, hook: &HookId, receiver: &Receiver) -> Result<(), StoreError> {
    if receiver.has_succeeded {
        queue::close_circuit(tx, hook).await?;
    }
    if receiver.failures == 0 {
        return Ok(());
    }
    let (failures, openings, is_open) = queue::add_failures(tx, hook, receiver.failures).await?;
    // What was under way when it opened says nothing new.
    let opens = failures >= FAILURES_TO_OPEN && (!is_open || receiver.failed_probe);
    if let Some((backoff, jitter)) = receiver.pause.as_ref().filter(|_| opens) {
        let until = tx.clock().now() + circuit_pause(backoff, openings + 1, *jitter);
        queue::open_circuit(tx, hook, openings + 1, until).await?;
    }
    Ok(())
}
