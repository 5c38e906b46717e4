//! What must hold of every change of a row that is held by a lease, as ARCHITECTURE.md and the modules say it.

use std::collections::{BTreeMap, BTreeSet};

use agentd_base::Timestamp;

use super::ledger::{Change, Side};
use super::world::{Life, Outcome, World};

/// Microseconds.
const EVALUATION_LEASE: i64 = 9_000_000;

/// What is known of a session.
#[derive(Debug, Default)]
struct Known {
    conversation: String,
    last_seq: i64,
    ended_by: Option<Life>,
}

#[derive(Debug)]
pub struct Rules {
    world: World,
    /// Names of lives in leases.
    instances: BTreeMap<Life, String>,
    /// By which time a life may have found that a lease is over.
    latest: BTreeMap<Life, i64>,
    claims: BTreeMap<(Life, String), usize>,
    pairs: BTreeSet<(String, String)>,
    sessions: BTreeMap<String, Known>,
    /// The turn that runs in a conversation.
    turns: BTreeMap<String, String>,
}

/// A rule that was broken, in a sentence.
type Broken = String;

/// What a row is called while somebody holds it.
fn is_held(kind: &str, side: &Side) -> bool {
    let status = match kind {
        "queue" => "leased",
        "hook_deliveries" => "processing",
        _ => "running",
    };
    // From its session on, that one's lease is the run's.
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

fn require(is_right: bool, otherwise: impl FnOnce() -> String) -> Result<(), Broken> {
    if is_right { Ok(()) } else { Err(otherwise()) }
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

    /// A daemon calls itself so in leases.
    pub fn add_life(&mut self, life: Life, instance: &str) {
        self.instances.insert(life, instance.to_owned());
    }

    pub fn set_latest(&mut self, life: Life, clock: Timestamp) {
        self.latest.insert(life, clock.as_micros());
    }

    /// Whether an owner that stands in a row is this life.
    fn is_owner(&self, life: Life, owner: Option<&String>) -> bool {
        let instance = self.instances.get(&life).map(String::as_str);
        owner.zip(instance).is_some_and(|(owner, instance)| owner == instance)
    }

    /// How often a life has claimed something.
    pub fn claims_of(&self, life: Life) -> usize {
        self.claims.iter().filter(|((by, _), _)| *by == life).map(|(_, count)| count).sum()
    }

    /// Only these changes have happened: what came after them is lost.
    pub fn begin_again(&mut self, changes: &[Change]) {
        let (world, instances) = (self.world.clone(), std::mem::take(&mut self.instances));
        *self = Self { instances, ..Self::new(world) };
        for change in changes {
            // It was held against the rules when it happened; what the world said since does not bear on it.
            let _ = self.check(change);
        }
    }

    pub fn check(&mut self, change: &Change) -> Result<(), Broken> {
        let checked = match change.kind.as_str() {
            "sessions" => self.check_session(change),
            "session_events" => self.check_event(change),
            "jobs" | "cursors" => check_place(change),
            "leases" => self.check_lease(change),
            _ => self.check_leased(change),
        };
        checked.map_err(|broken| format!("{broken}: {change:?}"))
    }

    fn check_leased(&mut self, change: &Change) -> Result<(), Broken> {
        let Change { life, kind, id, old, new, .. } = change;
        let Some(old) = old else { return self.check_new(change) };
        if old == new {
            return Ok(());
        }
        require(!is_over(kind, &old.status), || "what had ended was changed".to_owned())?;
        if new.fence == old.fence + 1 {
            *self.claims.entry((*life, id.clone())).or_default() += 1;
            require(self.is_owner(*life, new.owner.as_ref()), || "it was claimed in another one's name".to_owned())?;
            return require(old.due.is_some_and(|due| due <= change.clock), || {
                "it was claimed before its time, or while a lease was in force".to_owned()
            });
        }
        require(new.fence == old.fence, || "the count of claims went wrong".to_owned())?;
        if !is_held(kind, old) {
            return Ok(());
        }
        let is_released = kind == "hook_deliveries" && new.status == "pending" && new.owner.is_none();
        if is_released && old.due.is_some_and(|due| due <= change.clock) {
            // Its holder stood still for longer than the lease: what came of it meanwhile is not known for certain.
            return Ok(());
        }
        require(self.is_owner(*life, old.owner.as_ref()), || "who does not hold it changed it".to_owned())?;
        if is_held(kind, new) { Ok(()) } else { self.check_result(change, new) }
    }

    fn check_new(&mut self, change: &Change) -> Result<(), Broken> {
        // A hook and an event, or a job and its slot.
        let about = match change.kind.as_str() {
            "job_runs" => change.new.about.rsplit_once(' ').map(|(pair, _)| pair).unwrap_or_default(),
            "hook_deliveries" | "hook_executions" | "proactive_turns" => &change.new.about,
            _ => return Ok(()),
        };
        let is_once = about.ends_with(" -") || self.pairs.insert((change.kind.clone(), about.to_owned()));
        require(is_once, || "it is there twice".to_owned())
    }

    /// What is written down of an attempt is what the world said to it.
    fn check_result(&self, change: &Change, new: &Side) -> Result<(), Broken> {
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
        require(sent.len() <= claims, || format!("it was sent {} times under {claims} claims", sent.len()))?;
        let last = sent.last().map(|arrival| arrival.outcome);
        require(last != Some(Outcome::Open), || "a result was written down before there was one".to_owned())?;
        match new.status.as_str() {
            "success" => require(last == Some(Outcome::Accepted), || "what was not accepted is a success".to_owned()),
            "done" => {
                let is_there = self.world.came_as(key).iter().any(|arrival| arrival.outcome == Outcome::Accepted);
                require(is_there, || "what nobody accepted is done".to_owned())
            }
            // Under its last claim; what was accepted under an earlier one may have been written down too late.
            _ => require(last != Some(Outcome::Accepted) || sent.len() < claims, || {
                "what was accepted is tried again".to_owned()
            }),
        }
    }

    fn check_session(&mut self, change: &Change) -> Result<(), Broken> {
        let Change { life, id, old, new, clock, .. } = change;
        let Some(old) = old else {
            let conversation = new.about.clone();
            let is_alone = conversation == "-" || self.turns.insert(conversation.clone(), id.clone()).is_none();
            self.sessions.insert(id.clone(), Known { conversation, ..Known::default() });
            return require(is_alone, || "two turns run in one conversation".to_owned());
        };
        if old == new {
            return Ok(());
        }
        require(!is_over("sessions", &old.status), || "what had ended was changed".to_owned())?;
        let is_owner = self.is_owner(*life, old.owner.as_ref());
        let latest = self.latest.get(life).map_or(*clock, |latest| *latest.max(clock));
        require(is_owner || old.due.is_some_and(|lease| lease < latest), || {
            "a turn was taken from a daemon whose lease is in force".to_owned()
        })?;
        if is_over("sessions", &new.status)
            && let Some(known) = self.sessions.get_mut(id)
        {
            known.ended_by = Some(*life);
            self.turns.remove(&known.conversation);
        }
        Ok(())
    }

    /// The owner of a lease extends it and gives it back; others take it when it is over.
    fn check_lease(&self, change: &Change) -> Result<(), Broken> {
        let Change { life, clock, old, new, .. } = change;
        let Some(old) = old.as_ref().filter(|old| *old != new) else { return Ok(()) };
        require(self.is_owner(*life, new.owner.as_ref()), || "who does not hold a lease changed it".to_owned())?;
        if new.fence == old.fence {
            return require(old.owner == new.owner, || "a lease changed hands uncounted".to_owned());
        }
        require(new.fence == old.fence + 1, || "the count of claims went wrong".to_owned())?;
        // Longer than any lease is what a clock gave that was set back since.
        let is_free = old.due.is_some_and(|due| due <= *clock || due > clock + EVALUATION_LEASE);
        require(is_free, || "a lease was taken while it was in force".to_owned())
    }

    fn check_event(&mut self, change: &Change) -> Result<(), Broken> {
        let known = self.sessions.entry(change.id.clone()).or_default();
        require(change.new.fence == known.last_seq + 1, || format!("after event {} came another", known.last_seq))?;
        known.last_seq = change.new.fence;
        require(known.ended_by.is_none_or(|life| life == change.life), || {
            "who had lost a session wrote its log".to_owned()
        })
    }
}

/// What only goes forward.
fn check_place(change: &Change) -> Result<(), Broken> {
    let Some(old) = &change.old else { return Ok(()) };
    let goes_back =
        change.new.fence < old.fence || change.new.due.is_some_and(|due| old.due.is_some_and(|old| due < old));
    require(!goes_back, || "a place went back".to_owned())
}
