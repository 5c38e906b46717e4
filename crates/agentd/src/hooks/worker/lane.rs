//! Claiming what is due, fairly: one hook after the other gets one place, and no hook more than a quarter.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use agentd_base::Timestamp;
use agentd_store::{Durability, Tx};

use crate::ground::Place;
use crate::hooks::error::HookError;
use crate::hooks::known::{Known, LoadedHook};
use crate::hooks::model::HookId;
use crate::hooks::service::Hooks;
use crate::hooks::store::queue::{self, Busy, Claim, Lane};

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

/// One of the places that a hook has; given back when it is dropped.
struct Share {
    hooks: Hooks,
    key: (Lane, HookId),
}

impl Share {
    fn take(hooks: &Hooks, lane: Lane, id: &HookId) -> Self {
        let key = (lane, id.clone());
        *hooks.under_way().lock().entry(key.clone()).or_default() += 1;
        Self { hooks: hooks.clone(), key }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut under_way = self.hooks.under_way().lock();
        if let Some(count) = under_way.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                under_way.remove(&self.key);
            }
        }
    }
}

/// How much of a hook is to be claimed.
#[derive(Debug, Clone)]
struct Quota {
    hook_id: HookId,
    limit: usize,
    /// Its circuit is open, and this one looks whether the receiver is back.
    probes: Option<Timestamp>,
}

/// Takes what is due, as far as there are places.
pub(super) async fn claim_due(hooks: &Hooks, lane: Lane, lease: Duration) -> Result<Vec<Task>, HookError> {
    let places = hooks.places(lane);
    if places.free() == 0 {
        return Ok(Vec::new());
    }
    let (known, busy) = {
        let mut read = hooks.db().read().await?;
        (hooks.known(&mut read).await?, queue::list_busy(&mut read, lane).await?)
    };
    let now = hooks.ground().clock.now();
    let due = |busy: &Busy| busy.open_until.map_or(busy.due_at, |open_until| open_until.max(busy.due_at));
    hooks.next_due(lane).note(busy.iter().map(due).min());
    let quotas = {
        let under_way = hooks.under_way().lock();
        let taken = |id: &HookId| under_way.get(&(lane, id.clone())).copied().unwrap_or_default();
        share_out(&known, busy, places.free(), places.limit().div_ceil(4), now, taken)
    };
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
            let claimed = queue::claim(tx, lane, &quota.hook_id, quota.limit, &owner, lease).await?;
            claims.extend(claimed.into_iter().map(|claim| (claim, quota.probes.is_some())));
        }
        Ok::<_, HookError>(claims)
    };
    // A claim that a power cut takes back is simply made again.
    let claims = hooks.db().write_locking(Durability::Relaxed, claim).await?;
    let task = |(claim, is_probe): (Claim, bool)| {
        let hook = known.find(&claim.hook_id)?;
        Some(Task {
            hook: Arc::clone(hook),
            is_probe,
            held: Held { place: Some(places.take()), _share: Share::take(hooks, lane, &claim.hook_id) },
            claim,
        })
    };
    Ok(claims.into_iter().filter_map(task).collect())
}

/// Shares the free places out among the hooks that have something due, in rounds of one each, the hooks with
/// the highest priority first, then those that have the least under way.
fn share_out(
    known: &Known,
    busy: Vec<Busy>,
    free: usize,
    most: usize,
    now: Timestamp,
    taken: impl Fn(&HookId) -> usize,
) -> Vec<Quota> {
    let mut waiting = Vec::new();
    for busy in busy {
        let Some(hook) = known.find(&busy.hook_id).filter(|hook| hook.hook.enabled) else { continue };
        let is_open = busy.open_until.is_some_and(|until| until > now);
        if busy.due_at > now || is_open {
            continue;
        }
        let taken = taken(&busy.hook_id);
        let room = if busy.open_until.is_some() { 1 } else { most.saturating_sub(taken) };
        if room > 0 {
            waiting.push((hook.hook.priority, taken, busy, room));
        }
    }
    waiting.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)).then_with(|| a.2.due_at.cmp(&b.2.due_at)));
    let mut limits: HashMap<usize, usize> = HashMap::new();
    let mut free = free;
    let mut has_given = true;
    while free > 0 && has_given {
        has_given = false;
        for (at, (_, _, _, room)) in waiting.iter().enumerate() {
            let limit = limits.entry(at).or_default();
            if *limit < *room && free > 0 {
                *limit += 1;
                free -= 1;
                has_given = true;
            }
        }
    }
    let quota = |(at, (_, _, busy, _)): (usize, (i64, usize, Busy, usize))| {
        let limit = limits.get(&at).copied().filter(|limit| *limit > 0)?;
        Some(Quota { hook_id: busy.hook_id, limit, probes: busy.open_until })
    };
    waiting.into_iter().enumerate().filter_map(quota).collect()
}
