//! What goes wrong.

use std::time::Duration;

use agentd_testing_store::faults::{FaultyDisk, Unsynced};

use super::ledger::Ledger;
use super::node::{Place, Run};
use super::run::{A_TURN, NODES, Simulation};
use super::world::Answer;
use crate::support::TestFolder;

/// Who holds what it works on, or looks at it before it does.
const HOLDERS: [&str; 8] = [
    "hooks.deliver",
    "hooks.execute",
    "hooks.purge",
    "notify.deliver",
    "scheduler.runs",
    "alerts.evaluate",
    "proactive.start",
    "engine.sessions",
];

impl Simulation<'_> {
    /// Everything that the daemon did and remembered is gone.
    pub(super) fn kill(&mut self, slot: usize) -> Result<(), String> {
        let Some(node) = self.nodes[slot].take() else { return Ok(()) };
        self.note(format!("life {} is killed", node.life));
        self.count("kills");
        // Nobody will say what became of what was asked of it.
        self.asked.retain(|(_, life, _)| *life != node.life);
        drop(node);
        self.look()
    }

    /// The machine that all of them run on loses its power, and with that what was not synced, or half of it.
    pub(super) fn cut_power(&mut self) -> Result<(), String> {
        let unsynced = if self.dice.chance(50) { Unsynced::Lost } else { Unsynced::Half(self.dice.seed()) };
        self.note(format!("the power is cut: {unsynced:?}"));
        self.count("power cuts");
        let Some(left) = self.disk.as_ref().map(|disk| disk.after_power_cut(unsynced)) else { return Ok(()) };
        self.nodes = [const { None }; NODES];
        self.asked.clear();
        self.stopped = None;
        // Before its folder is watched again.
        (self.ledger, self.disk) = (None, None);
        let place = Place { folder: self.folder.path() };
        for end in ["", "-wal", "-shm"] {
            // What was never there, or is gone with who used it last, need not go.
            let _ = std::fs::remove_file(format!("{}{end}", place.database().display()));
        }
        left.write_to(place.folder).map_err(|error| format!("what is left cannot be written: {error}"))?;
        self.disk = Some(watch(&self.folder));
        let mut ledger = Ledger::open(place.folder, &place.database());
        let kept = ledger.read_on();
        self.note(format!("{} changes are left", kept.len()));
        self.rules.begin_again(&kept);
        self.ledger = Some(ledger);
        Ok(())
    }

    /// Time goes on: for who runs, and for who does not.
    pub(super) fn pass_time(&mut self) -> Result<(), String> {
        let by = match self.dice.below(10) {
            0..6 => self.dice.milliseconds(20, 2_000),
            _ => self.dice.milliseconds(2_000, 12_000),
        };
        self.advance(by);
        Ok(())
    }

    /// A daemon stands still in the middle of something, as soon as it holds it where it can, for longer than a lease;
    /// another one goes on with the same, and then it goes on, too.
    pub(super) fn stand_still(&mut self, slot: usize, number: u64) -> Result<(), String> {
        let worker = *self.dice.one_of(&HOLDERS);
        let other = (slot + 1 + self.dice.index(NODES - 1)) % NODES;
        if self.dice.chance(12) {
            return self.ask_two(slot, other);
        }
        // Or all have stood still, and it is the first to look.
        let is_first = self.dice.chance(25);
        if is_first {
            self.pause();
        }
        self.run_until_held(slot, worker)?;
        if !is_first {
            self.pause();
        }
        self.run_until_held(other, worker)?;
        if self.dice.chance(50) {
            // As if nothing had happened.
            self.start(slot, "scheduler.keep");
            let rounds = 1 + self.dice.below(12);
            return self.run(slot, Run::Rounds(rounds));
        }
        let steps = if self.dice.chance(75) { 1 + self.dice.below(4) } else { self.dice.below(20) };
        self.stopped = Some((slot, number + steps));
        Ok(())
    }

    /// Two are asked for a turn, perhaps in one conversation, and the first stands still until the other has answered.
    fn ask_two(&mut self, slot: usize, other: usize) -> Result<(), String> {
        self.ask(slot, A_TURN)?;
        let rounds = 1 + self.dice.below(12);
        self.run(slot, Run::Rounds(rounds))?;
        self.pause();
        self.ask(other, A_TURN)?;
        self.run(other, Run::Idle)?;
        for number in self.world.open() {
            self.give(number, Answer::Success);
        }
        self.run(other, Run::Idle)?;
        self.run(slot, Run::Idle)
    }

    /// Begins a worker where it is not under way.
    fn start(&mut self, slot: usize, worker: &'static str) {
        let Some(node) = self.nodes[slot].as_mut() else { return };
        if node.begin(worker) {
            let life = node.life;
            self.note(format!("life {life} begins {worker}"));
        }
    }

    fn pause(&mut self) {
        self.count("pauses longer than a lease");
        let by = self.dice.milliseconds(31_000, 90_000);
        self.advance(by);
    }

    /// Runs a worker for a while, at most until it has claimed something.
    fn run_until_held(&mut self, slot: usize, worker: &'static str) -> Result<(), String> {
        self.start(slot, worker);
        let Some(life) = self.nodes[slot].as_ref().map(|node| node.life) else { return Ok(()) };
        let claims = self.rules.claims_of(life);
        for _ in 0..=self.dice.below(16) {
            self.run(slot, Run::Rounds(1))?;
            if self.rules.claims_of(life) > claims {
                break;
            }
        }
        Ok(())
    }

    pub(super) fn advance(&mut self, by: Duration) {
        self.note(format!("{by:?} go by"));
        self.elapsed += by;
        for node in self.nodes.iter_mut().flatten() {
            node.elapse(by);
            node.set_clock(self.template.start, self.elapsed);
        }
    }

    /// Somebody sets the clock of a machine, or something does.
    pub(super) fn move_clock(&mut self, slot: usize) -> Result<(), String> {
        let by = self.dice.milliseconds(1_000, 60_000);
        let Some(node) = self.nodes[slot].as_mut() else { return Ok(()) };
        let micros = i64::try_from(by.as_micros()).expect("a minute");
        let is_back = self.dice.chance(50);
        node.ahead = if is_back { node.ahead - micros } else { node.ahead + micros }.clamp(-90_000_000, 90_000_000);
        node.set_clock(self.template.start, self.elapsed);
        let (life, ahead) = (node.life, node.ahead);
        self.note(format!("the clock of life {life} is {ahead} µs ahead now"));
        self.count(if is_back { "clocks set back" } else { "clocks set forward" });
        Ok(())
    }
}

pub(super) fn watch(folder: &TestFolder) -> FaultyDisk {
    FaultyDisk::under(folder.path(), Unsynced::Lost).expect("the folder of a seed")
}
