//! The capacity for more work. What waits for hooks is bounded, and one that gets nowhere does not keep the others
//! waiting:
//!
//! - When too much waits for hooks that get on, events stay in the outbox until less waits.
//! - When it waits for hooks that do not, the others go on. What further comes for those is given up at once, to be
//!   seen and retried.
//!
//! A hook does not get on while it is switched off, while its receiver's circuit is open, and when what is due longest
//! has waited for [`BEHIND`]. So twice the limit waits at most, and what the last batch adds to it.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use agentd_base::Timestamp;
use agentd_store::Read;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::ROWS_A_BATCH;
use crate::hooks::cache::HookCache;
use crate::hooks::error::HookError;
use crate::hooks::model::HookId;
use crate::hooks::service::Hooks;
use crate::hooks::store::queue::{self, Backlog, QueueKind};

/// What is said of work that is given up.
pub(super) const GIVEN_UP: &str =
    "too much waits for this hook already, and it gets nowhere; retry this one when its receiver is back";
/// Whoever keeps what is due waiting for so long does not get on.
const BEHIND: Duration = Duration::from_secs(15 * 60);
/// What waits is counted again after so long, or later where counting takes long.
const COUNTED_FOR: Duration = Duration::from_secs(1);
/// Counting takes a part of the time that is not more than this.
const SHARE_OF_COUNTING: u32 = 50;

/// What may be taken up now.
#[derive(Debug, Clone, Default)]
pub(super) struct Capacity {
    /// In one transaction; none: events stay where they are.
    pub(super) rows: usize,
    /// Hooks whose work is given up.
    pub(super) behind: Arc<HashSet<HookId>>,
}

/// How much waits, as it was last counted, and what was added since.
#[derive(Debug)]
pub(super) struct CapacityMonitor {
    since: Timestamp,
    counted: Mutex<Option<Counted>>,
}

#[derive(Debug, Clone)]
struct Counted {
    at: Instant,
    took: Duration,
    /// For hooks that get on.
    waiting: u64,
    behind: Arc<HashSet<HookId>>,
    added: u64,
    /// Deliveries that had ended here by then.
    ended: u64,
}

impl Counted {
    /// Counting costs, so it is done when it may have changed.
    fn is_current(&self, limit: u64, ended: u64) -> bool {
        if self.at.elapsed() >= COUNTED_FOR.max(self.took * SHARE_OF_COUNTING) {
            return false;
        }
        if self.waiting >= limit {
            // Also with a small limit the next one is let in when one has ended.
            return ended.saturating_sub(self.ended) < (limit / 20).max(1);
        }
        // Other daemons add as much, perhaps.
        self.added <= (limit - self.waiting) / 4
    }

    fn capacity(&self, limit: u64) -> Capacity {
        let left = limit.saturating_sub(self.waiting + self.added);
        let rows = usize::try_from(left).unwrap_or(usize::MAX).min(ROWS_A_BATCH);
        Capacity { rows, behind: Arc::clone(&self.behind) }
    }
}

impl CapacityMonitor {
    pub(super) fn new(now: Timestamp) -> Self {
        Self { since: now, counted: Mutex::default() }
    }

    pub(super) async fn capacity(&self, hooks: &Hooks) -> Result<Capacity, HookError> {
        let limit = hooks.dependencies().waiting_limit;
        let ends = hooks.delivery_ends();
        let ended = ends.success + ends.dead_letter;
        let last = self.counted.lock().clone();
        let current = match last.as_ref().filter(|counted| counted.is_current(limit, ended)) {
            Some(counted) => counted.clone(),
            None => {
                let counted = self.count(hooks, limit, ended).await?;
                report(last.as_ref(), &counted, limit);
                let counters = hooks.counters();
                counters.is_paused.store(counted.waiting >= limit, Ordering::Relaxed);
                counters.hooks_behind.store(u64::try_from(counted.behind.len()).unwrap_or(u64::MAX), Ordering::Relaxed);
                *self.counted.lock() = Some(counted.clone());
                counted
            }
        };
        Ok(current.capacity(limit))
    }

    /// Notes what was taken up.
    pub(super) fn add(&self, rows: usize) {
        if let Some(counted) = self.counted.lock().as_mut() {
            counted.added += u64::try_from(rows).unwrap_or(u64::MAX);
        }
    }

    async fn count(&self, hooks: &Hooks, limit: u64, ended: u64) -> Result<Counted, HookError> {
        let at = Instant::now();
        let mut read = hooks.db().read().await?;
        let (mut waiting, mut behind) = (queue::count_waiting(&mut read, limit).await?, HashSet::new());
        if waiting >= limit {
            let cache = hooks.cache(&mut read).await?;
            let now = hooks.context().clock.now();
            // After a start everybody has some time to catch up.
            let late = (now.since(self.since) >= BEHIND).then(|| now - BEHIND);
            (waiting, behind) = tell_apart(&mut read, &cache, late, limit).await?;
        }
        Ok(Counted { at, took: at.elapsed(), waiting, behind: Arc::new(behind), added: 0, ended })
    }
}

/// What waits for hooks that get on, counted up to `limit`, and those that do not. Whoever kept waiting what was due at
/// `late` does not.
async fn tell_apart(
    read: &mut Read,
    cache: &HookCache,
    late: Option<Timestamp>,
    limit: u64,
) -> Result<(u64, HashSet<HookId>), HookError> {
    let gets_on = |backlog: &Backlog| {
        cache.find(&backlog.hook_id).is_some_and(|hook| hook.hook.enabled)
            && backlog.open_until.is_none()
            && late.is_none_or(|late| backlog.due_at > late)
    };
    let (mut waiting, mut behind) = (0, HashSet::new());
    for queue in [QueueKind::Deliveries, QueueKind::Executions] {
        for backlog in queue::list_backlogs(read, queue).await? {
            if !gets_on(&backlog) {
                behind.insert(backlog.hook_id);
            } else if waiting < limit {
                waiting += queue::count_waiting_of(read, queue, &backlog.hook_id, limit - waiting).await?;
            }
        }
    }
    Ok((waiting, behind))
}

fn report(before: Option<&Counted>, now: &Counted, limit: u64) {
    let was_full = before.is_some_and(|counted| counted.waiting >= limit);
    if now.waiting >= limit && !was_full {
        tracing::warn!(limit, "so much waits for hooks that further events are left in the outbox for now");
    }
    let had_behind = before.is_some_and(|counted| !counted.behind.is_empty());
    if !now.behind.is_empty() && !had_behind {
        tracing::warn!(
            limit,
            hooks = now.behind.len(),
            "so much waits for hooks that get nowhere that what comes for them is given up"
        );
    }
}
