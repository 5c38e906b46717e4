//! Concurrency limits of both queues in this daemon: per queue, per hook, and per receiver that is slow or not yet
//! known. Each running task holds a [`Permit`] until it is dropped.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use agentd_core::runtime::{ConcurrencyLimit, Permit};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::cache::LoadedHook;
use super::model::{Action, HookId};
use super::store::queue::QueueKind;

/// Maximum number of concurrent requests per queue.
const MAX_CONCURRENT_REQUESTS: usize = 64;
/// Additional permits for slow requests, so that hanging requests do not block quick ones.
const MAX_CONCURRENT_SLOW: usize = 64;
/// Maximum number of concurrent code runs and built-in actions.
const MAX_CONCURRENT_ACTIONS: usize = 16;
/// Divisor of a limit: one hook, or one slow receiver, holds at most this fraction of the permits.
const SHARE_DIVISOR: usize = 4;

#[derive(Debug)]
pub(super) struct ConcurrencyLimits {
    deliveries: QueueLimits,
    executions: QueueLimits,
}

impl Default for ConcurrencyLimits {
    fn default() -> Self {
        // Deliveries are always requests, so that queue needs no limit for other actions.
        let executions =
            QueueLimits { others: Some(ConcurrencyLimit::new(MAX_CONCURRENT_ACTIONS)), ..QueueLimits::new() };
        Self { deliveries: QueueLimits::new(), executions }
    }
}

impl ConcurrencyLimits {
    pub(super) fn of(&self, queue: QueueKind) -> &QueueLimits {
        match queue {
            QueueKind::Deliveries => &self.deliveries,
            QueueKind::Executions => &self.executions,
        }
    }

    /// Waits up to `timeout` until no permit is held. Returns whether all permits were released.
    pub(super) async fn drain(&self, timeout: Duration) -> bool {
        let all = self.deliveries.all().chain(self.executions.all());
        let drained = futures_util::future::join_all(all.map(|limit| limit.drain(timeout))).await;
        drained.into_iter().all(|is_empty| is_empty)
    }
}

/// A party whose share of the permits is limited.
#[derive(Debug, PartialEq, Eq, Hash)]
enum Holder {
    Hook(HookId),
    /// The receiver's scheme, host and port.
    Receiver(Arc<str>),
}

#[derive(Debug)]
pub(super) struct QueueLimits {
    requests: ConcurrencyLimit,
    others: Option<ConcurrencyLimit>,
    slow: ConcurrencyLimit,
    /// Limits of the holders that have a permit.
    by_holder: Mutex<HashMap<Holder, ConcurrencyLimit>>,
}

impl QueueLimits {
    fn new() -> Self {
        Self {
            requests: ConcurrencyLimit::new(MAX_CONCURRENT_REQUESTS),
            others: None,
            slow: ConcurrencyLimit::new(MAX_CONCURRENT_SLOW),
            by_holder: Mutex::default(),
        }
    }

    fn all(&self) -> impl Iterator<Item = &ConcurrencyLimit> {
        [&self.requests, &self.slow].into_iter().chain(&self.others)
    }

    /// Acquires a permit for one delivery or execution of a hook, or returns `None` if a limit is reached.
    pub(super) fn try_acquire(&self, hook: &LoadedHook) -> Option<HookPermit> {
        let limit = match (&hook.hook.action, &self.others) {
            (Action::Http(_), _) | (_, None) => &self.requests,
            (_, Some(others)) => others,
        };
        let of_queue = limit.try_take()?;
        let receiver = hook.receiver.clone().filter(|_| !hook.is_quick.load(Ordering::Relaxed));
        let mut by_holder = self.by_holder.lock();
        let mut share = |holder| {
            let new_share = || ConcurrencyLimit::new(limit.limit().div_ceil(SHARE_DIVISOR));
            by_holder.entry(holder).or_insert_with(new_share).try_take()
        };
        let of_hook = share(Holder::Hook(hook.hook.id.clone()))?;
        let of_receiver = match receiver {
            Some(receiver) => Some(share(Holder::Receiver(receiver))?),
            None => None,
        };
        Some(HookPermit {
            of_queue: Some(of_queue),
            slow: Some(self.slow.clone()),
            _of_hook: Some(of_hook),
            _of_receiver: of_receiver,
        })
    }

    /// Returns the number of permits that a hook holds.
    pub(super) fn held_by(&self, hook: &HookId) -> usize {
        self.by_holder.lock().get(&Holder::Hook(hook.clone())).map_or(0, ConcurrencyLimit::taken)
    }

    /// Removes the limits of holders without a permit.
    pub(super) fn remove_idle(&self) {
        self.by_holder.lock().retain(|_, limit| limit.taken() > 0);
    }

    pub(super) fn is_full(&self) -> bool {
        self.requests.free() == 0 && self.others.as_ref().is_none_or(|others| others.free() == 0)
    }

    /// Whether any permit is held.
    pub(super) fn is_in_use(&self) -> bool {
        self.all().any(|limit| limit.taken() > 0)
    }

    /// See [`ConcurrencyLimit::settle`].
    pub(super) async fn settle(&self, wake: &Notify, max_wait: Duration) -> bool {
        ConcurrencyLimit::settle_any(&self.all().collect::<Vec<_>>(), Some(wake), max_wait).await
    }
}

/// A permit that counts against the limits of the queue, the hook and the receiver. The default counts against none.
#[derive(Debug, Default)]
pub(super) struct HookPermit {
    of_queue: Option<Permit>,
    slow: Option<ConcurrencyLimit>,
    _of_hook: Option<Permit>,
    _of_receiver: Option<Permit>,
}

impl HookPermit {
    /// Moves slow work to the limit of slow requests, if that limit has a free permit.
    pub(super) fn count_as_slow(&mut self) {
        if self.of_queue.is_some()
            && let Some(slow) = self.slow.as_ref().and_then(ConcurrencyLimit::try_take)
        {
            self.of_queue = Some(slow);
        }
    }

    /// Releases the queue's permit. The work still counts against the limits of its hook and its receiver.
    pub(super) fn leave_queue(&mut self) {
        self.of_queue = None;
    }

    pub(super) fn has_left_queue(&self) -> bool {
        self.of_queue.is_none()
    }
}
