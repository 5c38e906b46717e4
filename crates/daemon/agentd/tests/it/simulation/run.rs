//! Runs one seed: the actions of the daemons, their order, and the faults.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use agentd_automation::notify::Notification;
use agentd_base::Timestamp;
use agentd_conversation::chat::{ConversationId, SendMessage, StartedReply};
use agentd_store::{NewEvent, StoreError, Tx};
use agentd_testing_store::faults::FaultyDisk;
use futures_util::FutureExt;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::task::JoinHandle;

use super::dice::Dice;
use super::faults::watch;
use super::ledger::{Change, Ledger};
use super::node::{Node, Place, Run, WORKERS};
use super::rules::Rules;
use super::template::{EVENT_TYPE, Template};
use super::world::{Answer, INBOX, Life, World};
use crate::support::TestFolder;

/// Number of daemons on the database.
pub(super) const NODES: usize = 3;
/// Number of steps before the faults stop.
const STEPS: u64 = 50;
/// Request number of a turn in a conversation.
pub(super) const TURN_REQUEST: u64 = 9;
/// Multiplier that gives every life its own random generator.
const LIFE_SEED_FACTOR: u64 = 1 << 20;

/// A request acknowledged by a daemon, whose effect must not be lost.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Acknowledged {
    Event(String),
    Notification(String),
    Turn(String),
}

/// Result of a seed.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Report {
    pub seed: u64,
    pub steps: u64,
    /// Number of faults by kind.
    pub faults: BTreeMap<String, u64>,
    /// First violation.
    pub violation: Option<String>,
    /// Hash of the run; identical for identical seeds.
    pub digest: u64,
    /// Log of all actions.
    pub trace: Vec<String>,
}

pub struct Simulation<'t> {
    pub(super) template: &'t Template,
    pub(super) dice: Dice,
    pub(super) world: World,
    pub(super) rules: Rules,
    pub(super) nodes: [Option<Node>; NODES],
    /// Paused daemon and the step at which it resumes.
    pub(super) stopped: Option<(usize, u64)>,
    pub(super) asked: Vec<(usize, Life, JoinHandle<Option<Acknowledged>>)>,
    pub(super) acknowledged: Vec<Acknowledged>,
    pub(super) elapsed: Duration,
    lives: Life,
    digest: DefaultHasher,
    pub(super) report: Report,
    pub(super) ledger: Option<Ledger>,
    pub(super) disk: Option<FaultyDisk>,
    pub(super) folder: TestFolder,
}

/// Runs a seed to its end or to the first violation.
pub fn simulate(template: &Template, seed: u64) -> Report {
    let mut simulation = Simulation::new(template, seed);
    if let Err(violation) = simulation.run_all() {
        simulation.report.violation = Some(violation);
    }
    simulation.report.digest = simulation.digest.finish();
    std::mem::take(&mut simulation.report)
}

impl<'t> Simulation<'t> {
    fn new(template: &'t Template, seed: u64) -> Self {
        let folder = TestFolder::create();
        let place = Place { folder: folder.path() };
        std::fs::write(place.database(), &template.database).expect("a database");
        write_key(&place, &template.key);
        let (world, dice) = (World::default(), Dice::new(seed));
        // Only some seeds track synced data, because it is slow.
        let disk = dice.chance(25).then(|| watch(&folder));
        Self {
            template,
            dice,
            rules: Rules::new(world.clone()),
            world,
            nodes: [const { None }; NODES],
            stopped: None,
            asked: Vec::new(),
            acknowledged: Vec::new(),
            elapsed: Duration::ZERO,
            lives: 0,
            digest: DefaultHasher::new(),
            report: Report { seed, ..Report::default() },
            ledger: Some(Ledger::open(folder.path(), &place.database())),
            disk,
            folder,
        }
    }

    fn run_all(&mut self) -> Result<(), String> {
        for slot in 0..NODES {
            self.boot(slot)?;
        }
        for number in 0..STEPS {
            self.step(number)?;
        }
        self.settle()
    }

    fn step(&mut self, number: u64) -> Result<(), String> {
        let mut slot = self.dice.index(NODES);
        if self.stopped.is_some_and(|(stopped, until)| stopped == slot && number < until) {
            slot = (slot + 1) % NODES;
        }
        if self.nodes[slot].is_none() {
            return if self.dice.chance(40) { self.boot(slot) } else { self.advance_randomly() };
        }
        match self.dice.below(100) {
            0..16 => {
                let what = self.dice.below(10);
                self.ask(slot, what)?;
                self.run_some(slot)
            }
            16..50 => {
                let worker = *self.dice.one_of(&WORKERS);
                self.begin(slot, worker)
            }
            50..66 => self.run_some(slot),
            66..82 => self.answer_one(),
            82..90 => self.advance_randomly(),
            90..94 => self.pause_during_lease(slot, number),
            94..97 => self.move_clock(slot),
            99 if self.disk.is_some() => self.cut_power(),
            _ => self.kill(slot),
        }
    }

    /// Starts a daemon with only the state of the database.
    pub(super) fn boot(&mut self, slot: usize) -> Result<(), String> {
        self.lives += 1;
        let (life, seed) = (self.lives, self.dice.seed() % LIFE_SEED_FACTOR + self.lives * LIFE_SEED_FACTOR);
        self.note(format!("daemon {slot} starts life {life}"));
        self.set_actor(life, self.now());
        let place = Place { folder: self.folder.path() };
        let mut node = Node::boot(place, slot, life, seed, self.now(), &self.world);
        // The drift of a bad machine clock is about 250 parts per million.
        node.drift = i64::try_from(self.dice.below(500)).expect("a small number") - 250;
        self.rules.add_life(life, &node.context.instance);
        self.nodes[slot] = Some(node);
        self.check_changes()
    }

    pub(super) fn begin(&mut self, slot: usize, worker: &'static str) -> Result<(), String> {
        let Some(node) = self.nodes[slot].as_mut() else { return Ok(()) };
        if !node.begin(worker) {
            return self.run_some(slot);
        }
        let life = node.life;
        self.note(format!("life {life} begins {worker}"));
        self.run_some(slot)
    }

    /// Runs a daemon for a few rounds or until it is idle.
    fn run_some(&mut self, slot: usize) -> Result<(), String> {
        let how = match self.dice.below(10) {
            0..5 => Run::Rounds(1 + self.dice.below(12)),
            _ => Run::Idle,
        };
        self.run(slot, how)
    }

    pub(super) fn run(&mut self, slot: usize, how: Run) -> Result<(), String> {
        let now = self.now_of(slot);
        let Some(life) = self.nodes[slot].as_ref().map(|node| node.life) else { return Ok(()) };
        self.set_actor(life, now);
        let Some(node) = self.nodes[slot].as_mut() else { return Ok(()) };
        node.run(how);
        let (failures, latest) = (node.failures(), node.latest());
        self.rules.set_latest(life, latest);
        self.note(format!("life {life} runs: {how:?}"));
        self.collect_answers();
        self.check_changes()?;
        match failures.first() {
            Some(failure) => Err(format!("a pass of life {life} failed: {failure}")),
            None => Ok(()),
        }
    }

    /// Answers one open request.
    fn answer_one(&mut self) -> Result<(), String> {
        let open = self.world.open();
        if open.is_empty() {
            return Ok(());
        }
        let number = *self.dice.one_of(&open);
        let answer = match self.dice.below(20) {
            0..13 => Answer::Success,
            13..16 => Answer::Status(500),
            16..18 => Answer::Status(503),
            _ => Answer::Lost,
        };
        match answer {
            Answer::Success => {}
            Answer::Status(_) => self.count("refusals of receivers"),
            Answer::Lost => self.count("lost answers"),
        }
        self.send_answer(number, answer);
        Ok(())
    }

    pub(super) fn send_answer(&mut self, number: usize, answer: Answer) {
        let arrival = self.world.arrival(number);
        self.note(format!("request {number} of life {} to {} ends: {answer:?}", arrival.life, arrival.place));
        self.world.answer(number, answer);
    }

    /// Sends a request to a daemon; half of the requests are events.
    pub(super) fn ask(&mut self, slot: usize, what: u64) -> Result<(), String> {
        let number = self.report.steps;
        let Some(node) = self.nodes[slot].as_ref() else { return Ok(()) };
        let (db, inside) = (node.context.db.clone(), node.inside.clone());
        let conversation: ConversationId = self.dice.one_of(&self.template.conversations).as_str().into();
        let asked = match what {
            0..5 => node.spawn(async move {
                let emit = async move |tx: &mut Tx| {
                    tx.emit(NewEvent::new(EVENT_TYPE, json!({"text": format!("event {number}")}))).await
                };
                let id = db.write::<_, StoreError, _>(emit).await.ok()?;
                Some(Acknowledged::Event(id.to_string()))
            }),
            5..8 => node.spawn(async move {
                let target = format!("webhook:http://{INBOX}/").parse().expect("a target");
                let message = Notification::new(target, "Simulated", format!("notification {number}"));
                let notify = inside.notify().clone();
                let id = db.write(async move |tx: &mut Tx| notify.enqueue(tx, &message).await).await.ok()?;
                Some(Acknowledged::Notification(id.to_string()))
            }),
            _ => node.spawn(async move {
                let message = SendMessage {
                    content: format!("message {number}"),
                    conversation_id: Some(conversation),
                    agent: Some("scout".to_owned()),
                    model: None,
                    execution_mode: None,
                    device: None,
                    key_id: None,
                    channel: None,
                };
                let session =
                    inside.chat().send_with(message, async |_: &mut Tx, _: &StartedReply| Ok(())).await.ok()?;
                Some(Acknowledged::Turn(session.to_string()))
            }),
        };
        let life = node.life;
        self.asked.push((slot, life, asked));
        let what = ["an event", "a notification", "a turn"][usize::from(what >= 5) + usize::from(what >= 8)];
        self.note(format!("life {life} receives a request for {what}, {number}"));
        Ok(())
    }

    fn collect_answers(&mut self) {
        let mut waiting = Vec::new();
        for (slot, life, mut asked) in std::mem::take(&mut self.asked) {
            match (&mut asked).now_or_never() {
                Some(Ok(Some(acknowledged))) => self.acknowledged.push(acknowledged),
                Some(_) => {}
                None => waiting.push((slot, life, asked)),
            }
        }
        self.asked = waiting;
    }

    /// Checks new changes against the rules.
    pub(super) fn check_changes(&mut self) -> Result<(), String> {
        let changes = self.ledger.as_mut().expect("a ledger").read_new_changes();
        // The order of changes within a step is not determined by the seed.
        let mut outcomes: Vec<String> =
            changes.iter().map(|change| format!("{:?}", Change { seq: 0, ..change.clone() })).collect();
        outcomes.sort_unstable();
        outcomes.hash(&mut self.digest);
        for change in changes {
            self.note(format!("  {change:?}"));
            self.rules.check(&change)?;
        }
        Ok(())
    }

    fn set_actor(&mut self, life: Life, clock: Timestamp) {
        self.ledger.as_mut().expect("a ledger").set_actor(life, clock);
    }

    pub(super) fn ledger(&self) -> &Ledger {
        self.ledger.as_ref().expect("a ledger")
    }

    pub(super) fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.template.start) + self.elapsed
    }

    fn now_of(&self, slot: usize) -> Timestamp {
        self.nodes[slot].as_ref().map_or_else(|| self.now(), |node| node.context.clock.now())
    }

    pub(super) fn note(&mut self, line: String) {
        if !line.starts_with(' ') {
            self.report.steps += 1;
            line.hash(&mut self.digest);
        }
        self.report.trace.push(line);
    }

    pub(super) fn count(&mut self, fault: &'static str) {
        *self.report.faults.entry(fault.to_owned()).or_default() += 1;
    }
}

fn write_key(place: &Place<'_>, key: &[u8]) {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(place.key()).expect("a key file");
    file.write_all(key).expect("a key");
}
