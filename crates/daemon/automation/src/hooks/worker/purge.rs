//! Tidies up: gives back what nobody holds any more, closes what deleted hooks left, and forgets what ended long ago
//! or is more than is kept.

use std::collections::VecDeque;
use std::time::Duration;

use agentd_base::Timestamp;
use agentd_core::runtime::{NextDue, PurgesData, Retention, WorkerError, WorkerReport};
use agentd_store::{Durability, StoreError, Tx};
use parking_lot::Mutex;

use crate::hooks::error::HookError;
use crate::hooks::model::{DELETED, DeliveryStatus, HookId};
use crate::hooks::service::Hooks;
use crate::hooks::store;
use crate::hooks::store::{deliveries, executions, figures, queue};

const DAY: Duration = Duration::from_secs(24 * 3600);
const BATCH: u32 = 500;
/// Every hook is looked at once in so long.
const ROUND: Duration = Duration::from_secs(60);
const MOST_DELETED: u32 = 1000;
const SUCCESS_KEPT: Duration = DAY.saturating_mul(7);
const DEAD_LETTERS_KEPT: Duration = DAY.saturating_mul(30);
const EXECUTIONS_KEPT: Duration = DAY.saturating_mul(30);
const FIGURES_KEPT: Duration = DAY.saturating_mul(35);
/// Of one hook.
const MOST_SUCCESSES: u64 = 10_000;
const MOST_DEAD_LETTERS: u64 = 100_000;
const MOST_EXECUTIONS: u64 = 10_000;

/// Needs no lease: what it does is as right when it is done twice.
#[derive(Debug)]
pub(crate) struct PurgeHooks {
    hooks: Hooks,
    round: Mutex<Round>,
}

/// Hooks that are still to be looked at.
#[derive(Debug, Default)]
struct Round {
    left: VecDeque<(HookId, bool)>,
    next_at: Timestamp,
    /// The database as the last round found it; there is nothing more in it while it stays the same.
    seen: Option<u64>,
    /// When the next lease runs out.
    next_expiry: Option<Timestamp>,
}

impl PurgeHooks {
    #[must_use]
    pub(crate) fn new(hooks: Hooks) -> Self {
        Self { hooks, round: Mutex::default() }
    }
}

impl PurgesData for PurgeHooks {
    const WORKER: &'static str = "hooks.purge";
    const DESCRIPTION: &'static str = "Deletes old deliveries, executions and statistics of hooks.";
    const RETENTION: &'static [Retention] = &[
        Retention { what: "Delivered hook deliveries", kept: SUCCESS_KEPT },
        Retention { what: "Hook deliveries that failed for good", kept: DEAD_LETTERS_KEPT },
        Retention { what: "Executions of hooks", kept: EXECUTIONS_KEPT },
        Retention { what: "Statistics of hooks", kept: FIGURES_KEPT },
    ];
    const INTERVAL: Duration = Duration::from_secs(3);

    fn idle_until(&self) -> Option<Timestamp> {
        let round = self.round.lock();
        let is_unchanged = round.seen.is_some() && round.seen == self.hooks.db().version();
        let next_at = if is_unchanged { NextDue::NEVER } else { round.next_at };
        Some(round.next_expiry.map_or(next_at, |expiry| expiry.min(next_at)))
    }

    async fn purge_batch(&self) -> Result<WorkerReport, WorkerError> {
        let db = self.hooks.db();
        let now = self.hooks.context().clock.now();
        let expiry = deliveries::next_expiry(&mut db.read().await?).await?;
        let mut released = 0;
        if expiry.is_some_and(|expiry| expiry <= now) {
            let release = async |tx: &mut Tx| deliveries::release_expired(tx, BATCH).await;
            released = db.write_locking(Durability::Relaxed, release).await?;
            self.hooks.wake_queues();
        }
        self.round.lock().next_expiry = expiry;
        let is_due = {
            let round = self.round.lock();
            round.left.is_empty() && (round.next_at <= now || round.next_at > now + ROUND)
        };
        if is_due {
            self.begin_round(now).await?;
        }
        let next = self.round.lock().left.pop_front();
        let Some((id, is_deleted)) = next else { return Ok(WorkerReport::batch(released, BATCH)) };
        let hook = id.clone();
        let purge = async move |tx: &mut Tx| purge(tx, &hook, is_deleted, now).await;
        let (purged, has_more) = db.write_locking(Durability::Relaxed, purge).await?;
        if has_more {
            self.round.lock().left.push_front((id, is_deleted));
        }
        Ok(WorkerReport { items: released + purged, has_more: true })
    }
}

impl PurgeHooks {
    async fn begin_round(&self, now: Timestamp) -> Result<(), HookError> {
        let forget = async move |tx: &mut Tx| figures::delete_figures(tx, now - FIGURES_KEPT, BATCH).await;
        self.hooks.db().write_locking(Durability::Relaxed, forget).await?;
        let seen = self.hooks.db().version();
        let mut read = self.hooks.db().read().await?;
        let living = self.hooks.cache(&mut read).await?;
        let deleted = store::list_deleted(&mut read, MOST_DELETED).await?;
        let living = living.ids().map(|id| (id.clone(), false));
        let left = living.chain(deleted.into_iter().map(|id| (id, true))).collect();
        let mut round = self.round.lock();
        (round.left, round.next_at, round.seen) = (left, now + ROUND, seen);
        Ok(())
    }
}

/// A batch of what is to go of a hook; how many rows went, and whether there may be more.
async fn purge(tx: &mut Tx, id: &HookId, is_deleted: bool, now: Timestamp) -> Result<(u64, bool), StoreError> {
    let mut counts = Vec::new();
    if is_deleted {
        counts.push(deliveries::close_deliveries(tx, id, DELETED, BATCH).await?);
        counts.push(executions::close_executions(tx, id, DELETED, BATCH).await?);
        // An attempt may have failed while the hook was being deleted.
        queue::close_circuit(tx, id).await?;
    }
    for (status, kept, keep) in [
        (DeliveryStatus::Success, SUCCESS_KEPT, MOST_SUCCESSES),
        (DeliveryStatus::DeadLetter, DEAD_LETTERS_KEPT, MOST_DEAD_LETTERS),
    ] {
        let surplus = deliveries::find_surplus(tx, status, id, keep).await?;
        let before = surplus.map_or(now - kept, |surplus| surplus.max(now - kept));
        counts.push(deliveries::delete_ended(tx, status, id, before, BATCH).await?);
    }
    let surplus = executions::find_surplus(tx, id, MOST_EXECUTIONS).await?;
    let before = surplus.map_or(now - EXECUTIONS_KEPT, |surplus| surplus.max(now - EXECUTIONS_KEPT));
    let before = if is_deleted { Timestamp::from_micros(i64::MAX) } else { before };
    counts.push(executions::delete_ended(tx, id, before, BATCH).await?);
    if is_deleted && counts.iter().all(|count| *count == 0) && !deliveries::has_any(tx, id).await? {
        figures::delete_of_hook(tx, id).await?;
        store::delete_hook(tx, id).await?;
    }
    Ok((counts.iter().sum(), counts.iter().any(|count| *count >= u64::from(BATCH))))
}
