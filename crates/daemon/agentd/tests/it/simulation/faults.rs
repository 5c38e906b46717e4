//! Injected faults.

use std::time::Duration;

use agentd_testing_store::faults::{FaultyDisk, Unsynced};

use super::ledger::Ledger;
use super::node::{Place, Run};
use super::run::{NODES, Simulation, TURN_REQUEST};
use super::world::Answer;
use crate::support::TestFolder;

/// Workers that hold leases or check state before they act.
const LEASE_WORKERS: [&str; 8] = [
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
    /// Kills a daemon; its memory is lost.
    pub(super) fn kill(&mut self, slot: usize) -> Result<(), String> {
        let Some(node) = self.nodes[slot].take() else { return Ok(()) };
        self.note(format!("life {} was killed", node.life));
        self.count("kills");
        // The results of its open requests remain unknown.
        self.asked.retain(|(_, life, _)| *life != node.life);
        drop(node);
        self.check_changes()
    }

    /// Cuts the power of the machine of all daemons. Unsynced data is lost, completely or by half.
    pub(super) fn cut_power(&mut self) -> Result<(), String> {
        let unsynced = if self.dice.chance(50) { Unsynced::Lost } else { Unsynced::Half(self.dice.seed()) };
        self.note(format!("power cut: {unsynced:?}"));
        self.count("power cuts");
        let Some(left) = self.disk.as_ref().map(|disk| disk.after_power_cut(unsynced)) else { return Ok(()) };
        self.nodes = [const { None }; NODES];
        self.asked.clear();
        self.stopped = None;
        // Closed before the folder is watched again.
        (self.ledger, self.disk) = (None, None);
        let place = Place { folder: self.folder.path() };
        for end in ["", "-wal", "-shm"] {
            // The file may not exist.
            let _ = std::fs::remove_file(format!("{}{end}", place.database().display()));
        }
        left.write_to(place.folder).map_err(|error| format!("cannot write the remaining files: {error}"))?;
        self.disk = Some(watch(&self.folder));
        let mut ledger = Ledger::open(place.folder, &place.database());
        let kept = ledger.read_new_changes();
        self.note(format!("{} changes remain", kept.len()));
        self.rules.reset_to(&kept);
        self.ledger = Some(ledger);
        Ok(())
    }

    /// Advances the time for running and paused daemons.
    pub(super) fn advance_randomly(&mut self) -> Result<(), String> {
        let by = match self.dice.below(10) {
            0..6 => self.dice.milliseconds(20, 2_000),
            _ => self.dice.milliseconds(2_000, 12_000),
        };
        self.advance(by);
        Ok(())
    }

    /// Pauses a daemon for longer than a lease, ideally right after it has claimed something. Another daemon
    /// continues with
    /// the same work, and then the paused one resumes.
    pub(super) fn pause_during_lease(&mut self, slot: usize, number: u64) -> Result<(), String> {
        let worker = *self.dice.one_of(&LEASE_WORKERS);
        let other = (slot + 1 + self.dice.index(NODES - 1)) % NODES;
        if self.dice.chance(12) {
            return self.ask_two(slot, other);
        }
        // Otherwise all daemons were paused, and this one runs first.
        let is_first = self.dice.chance(25);
        if is_first {
            self.pause();
        }
        self.run_until_claimed(slot, worker)?;
        if !is_first {
            self.pause();
        }
        self.run_until_claimed(other, worker)?;
        if self.dice.chance(50) {
            // Resumes as if nothing had happened.
            self.start(slot, "scheduler.keep");
            let rounds = 1 + self.dice.below(12);
            return self.run(slot, Run::Rounds(rounds));
        }
        let steps = if self.dice.chance(75) { 1 + self.dice.below(4) } else { self.dice.below(20) };
        self.stopped = Some((slot, number + steps));
        Ok(())
    }

    /// Requests two turns, possibly in one conversation, and pauses the first daemon until the other has answered.
    fn ask_two(&mut self, slot: usize, other: usize) -> Result<(), String> {
        self.ask(slot, TURN_REQUEST)?;
        let rounds = 1 + self.dice.below(12);
        self.run(slot, Run::Rounds(rounds))?;
        self.pause();
        self.ask(other, TURN_REQUEST)?;
        self.run(other, Run::Idle)?;
        for number in self.world.open() {
            self.send_answer(number, Answer::Success);
        }
        self.run(other, Run::Idle)?;
        self.run(slot, Run::Idle)
    }

    /// Begins a pass of a worker unless one is running.
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
    fn run_until_claimed(&mut self, slot: usize, worker: &'static str) -> Result<(), String> {
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
        self.note(format!("advance {by:?}"));
        self.elapsed += by;
        for node in self.nodes.iter_mut().flatten() {
            node.elapse(by);
            node.set_clock(self.template.start, self.elapsed);
        }
    }

    /// Moves the clock of one machine back or forward.
    pub(super) fn move_clock(&mut self, slot: usize) -> Result<(), String> {
        let by = self.dice.milliseconds(1_000, 60_000);
        let Some(node) = self.nodes[slot].as_mut() else { return Ok(()) };
        let micros = i64::try_from(by.as_micros()).expect("a minute");
        let is_back = self.dice.chance(50);
        node.ahead = if is_back { node.ahead - micros } else { node.ahead + micros }.clamp(-90_000_000, 90_000_000);
        node.set_clock(self.template.start, self.elapsed);
        let (life, ahead) = (node.life, node.ahead);
        self.note(format!("clock of life {life} is {ahead} µs ahead"));
        self.count(if is_back { "clocks set back" } else { "clocks set forward" });
        Ok(())
    }
}

pub(super) fn watch(folder: &TestFolder) -> FaultyDisk {
    FaultyDisk::watch(folder.path(), Unsynced::Lost).expect("the folder of a seed")
}
