//! Purge worker: releases expired leases, closes the work of deleted hooks, and deletes completed rows beyond the
//! retention limits.

use std::collections::VecDeque;
use std::time::Duration;

use agentd_base::Timestamp;
use agentd_core::runtime::{NextDue, PurgeTask, Retention, WorkerError, WorkerReport};
use agentd_store::{Durability, StoreError, Tx};
use parking_lot::Mutex;

use crate::hooks::error::HookError;
use crate::hooks::model::{DeliveryStatus, HOOK_DELETED, HookId};
use crate::hooks::service::Hooks;
use crate::hooks::store;
use crate::hooks::store::{deliveries, executions, figures, queue};

const DAY: Duration = Duration::from_secs(24 * 3600);
const BATCH_SIZE: u32 = 500;
/// Interval at which every hook is purged.
const ROUND_INTERVAL: Duration = Duration::from_secs(60);
const MAX_DELETED_HOOKS: u32 = 1000;
const SUCCESS_RETENTION: Duration = DAY.saturating_mul(7);
const DEAD_LETTER_RETENTION: Duration = DAY.saturating_mul(30);
const EXECUTION_RETENTION: Duration = DAY.saturating_mul(30);
const STATISTICS_RETENTION: Duration = DAY.saturating_mul(35);
/// Maximum number of retained successful deliveries per hook.
const MAX_SUCCESSES: u64 = 10_000;
/// Maximum number of retained dead letters per hook.
const MAX_DEAD_LETTERS: u64 = 100_000;
/// Maximum number of retained executions per hook.
const MAX_EXECUTIONS: u64 = 10_000;

/// Purges hook data. Needs no lease, because purging is idempotent.
#[derive(Debug)]
pub(crate) struct PurgeHooks {
    hooks: Hooks,
    round: Mutex<Round>,
}

/// Progress of the current purge round.
#[derive(Debug, Default)]
struct Round {
    /// Hooks still to be purged, and whether each is deleted.
    left: VecDeque<(HookId, bool)>,
    next_at: Timestamp,
    /// Database version at the start of the last round. While it is unchanged, there is nothing to purge.
    seen: Option<u64>,
    /// When the next lease expires.
    next_expiry: Option<Timestamp>,
}

impl PurgeHooks {
    #[must_use]
    pub(crate) fn new(hooks: Hooks) -> Self {
        Self { hooks, round: Mutex::default() }
    }
}

impl PurgeTask for PurgeHooks {
    const WORKER: &'static str = "hooks.purge";
    const DESCRIPTION: &'static str = "Deletes old deliveries, executions and statistics of hooks.";
    const RETENTION: &'static [Retention] = &[
        Retention { what: "Successful hook deliveries", kept: SUCCESS_RETENTION },
        Retention { what: "Dead-lettered hook deliveries", kept: DEAD_LETTER_RETENTION },
        Retention { what: "Executions of hooks", kept: EXECUTION_RETENTION },
        Retention { what: "Statistics of hooks", kept: STATISTICS_RETENTION },
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
            let release = async |tx: &mut Tx| deliveries::release_expired(tx, BATCH_SIZE).await;
            released = db.write_locking(Durability::Relaxed, release).await?;
            self.hooks.wake_queues();
        }
        self.round.lock().next_expiry = expiry;
        let is_due = {
            let round = self.round.lock();
            round.left.is_empty() && (round.next_at <= now || round.next_at > now + ROUND_INTERVAL)
        };
        if is_due {
            self.begin_round(now).await?;
        }
        let next = self.round.lock().left.pop_front();
        let Some((id, is_deleted)) = next else { return Ok(WorkerReport::batch(released, BATCH_SIZE)) };
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
        let forget = async move |tx: &mut Tx| figures::delete_figures(tx, now - STATISTICS_RETENTION, BATCH_SIZE).await;
        self.hooks.db().write_locking(Durability::Relaxed, forget).await?;
        let seen = self.hooks.db().version();
        let mut read = self.hooks.db().read().await?;
        let cache = self.hooks.cache(&mut read).await?;
        let deleted = store::list_deleted(&mut read, MAX_DELETED_HOOKS).await?;
        let existing = cache.ids().map(|id| (id.clone(), false));
        let left = existing.chain(deleted.into_iter().map(|id| (id, true))).collect();
        let mut round = self.round.lock();
        (round.left, round.next_at, round.seen) = (left, now + ROUND_INTERVAL, seen);
        Ok(())
    }
}

/// Purges one batch of a hook. Returns the number of affected rows, and whether more may remain.
async fn purge(tx: &mut Tx, id: &HookId, is_deleted: bool, now: Timestamp) -> Result<(u64, bool), StoreError> {
    let mut counts = Vec::new();
    if is_deleted {
        counts.push(deliveries::close_deliveries(tx, id, HOOK_DELETED, BATCH_SIZE).await?);
        counts.push(executions::close_executions(tx, id, HOOK_DELETED, BATCH_SIZE).await?);
        // An attempt that failed during the deletion may have created the circuit again.
        queue::close_circuit(tx, id).await?;
    }
    for (status, kept, keep) in [
        (DeliveryStatus::Success, SUCCESS_RETENTION, MAX_SUCCESSES),
        (DeliveryStatus::DeadLetter, DEAD_LETTER_RETENTION, MAX_DEAD_LETTERS),
    ] {
        let cutoff = deliveries::find_retention_cutoff(tx, status, id, keep).await?;
        let before = cutoff.map_or(now - kept, |cutoff| cutoff.max(now - kept));
        counts.push(deliveries::delete_ended(tx, status, id, before, BATCH_SIZE).await?);
    }
    let cutoff = executions::find_retention_cutoff(tx, id, MAX_EXECUTIONS).await?;
    let before = cutoff.map_or(now - EXECUTION_RETENTION, |cutoff| cutoff.max(now - EXECUTION_RETENTION));
    let before = if is_deleted { Timestamp::from_micros(i64::MAX) } else { before };
    counts.push(executions::delete_ended(tx, id, before, BATCH_SIZE).await?);
    if is_deleted && counts.iter().all(|count| *count == 0) && !deliveries::has_any(tx, id).await? {
        figures::delete_of_hook(tx, id).await?;
        store::delete_hook(tx, id).await?;
    }
    Ok((counts.iter().sum(), counts.iter().any(|count| *count >= u64::from(BATCH_SIZE))))
}
