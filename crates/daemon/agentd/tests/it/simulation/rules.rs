//! Invariants of every change of a leased row, as documented in ARCHITECTURE.md and the modules.

use std::collections::{BTreeMap, BTreeSet};

use agentd_base::Timestamp;

use super::ledger::{Change, Side};
use super::world::{Life, Outcome, World};

/// Lease of alert evaluation in microseconds.
const EVALUATION_LEASE: i64 = 9_000_000;

/// State of a session.
#[derive(Debug, Default)]
struct SessionState {
    conversation: String,
    last_seq: i64,
    ended_by: Option<Life>,
}

#[derive(Debug)]
pub struct Rules {
    world: World,
    /// Instance ids of lives as stored in leases.
    instances: BTreeMap<Life, String>,
    /// Latest clock time of each life at which it may have seen an expired lease.
    latest: BTreeMap<Life, i64>,
    claims: BTreeMap<(Life, String), usize>,
    pairs: BTreeSet<(String, String)>,
    sessions: BTreeMap<String, SessionState>,
    /// Running turn of each conversation.
    turns: BTreeMap<String, String>,
}

/// Description of a broken rule.
type Violation = String;

/// Returns whether a row is currently leased.
fn is_held(kind: &str, side: &Side) -> bool {
    let status = match kind {
        "queue" => "leased",
        "hook_deliveries" => "processing",
        _ => "running",
    };
    // Once a run has a session, the lease of the session applies.
    let has_session = kind == "job_runs" && !side.about.ends_with(" -");
    side.status == status && side.owner.is_some() && !has_session
}

fn is_over(kind: &str, status: &str) -> bool {
    match kind {
        "queue" => matches!(status, "done" | "dead_letter"),
        "hook_deliveries" => matches!(status, "success" | "dead_letter"),
        "hook_executions" => matches!(status, "success" | "error" | "timeout" | "skipped"),
        "job_runs" => !matches!(status, "pending" | "running"),
        _ => status != "running",
    }
}

fn require(condition: bool, otherwise: impl FnOnce() -> String) -> Result<(), Violation> {
    if condition { Ok(()) } else { Err(otherwise()) }
}

impl Rules {
    pub fn new(world: World) -> Self {
        Self {
            world,
            instances: BTreeMap::new(),
            latest: BTreeMap::new(),
            claims: BTreeMap::new(),
            pairs: BTreeSet::new(),
            sessions: BTreeMap::new(),
            turns: BTreeMap::new(),
        }
    }

    /// Registers the instance id of a life.
    pub fn add_life(&mut self, life: Life, instance: &str) {
        self.instances.insert(life, instance.to_owned());
    }

    pub fn set_latest(&mut self, life: Life, clock: Timestamp) {
        self.latest.insert(life, clock.as_micros());
    }

    /// Returns whether the owner of a row is this life.
    fn is_owner(&self, life: Life, owner: Option<&String>) -> bool {
        let instance = self.instances.get(&life).map(String::as_str);
        owner.zip(instance).is_some_and(|(owner, instance)| owner == instance)
    }

    /// Number of claims of a life.
    pub fn claims_of(&self, life: Life) -> usize {
        self.claims.iter().filter(|((by, _), _)| *by == life).map(|(_, count)| count).sum()
    }

    /// Resets the state to these changes, because later ones were lost.
    pub fn reset_to(&mut self, changes: &[Change]) {
        let (world, instances) = (self.world.clone(), std::mem::take(&mut self.instances));
        *self = Self { instances, ..Self::new(world) };
        for change in changes {
            // Violations were reported when the change happened; later responses do not affect it.
            let _ = self.check(change);
        }
    }

    pub fn check(&mut self, change: &Change) -> Result<(), Violation> {
        let checked = match change.kind.as_str() {
            "sessions" => self.check_session(change),
            "session_events" => self.check_event(change),
            "jobs" | "cursors" => check_position(change),
            "leases" => self.check_lease(change),
            _ => self.check_leased(change),
        };
        checked.map_err(|violation| format!("{violation}: {change:?}"))
    }

    fn check_leased(&mut self, change: &Change) -> Result<(), Violation> {
        let Change { life, kind, id, old, new, .. } = change;
        let Some(old) = old else { return self.check_new(change) };
        if old == new {
            return Ok(());
        }
        require(!is_over(kind, &old.status), || "a completed row was changed".to_owned())?;
        if new.fence == old.fence + 1 {
            *self.claims.entry((*life, id.clone())).or_default() += 1;
            require(self.is_owner(*life, new.owner.as_ref()), || "it was claimed with another owner".to_owned())?;
            return require(old.due.is_some_and(|due| due <= change.clock), || {
                "it was claimed before it was due or while a lease was active".to_owned()
            });
        }
        require(new.fence == old.fence, || "the fence changed incorrectly".to_owned())?;
        if !is_held(kind, old) {
            return Ok(());
        }
        let is_released = kind == "hook_deliveries" && new.status == "pending" && new.owner.is_none();
        if is_released && old.due.is_some_and(|due| due <= change.clock) {
            // The holder was paused for longer than the lease, so the result of its attempt is unknown.
            return Ok(());
        }
        require(self.is_owner(*life, old.owner.as_ref()), || "a life without the lease changed it".to_owned())?;
        if is_held(kind, new) { Ok(()) } else { self.check_result(change, new) }
    }

    fn check_new(&mut self, change: &Change) -> Result<(), Violation> {
        // Pair of a hook and an event, or a job and its slot.
        let about = match change.kind.as_str() {
            "job_runs" => change.new.about.rsplit_once(' ').map(|(pair, _)| pair).unwrap_or_default(),
            "hook_deliveries" | "hook_executions" | "proactive_turns" => &change.new.about,
            _ => return Ok(()),
        };
        let is_once = about.ends_with(" -") || self.pairs.insert((change.kind.clone(), about.to_owned()));
        require(is_once, || "it is a duplicate".to_owned())
    }

    /// Checks that the recorded result of an attempt matches the response that the sender received.
    fn check_result(&self, change: &Change, new: &Side) -> Result<(), Violation> {
        let key = match change.kind.as_str() {
            "hook_deliveries" => change.id.as_str(),
            "queue" => match new.about.split_once("\"notification_id\":\"").and_then(|(_, id)| id.split_once('"')) {
                Some((id, _)) => id,
                None => return Ok(()),
            },
            _ => return Ok(()),
        };
        let sent = self.world.sent_by(change.life, key);
        let claims = self.claims.get(&(change.life, change.id.clone())).copied().unwrap_or_default();
        require(sent.len() <= claims, || format!("it was sent {} times with {claims} claims", sent.len()))?;
        let last = sent.last().map(|arrival| arrival.outcome);
        require(last != Some(Outcome::Open), || "a result was recorded before a response".to_owned())?;
        match new.status.as_str() {
            "success" => require(last == Some(Outcome::Accepted), || {
                "a request that was not accepted was recorded as a success".to_owned()
            }),
            "done" => {
                let was_accepted =
                    self.world.received_with_key(key).iter().any(|arrival| arrival.outcome == Outcome::Accepted);
                require(was_accepted, || "a message that was not accepted is done".to_owned())
            }
            // Applies to the last claim only, because a response under an earlier claim may have been recorded too
            // late.
            _ => require(last != Some(Outcome::Accepted) || sent.len() < claims, || {
                "an accepted request is retried".to_owned()
            }),
        }
    }

    fn check_session(&mut self, change: &Change) -> Result<(), Violation> {
        let Change { life, id, old, new, clock, .. } = change;
        let Some(old) = old else {
            let conversation = new.about.clone();
            let is_alone = conversation == "-" || self.turns.insert(conversation.clone(), id.clone()).is_none();
            self.sessions.insert(id.clone(), SessionState { conversation, ..SessionState::default() });
            return require(is_alone, || "two turns run in one conversation".to_owned());
        };
        if old == new {
            return Ok(());
        }
        require(!is_over("sessions", &old.status), || "a completed session was changed".to_owned())?;
        let is_owner = self.is_owner(*life, old.owner.as_ref());
        let latest = self.latest.get(life).map_or(*clock, |latest| *latest.max(clock));
        require(is_owner || old.due.is_some_and(|lease| lease < latest), || {
            "a turn was taken from a daemon with an active lease".to_owned()
        })?;
        if is_over("sessions", &new.status)
            && let Some(known) = self.sessions.get_mut(id)
        {
            known.ended_by = Some(*life);
            self.turns.remove(&known.conversation);
        }
        Ok(())
    }

    /// Checks that the owner extends or releases a lease, and that others take it only after it has expired.
    fn check_lease(&self, change: &Change) -> Result<(), Violation> {
        let Change { life, clock, old, new, .. } = change;
        let Some(old) = old.as_ref().filter(|old| *old != new) else { return Ok(()) };
        require(self.is_owner(*life, new.owner.as_ref()), || "a life without the lease changed it".to_owned())?;
        if new.fence == old.fence {
            return require(old.owner == new.owner, || "a lease changed its owner without a new fence".to_owned());
        }
        require(new.fence == old.fence + 1, || "the fence changed incorrectly".to_owned())?;
        // A lease further in the future than its duration was taken by a clock that was moved back since.
        let is_free = old.due.is_some_and(|due| due <= *clock || due > clock + EVALUATION_LEASE);
        require(is_free, || "a lease was taken while it was active".to_owned())
    }

    fn check_event(&mut self, change: &Change) -> Result<(), Violation> {
        let known = self.sessions.entry(change.id.clone()).or_default();
        require(change.new.fence == known.last_seq + 1, || format!("after event {} came another", known.last_seq))?;
        known.last_seq = change.new.fence;
        require(known.ended_by.is_none_or(|life| life == change.life), || {
            "a life that had lost a session wrote to its log".to_owned()
        })
    }
}

/// Checks values that only move forward.
fn check_position(change: &Change) -> Result<(), Violation> {
    let Some(old) = &change.old else { return Ok(()) };
    let goes_back =
        change.new.fence < old.fence || change.new.due.is_some_and(|due| old.due.is_some_and(|old| due < old));
    require(!goes_back, || "a position moved backwards".to_owned())
}
