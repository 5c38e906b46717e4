//! How much of each queue is under way at once in this daemon: in all, of one hook, and of all hooks of one receiver
//! that is slow or not known yet. Who works holds a [`Permit`], which counts until it is dropped.

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

/// Requests of a queue.
const REQUESTS_AT_ONCE: usize = 64;
/// So many more that take long, so that what hangs keeps no permit from what does not.
const SLOW_AT_ONCE: usize = 64;
/// Code and built-in actions.
const OTHERS_AT_ONCE: usize = 16;
/// One hook, and one slow receiver, has this part of those at most.
const SHARES: usize = 4;

#[derive(Debug)]
pub(super) struct ConcurrencyLimits {
    deliveries: QueueLimits,
    executions: QueueLimits,
}

impl Default for ConcurrencyLimits {
    fn default() -> Self {
        // A delivery is a request, or cannot be sent at all.
        let executions = QueueLimits { others: Some(ConcurrencyLimit::new(OTHERS_AT_ONCE)), ..QueueLimits::new() };
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

    /// Waits until no permit is held, at most for `limit`; answers whether that is so.
    pub(super) async fn drain(&self, limit: Duration) -> bool {
        let all = self.deliveries.all().chain(self.executions.all());
        let drained = futures_util::future::join_all(all.map(|places| places.drain(limit))).await;
        drained.into_iter().all(|is_empty| is_empty)
    }
}

/// Who has no more than a share.
#[derive(Debug, PartialEq, Eq, Hash)]
enum Holder {
    Hook(HookId),
    /// By scheme, host and port.
    Receiver(Arc<str>),
}

#[derive(Debug)]
pub(super) struct QueueLimits {
    requests: ConcurrencyLimit,
    others: Option<ConcurrencyLimit>,
    slow: ConcurrencyLimit,
    /// Of those that hold a permit.
    by_holder: Mutex<HashMap<Holder, ConcurrencyLimit>>,
}

impl QueueLimits {
    fn new() -> Self {
        Self {
            requests: ConcurrencyLimit::new(REQUESTS_AT_ONCE),
            others: None,
            slow: ConcurrencyLimit::new(SLOW_AT_ONCE),
            by_holder: Mutex::default(),
        }
    }

    fn all(&self) -> impl Iterator<Item = &ConcurrencyLimit> {
        [&self.requests, &self.slow].into_iter().chain(&self.others)
    }

    /// A permit for one delivery or execution of a hook, if none of its limits is reached.
    pub(super) fn try_acquire(&self, hook: &LoadedHook) -> Option<HookPermit> {
        let places = match (&hook.hook.action, &self.others) {
            (Action::Http(_), _) | (_, None) => &self.requests,
            (_, Some(others)) => others,
        };
        let of_queue = places.try_take()?;
        let receiver = hook.receiver.clone().filter(|_| !hook.is_quick.load(Ordering::Relaxed));
        let mut by_holder = self.by_holder.lock();
        let mut share = |holder| {
            let most = || ConcurrencyLimit::new(places.limit().div_ceil(SHARES));
            by_holder.entry(holder).or_insert_with(most).try_take()
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

    /// How many permits a hook holds.
    pub(super) fn held_by(&self, hook: &HookId) -> usize {
        self.by_holder.lock().get(&Holder::Hook(hook.clone())).map_or(0, ConcurrencyLimit::taken)
    }

    /// Forgets who holds no permit any more.
    pub(super) fn forget_idle(&self) {
        self.by_holder.lock().retain(|_, places| places.taken() > 0);
    }

    pub(super) fn is_full(&self) -> bool {
        self.requests.free() == 0 && self.others.as_ref().is_none_or(|others| others.free() == 0)
    }

    /// Whether anything is under way.
    pub(super) fn is_in_use(&self) -> bool {
        self.all().any(|places| places.taken() > 0)
    }

    /// See [`ConcurrencyLimit::settle`].
    pub(super) async fn settle(&self, wake: &Notify, longest: Duration) -> bool {
        ConcurrencyLimit::settle_any(&self.all().collect::<Vec<_>>(), Some(wake), longest).await
    }
}

/// One that counts against the limits. The default counts against none.
#[derive(Debug, Default)]
pub(super) struct HookPermit {
    of_queue: Option<Permit>,
    slow: Option<ConcurrencyLimit>,
    _of_hook: Option<Permit>,
    _of_receiver: Option<Permit>,
}

impl HookPermit {
    /// Of work that takes long: counts among the slow from now on, if there are not too many of those.
    pub(super) fn count_as_slow(&mut self) {
        if self.of_queue.is_some()
            && let Some(slow) = self.slow.as_ref().and_then(ConcurrencyLimit::try_take)
        {
            self.of_queue = Some(slow);
        }
    }

    /// Of work that waits for something else: counts against the limits of its hook and its receiver alone.
    pub(super) fn leave_queue(&mut self) {
        self.of_queue = None;
    }

    pub(super) fn has_left_queue(&self) -> bool {
        self.of_queue.is_none()
    }
}
