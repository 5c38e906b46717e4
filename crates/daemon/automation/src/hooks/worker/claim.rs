//! Claiming what is due, fairly: one hook after the other gets one permit, as far as its limits allow.

use std::sync::Arc;
use std::time::Duration;

use agentd_base::Timestamp;
use agentd_core::runtime::until_due;
use agentd_store::{Durability, Tx};

use super::LONGEST_WAIT;
use crate::hooks::cache::{HookCache, LoadedHook};
use crate::hooks::error::HookError;
use crate::hooks::limits::{HookPermit, QueueLimits};
use crate::hooks::model::HookId;
use crate::hooks::service::Hooks;
use crate::hooks::store::queue::{self, Backlog, Claim, QueueKind};

/// Something that is to be done here.
pub(super) struct Task {
    pub(super) hook: Arc<LoadedHook>,
    pub(super) claim: Claim,
    /// It shows whether a receiver is back.
    pub(super) is_probe: bool,
    pub(super) permit: HookPermit,
}

/// The span of the work on what was claimed.
pub(super) fn claim_span(claim: &Claim) -> tracing::Span {
    let trace_id = claim.trace.map(|trace| tracing::field::display(trace.trace_id));
    tracing::info_span!("claim", item = claim.id, trace_id)
}

/// A hook that has something due, and a permit for each row that is to be claimed.
struct Waiting {
    hook: Arc<LoadedHook>,
    backlog: Backlog,
    permits: Vec<HookPermit>,
}

/// How much of a hook is to be claimed.
struct Quota {
    hook_id: HookId,
    /// Hooks of a higher priority that hear of the same events.
    going_before: Vec<String>,
    limit: usize,
    /// Its circuit is open, and this one looks whether the receiver is back.
    probes: Option<Timestamp>,
}

/// Takes what is due, as far as there are permits.
pub(super) async fn claim_due(hooks: &Hooks, queue: QueueKind, lease: Duration) -> Result<Vec<Task>, HookError> {
    let limits = hooks.limits().of(queue);
    if limits.is_full() {
        return Ok(Vec::new());
    }
    let (cache, backlogs) = {
        let mut read = hooks.db().read().await?;
        (hooks.cache(&mut read).await?, queue::list_backlogs(&mut read, queue).await?)
    };
    let now = hooks.context().clock.now();
    // Closed circuits and those that may be tried are alike in this.
    let due =
        |backlog: &Backlog| backlog.open_until.map_or(backlog.due_at, |open_until| open_until.max(backlog.due_at));
    hooks.next_due(queue).note(backlogs.iter().map(due).min());
    let waiting = backlogs.into_iter().filter(|backlog| due(backlog) <= now).filter_map(|backlog| {
        let hook = cache.find(&backlog.hook_id).filter(|hook| hook.hook.enabled)?;
        Some(Waiting { hook: Arc::clone(hook), backlog, permits: Vec::new() })
    });
    let waiting = share_out(limits, waiting.collect());
    if waiting.is_empty() {
        return Ok(Vec::new());
    }
    let quotas: Vec<Quota> = waiting.iter().map(|one| one.quota(&cache)).collect();
    let owner = Arc::clone(&hooks.context().instance);
    let claim = async move |tx: &mut Tx| {
        let mut claims = Vec::with_capacity(quotas.len());
        for quota in &quotas {
            claims.push(quota.claim(tx, queue, &owner, lease).await?);
        }
        Ok::<_, HookError>(claims)
    };
    // A claim that a power cut takes back is simply made again.
    let claims = hooks.db().write_locking(Durability::Relaxed, claim).await?;
    let mut tasks = Vec::new();
    for (one, claims) in waiting.into_iter().zip(claims) {
        let is_probe = one.backlog.open_until.is_some();
        let with_permits = claims.into_iter().zip(one.permits);
        tasks.extend(with_permits.map(|(claim, permit)| Task { hook: Arc::clone(&one.hook), claim, is_probe, permit }));
    }
    Ok(tasks)
}

/// The end of a round that found nothing to claim: waits for a permit that is given back, at most until something is
/// due. Answers whether anything is under way.
pub(super) async fn rest(hooks: &Hooks, queue: QueueKind) -> bool {
    let due = until_due(hooks.next_due(queue).at(), hooks.context().clock.now());
    let longest = due.map_or(LONGEST_WAIT, |wait| wait.min(LONGEST_WAIT));
    hooks.limits().of(queue).settle(&hooks.wake_of(queue), longest).await
}

/// Shares permits out in rounds of one for each hook, those with the highest priority first, then those that hold the
/// fewest. Answers who got any.
fn share_out(limits: &QueueLimits, mut waiting: Vec<Waiting>) -> Vec<Waiting> {
    limits.forget_idle();
    waiting.sort_by_cached_key(|one| {
        let hook = &one.hook.hook;
        (-hook.priority, limits.held_by(&hook.id), one.backlog.due_at)
    });
    let mut has_given = true;
    while has_given {
        has_given = false;
        for one in &mut waiting {
            // An open circuit lets one through.
            if one.backlog.open_until.is_some() && !one.permits.is_empty() {
                continue;
            }
            if let Some(permit) = limits.try_acquire(&one.hook) {
                one.permits.push(permit);
                has_given = true;
            }
        }
    }
    waiting.retain(|one| !one.permits.is_empty());
    waiting
}

impl Waiting {
    fn quota(&self, cache: &HookCache) -> Quota {
        let probes = self.backlog.open_until;
        // What looks whether a receiver is back waits for nobody.
        let before = if probes.is_some() { Vec::new() } else { cache.going_before(&self.hook.hook) };
        let going_before = before.into_iter().map(str::to_owned).collect();
        Quota { hook_id: self.backlog.hook_id.clone(), going_before, limit: self.permits.len(), probes }
    }
}

impl Quota {
    async fn claim(
        &self,
        tx: &mut Tx,
        queue: QueueKind,
        owner: &str,
        lease: Duration,
    ) -> Result<Vec<Claim>, HookError> {
        if let Some(open_until) = self.probes
            && !queue::begin_probe(tx, &self.hook_id, open_until, lease).await?
        {
            return Ok(Vec::new());
        }
        Ok(queue::claim(tx, queue, (&self.hook_id, &self.going_before), self.limit, owner, lease).await?)
    }
}
