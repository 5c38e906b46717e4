//! Backpressure of the event reader. The backlog of all hooks is bounded, and a stalled hook does not block the others:
//!
//! - When the backlog of progressing hooks is full, events stay in the outbox until it shrinks.
//! - When the backlog belongs to stalled hooks, the other hooks continue. New work for the stalled hooks is
//!   dead-lettered immediately, so that it is visible and can be retried.
//!
//! A hook is stalled while it is disabled, while its receiver's circuit is open, and when its oldest due item is older
//! than [`STALL_THRESHOLD`]. The backlog is therefore at most twice the limit plus one batch.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use agentd_base::Timestamp;
use agentd_store::Read;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::ROWS_PER_BATCH;
use crate::hooks::cache::HookCache;
use crate::hooks::error::HookError;
use crate::hooks::model::HookId;
use crate::hooks::service::Hooks;
use crate::hooks::store::queue::{self, Backlog, QueueKind};

/// Error of work that is rejected because its hook is stalled.
pub(super) const BACKLOG_FULL: &str =
    "the hook is stalled and its backlog is full; retry the delivery when the receiver is available again";
/// A hook whose oldest due delivery is older than this is considered stalled.
const STALL_THRESHOLD: Duration = Duration::from_secs(15 * 60);
/// Minimum time for which a backlog count is reused.
const MIN_COUNT_TTL: Duration = Duration::from_secs(1);
/// A count is reused for at least this multiple of the time it took, which bounds the share of time spent counting.
const COUNT_TTL_FACTOR: u32 = 50;

/// Amount of new work that the reader may insert.
#[derive(Debug, Clone, Default)]
pub(super) struct Capacity {
    /// Maximum number of rows in one transaction. Zero pauses the reader.
    pub(super) rows: usize,
    /// Stalled hooks, whose new work is rejected.
    pub(super) stalled: Arc<HashSet<HookId>>,
}

/// Caches the last backlog count and tracks the work added since.
#[derive(Debug)]
pub(super) struct CapacityMonitor {
    since: Timestamp,
    counted: Mutex<Option<BacklogCount>>,
}

#[derive(Debug, Clone)]
struct BacklogCount {
    at: Instant,
    took: Duration,
    /// Backlog of progressing hooks.
    waiting: u64,
    stalled: Arc<HashSet<HookId>>,
    added: u64,
    /// Deliveries that this daemon had completed at the time of the count.
    ended: u64,
}

impl BacklogCount {
    /// Whether the count can be reused. Counting is expensive, so it is repeated only when the result may have changed.
    fn is_current(&self, limit: u64, ended: u64) -> bool {
        if self.at.elapsed() >= MIN_COUNT_TTL.max(self.took * COUNT_TTL_FACTOR) {
            return false;
        }
        if self.waiting >= limit {
            // With a small limit, one completed delivery is enough to count again.
            return ended.saturating_sub(self.ended) < (limit / 20).max(1);
        }
        // Other daemons may have added a similar amount.
        self.added <= (limit - self.waiting) / 4
    }

    fn capacity(&self, limit: u64) -> Capacity {
        let left = limit.saturating_sub(self.waiting + self.added);
        let rows = usize::try_from(left).unwrap_or(usize::MAX).min(ROWS_PER_BATCH);
        Capacity { rows, stalled: Arc::clone(&self.stalled) }
    }
}

impl CapacityMonitor {
    pub(super) fn new(now: Timestamp) -> Self {
        Self { since: now, counted: Mutex::default() }
    }

    pub(super) async fn capacity(&self, hooks: &Hooks) -> Result<Capacity, HookError> {
        let limit = hooks.dependencies().waiting_limit;
        let ends = hooks.delivery_outcomes();
        let ended = ends.success + ends.dead_letter;
        let last = self.counted.lock().clone();
        let current = match last.as_ref().filter(|counted| counted.is_current(limit, ended)) {
            Some(counted) => counted.clone(),
            None => {
                let counted = self.count(hooks, limit, ended).await?;
                report(last.as_ref(), &counted, limit);
                let counters = hooks.counters();
                counters.is_paused.store(counted.waiting >= limit, Ordering::Relaxed);
                counters
                    .stalled_hooks
                    .store(u64::try_from(counted.stalled.len()).unwrap_or(u64::MAX), Ordering::Relaxed);
                *self.counted.lock() = Some(counted.clone());
                counted
            }
        };
        Ok(current.capacity(limit))
    }

    /// Records inserted rows.
    pub(super) fn add(&self, rows: usize) {
        if let Some(counted) = self.counted.lock().as_mut() {
            counted.added += u64::try_from(rows).unwrap_or(u64::MAX);
        }
    }

    async fn count(&self, hooks: &Hooks, limit: u64, ended: u64) -> Result<BacklogCount, HookError> {
        let at = Instant::now();
        let mut read = hooks.db().read().await?;
        let (mut waiting, mut stalled) = (queue::count_unfinished(&mut read, limit).await?, HashSet::new());
        if waiting >= limit {
            let cache = hooks.cache(&mut read).await?;
            let now = hooks.context().clock.now();
            // After a start, hooks get time to catch up.
            let late = (now.since(self.since) >= STALL_THRESHOLD).then(|| now - STALL_THRESHOLD);
            (waiting, stalled) = split_backlog(&mut read, &cache, late, limit).await?;
        }
        Ok(BacklogCount { at, took: at.elapsed(), waiting, stalled: Arc::new(stalled), added: 0, ended })
    }
}

/// Counts the backlog of progressing hooks up to `limit`, and collects the stalled hooks. A hook with an item that was
/// due at or before `late` is stalled.
async fn split_backlog(
    read: &mut Read,
    cache: &HookCache,
    late: Option<Timestamp>,
    limit: u64,
) -> Result<(u64, HashSet<HookId>), HookError> {
    let is_progressing = |backlog: &Backlog| {
        cache.find(&backlog.hook_id).is_some_and(|hook| hook.hook.enabled)
            && backlog.open_until.is_none()
            && late.is_none_or(|late| backlog.due_at > late)
    };
    let (mut waiting, mut stalled) = (0, HashSet::new());
    for queue in [QueueKind::Deliveries, QueueKind::Executions] {
        for backlog in queue::list_backlogs(read, queue).await? {
            if !is_progressing(&backlog) {
                stalled.insert(backlog.hook_id);
            } else if waiting < limit {
                waiting += queue::count_unfinished_of_hook(read, queue, &backlog.hook_id, limit - waiting).await?;
            }
        }
    }
    Ok((waiting, stalled))
}

fn report(before: Option<&BacklogCount>, now: &BacklogCount, limit: u64) {
    let was_full = before.is_some_and(|counted| counted.waiting >= limit);
    if now.waiting >= limit && !was_full {
        tracing::warn!(limit, "hook backlog full; pausing outbox reader");
    }
    let had_stalled = before.is_some_and(|counted| !counted.stalled.is_empty());
    if !now.stalled.is_empty() && !had_stalled {
        tracing::warn!(
            limit,
            hooks = now.stalled.len(),
            "hooks stalled with full backlog; dead-lettering their new work"
        );
    }
}
