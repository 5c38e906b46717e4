//! Claiming what is due, fairly: one hook after the other gets one place, no hook more than a quarter, and no receiver
//! that is slow, or not known yet, more than a quarter for all its hooks together.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use agentd_base::Timestamp;
use agentd_store::{Durability, Tx};

use super::LONGEST_WAIT;
use super::places::Kind;
use crate::ground::{Place, until_due};
use crate::hooks::cache::{HookCache, LoadedHook};
use crate::hooks::error::HookError;
use crate::hooks::model::HookId;
use crate::hooks::service::Hooks;
use crate::hooks::store::queue::{self, Backlog, Claim, QueueKind};

/// Something that is to be done here.
pub(super) struct Task {
    pub(super) hook: Arc<LoadedHook>,
    pub(super) claim: Claim,
    /// It shows whether a receiver is back.
    pub(super) is_probe: bool,
    pub(super) held: Held,
}

/// What a task takes up; given back when it is dropped.
pub(super) struct Held {
    /// Taken out by what may give it back before the task is over.
    pub(super) place: Option<Place>,
    _share: Share,
}

/// Whoever has no more than a part of the places.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(in crate::hooks) enum Holder {
    Hook(HookId),
    /// One that was not quick when it was sent to, by its scheme, host and port.
    Slow(Arc<str>),
}

/// One of the places that a hook has, and perhaps its receiver; given back when it is dropped.
struct Share {
    hooks: Hooks,
    queue: QueueKind,
    hook: Holder,
    receiver: Option<Holder>,
}

impl Share {
    fn take(hooks: &Hooks, queue: QueueKind, hook: &LoadedHook) -> Self {
        let (hook, receiver) = (Holder::Hook(hook.hook.id.clone()), slow_receiver(hook));
        let mut under_way = hooks.under_way().lock();
        for holder in std::iter::once(&hook).chain(&receiver) {
            *under_way.entry((queue, holder.clone())).or_default() += 1;
        }
        drop(under_way);
        Self { hooks: hooks.clone(), queue, hook, receiver }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut under_way = self.hooks.under_way().lock();
        let receiver = self.receiver.take();
        for holder in std::iter::once(self.hook.clone()).chain(receiver) {
            let key = (self.queue, holder);
            if let Some(count) = under_way.get_mut(&key) {
                *count -= 1;
                if *count == 0 {
                    under_way.remove(&key);
                }
            }
        }
    }
}

/// The receiver of a hook, as long as it is not known to be quick.
fn slow_receiver(hook: &LoadedHook) -> Option<Holder> {
    let receiver = hook.receiver.as_ref().filter(|_| !hook.is_quick.load(Ordering::Relaxed))?;
    Some(Holder::Slow(Arc::clone(receiver)))
}

/// A hook that has something due, and how much of it may be claimed.
struct Waiting {
    hook: Arc<LoadedHook>,
    backlog: Backlog,
    receiver: Option<Holder>,
    taken: usize,
    room: usize,
    given: usize,
}

/// How much of a hook is to be claimed.
#[derive(Debug, Clone)]
struct Quota {
    hook_id: HookId,
    /// Hooks of a higher priority that hear of the same events.
    going_before: Vec<String>,
    limit: usize,
    /// Its circuit is open, and this one looks whether the receiver is back.
    probes: Option<Timestamp>,
}

/// Takes what is due, as far as there are places.
pub(super) async fn claim_due(hooks: &Hooks, queue: QueueKind, lease: Duration) -> Result<Vec<Task>, HookError> {
    let kinds: &[Kind] = match queue {
        QueueKind::Deliveries => &[Kind::Request],
        QueueKind::Executions => &[Kind::Request, Kind::Other],
    };
    if kinds.iter().all(|kind| hooks.places().of(queue, *kind).free() == 0) {
        return Ok(Vec::new());
    }
    let (cache, backlogs) = {
        let mut read = hooks.db().read().await?;
        (hooks.cache(&mut read).await?, queue::list_backlogs(&mut read, queue).await?)
    };
    let now = hooks.ground().clock.now();
    let due =
        |backlog: &Backlog| backlog.open_until.map_or(backlog.due_at, |open_until| open_until.max(backlog.due_at));
    hooks.next_due(queue).note(backlogs.iter().map(due).min());
    let mut quotas = Vec::new();
    for kind in kinds {
        let is_of_kind = |hook: &LoadedHook| queue == QueueKind::Deliveries || Kind::of(&hook.hook.action) == *kind;
        let places = hooks.places().of(queue, *kind);
        let under_way = hooks.under_way().lock();
        let taken = |holder: &Holder| under_way.get(&(queue, holder.clone())).copied().unwrap_or_default();
        let most = places.limit().div_ceil(4);
        let waiting = backlogs.iter().filter_map(|backlog| {
            let hook = cache.find(&backlog.hook_id).filter(|hook| hook.hook.enabled && is_of_kind(hook))?;
            // Closed circuits and those that may be tried are alike in this.
            (due(backlog) <= now).then(|| Waiting::new(hook, backlog.clone(), most, taken))
        });
        quotas.extend(share_out(&cache, waiting.collect(), places.free(), |receiver| {
            most.saturating_sub(taken(receiver))
        }));
    }
    if quotas.is_empty() {
        return Ok(Vec::new());
    }
    let owner = Arc::clone(&hooks.ground().instance);
    let claim = async move |tx: &mut Tx| {
        let mut claims = Vec::new();
        for quota in &quotas {
            if let Some(open_until) = quota.probes
                && !queue::begin_probe(tx, &quota.hook_id, open_until, lease).await?
            {
                continue;
            }
            let of = (&quota.hook_id, &*quota.going_before);
            let claimed = queue::claim(tx, queue, of, quota.limit, &owner, lease).await?;
            claims.extend(claimed.into_iter().map(|claim| (claim, quota.probes.is_some())));
        }
        Ok::<_, HookError>(claims)
    };
    // A claim that a power cut takes back is simply made again.
    let claims = hooks.db().write_locking(Durability::Relaxed, claim).await?;
    let task = |(claim, is_probe): (Claim, bool)| {
        let hook = cache.find(&claim.hook_id)?;
        let places = hooks.places().of(queue, Kind::of(&hook.hook.action));
        let held = Held { place: Some(places.take()), _share: Share::take(hooks, queue, hook) };
        Some(Task { hook: Arc::clone(hook), is_probe, held, claim })
    };
    Ok(claims.into_iter().filter_map(task).collect())
}

/// The end of a round that found nothing to claim: waits for a place that is free again, at most until something is
/// due. Answers whether anything is under way.
pub(super) async fn rest(hooks: &Hooks, queue: QueueKind) -> bool {
    let due = until_due(hooks.next_due(queue).at(), hooks.ground().clock.now());
    let longest = due.map_or(LONGEST_WAIT, |wait| wait.min(LONGEST_WAIT));
    hooks.places().settle(queue, &hooks.wake_of(queue), longest).await
}

impl Waiting {
    fn new(hook: &Arc<LoadedHook>, backlog: Backlog, most: usize, taken: impl Fn(&Holder) -> usize) -> Self {
        let taken = taken(&Holder::Hook(backlog.hook_id.clone()));
        let room = if backlog.open_until.is_some() { 1 } else { most.saturating_sub(taken) };
        Self { receiver: slow_receiver(hook), hook: Arc::clone(hook), backlog, taken, room, given: 0 }
    }
}

/// Shares the free places out among the hooks that have something due, in rounds of one each, the hooks with
/// the highest priority first, then those that have the least under way. `left` is what a slow receiver may still have.
fn share_out(
    cache: &HookCache,
    mut waiting: Vec<Waiting>,
    mut free: usize,
    left: impl Fn(&Holder) -> usize,
) -> Vec<Quota> {
    waiting.sort_by(|a, b| {
        let order = |waiting: &Waiting| (-waiting.hook.hook.priority, waiting.taken, waiting.backlog.due_at);
        order(a).cmp(&order(b))
    });
    let mut receivers: HashMap<Holder, usize> = HashMap::new();
    let mut has_given = true;
    while free > 0 && has_given {
        has_given = false;
        for one in &mut waiting {
            if one.given >= one.room || free == 0 {
                continue;
            }
            if let Some(receiver) = &one.receiver {
                let left = receivers.entry(receiver.clone()).or_insert_with(|| left(receiver));
                if *left == 0 {
                    continue;
                }
                *left -= 1;
            }
            one.given += 1;
            free -= 1;
            has_given = true;
        }
    }
    let quota = |one: Waiting| {
        // What looks whether a receiver is back waits for nobody.
        let is_probe = one.backlog.open_until.is_some();
        let before = if is_probe { Vec::new() } else { cache.going_before(&one.hook.hook) };
        let going_before = before.into_iter().map(str::to_owned).collect();
        Quota { going_before, hook_id: one.backlog.hook_id, limit: one.given, probes: one.backlog.open_until }
    };
    waiting.into_iter().filter(|one| one.given > 0).map(quota).collect()
}
