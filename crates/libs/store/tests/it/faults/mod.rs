//! A disk that fails below SQLite, at each step of a load, and connections to PostgreSQL that break or hang: nothing
//! acknowledged is lost, nothing is done twice, and the store is ready again by itself.
//!
//! A part of the steps is tried each time; `make faults` tries them all, with `AGENTD_TEST_FAULTS=all`.

mod check;
mod load;
mod opening;
mod postgres;
mod run;

use agentd_testing_store::faults::{Fault, FaultKind, Unsynced};

use self::run::{Outcome, Run};

const ALL: &str = "AGENTD_TEST_FAULTS";
/// Steps that are tried one by one when all are; of those behind, some.
const EACH_UP_TO: u64 = 400;
const SOME_BEHIND: u64 = 100;

fn tries_all() -> bool {
    std::env::var(ALL).is_ok_and(|all| all == "all")
}

/// Which steps to try of those that there are. What comes after the first hundreds is sampled by the seed.
fn steps(count: u64, a_few: u64, seed: u64) -> Vec<u64> {
    if tries_all() {
        let dice = agentd_base::Entropy::seeded(seed);
        let behind = count.saturating_sub(EACH_UP_TO);
        let sampled = (0..SOME_BEHIND.min(behind)).map(|_| EACH_UP_TO + 1 + below(&dice, behind));
        return (1..=count.min(EACH_UP_TO)).chain(sampled).collect();
    }
    spread(count, a_few, seed)
}

/// So many of the steps, one of each stretch.
fn spread(count: u64, number: u64, seed: u64) -> Vec<u64> {
    let dice = agentd_base::Entropy::seeded(seed);
    let stride = (count / number).max(1);
    (0..number.min(count)).map(|place| (1 + place * stride + below(&dice, stride)).min(count)).collect()
}

fn below(dice: &agentd_base::Entropy, bound: u64) -> u64 {
    u64::from_le_bytes(dice.bytes()) % bound.max(1)
}

/// New for each run of the tests, and printed, so that a failing one can be repeated: `AGENTD_TEST_FAULTS_SEED=…`.
fn seed() -> u64 {
    let given = std::env::var("AGENTD_TEST_FAULTS_SEED").ok().and_then(|seed| seed.parse().ok());
    given.unwrap_or_else(|| u64::from(u32::from_le_bytes(agentd_base::Entropy::system().bytes())))
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

/// Tries a kind of fault at steps of the load; prints a line of the table, and fails with all that was violated.
fn try_at_steps(kind: FaultKind, times: u64, a_few: u64) {
    let seed = seed();
    let runtime = runtime();
    let clean = runtime.block_on(Run::new(None, seed).carry_out());
    assert_eq!(clean.violations, Vec::<String>::new(), "without a fault");
    let count = clean.operations.that_meet(kind);
    assert!(count > 20, "the load meets {kind:?} at {count} steps");
    let (mut tried, mut injected, mut violations) = (0, 0, Vec::new());
    let mut attempt = |first: u64, failed_syncs: Unsynced, writes_much: bool| {
        let fault = Fault { kind, first, times };
        let run = Run { failed_syncs, writes_much, ..Run::new(Some(fault), seed.wrapping_add(first)) };
        let Outcome { violations: found, injected: struck, .. } = runtime.block_on(run.carry_out());
        tried += 1;
        injected += struck;
        violations.extend(found.into_iter().map(|found| format!("{kind:?} at {first} ({failed_syncs:?}): {found}")));
    };
    for first in steps(count, a_few, seed) {
        attempt(first, Unsynced::Lost, false);
        if kind == FaultKind::SyncError {
            // Half of what a failed sync was to write gets to the disk.
            attempt(first, Unsynced::Half(seed.wrapping_add(first)), false);
        }
    }
    // While the log is copied back beside the commits.
    let much = Run { writes_much: true, ..Run::new(None, seed) };
    let count_of_much = runtime.block_on(much.carry_out()).operations.that_meet(kind);
    let most = if tries_all() { SOME_BEHIND } else { 1 };
    for first in steps(count_of_much, 2, seed).into_iter().rev().take(usize::try_from(most).unwrap()) {
        attempt(first, Unsynced::Lost, true);
    }
    println!(
        "| {kind:?} | {} | {count} | {tried} | {injected} | {} | {seed} |",
        if times == 1 { "once" } else { "until cleared" },
        violations.len()
    );
    assert!(violations.is_empty(), "seed {seed}:\n{}", violations.join("\n"));
    assert!(injected > 0);
}

const UNTIL_CLEARED: u64 = u64::MAX;

#[test]
fn a_power_cut_loses_nothing_that_was_acknowledged() {
    try_at_steps(FaultKind::PowerCut, 1, 24);
}

#[test]
fn writes_that_fail_lose_nothing_and_end_by_themselves() {
    try_at_steps(FaultKind::WriteError, 1, 8);
    try_at_steps(FaultKind::WriteError, UNTIL_CLEARED, 5);
}

#[test]
fn short_writes_lose_nothing_and_end_by_themselves() {
    try_at_steps(FaultKind::ShortWrite, 1, 6);
}

#[test]
fn a_full_disk_loses_nothing_and_ends_by_itself() {
    try_at_steps(FaultKind::NoSpace, 1, 4);
    try_at_steps(FaultKind::NoSpace, UNTIL_CLEARED, 6);
}

#[test]
fn reads_that_fail_lose_nothing_and_end_by_themselves() {
    try_at_steps(FaultKind::ReadError, 1, 8);
    try_at_steps(FaultKind::ReadError, UNTIL_CLEARED, 4);
}

#[test]
fn syncs_that_fail_lose_nothing_and_end_by_themselves() {
    try_at_steps(FaultKind::SyncError, 1, 14);
    try_at_steps(FaultKind::SyncError, UNTIL_CLEARED, 6);
}

fn sees_a_loss(runtime: &tokio::runtime::Runtime, run: &Run) -> bool {
    let found = runtime.block_on(run.carry_out()).violations;
    found.iter().any(|found| found.contains("was acknowledged and is gone"))
}

/// A check that could not fail would be none.
#[test]
fn the_check_sees_syncs_that_are_left_out() {
    let (runtime, seed) = (runtime(), seed());
    let fault = Fault { kind: FaultKind::NoSync, first: 1, times: UNTIL_CLEARED };
    assert!(sees_a_loss(&runtime, &Run::new(Some(fault), seed)), "seed {seed}");
}

#[test]
fn the_check_sees_answers_before_the_commit() {
    let (runtime, seed) = (runtime(), seed());
    let count = runtime.block_on(Run::new(None, seed).carry_out()).operations.writes;
    let is_seen = (1..=count).step_by(7).any(|first| {
        let fault = Fault { kind: FaultKind::PowerCut, first, times: 1 };
        sees_a_loss(&runtime, &Run { answers_before_commit: true, ..Run::new(Some(fault), seed) })
    });
    assert!(is_seen, "seed {seed}");
}

/// What was committed behind a gap in the log is lost with the power.
#[test]
fn the_check_sees_a_log_that_is_not_written_again_after_a_failed_sync() {
    let (runtime, seed) = (runtime(), seed());
    let count = runtime.block_on(Run::new(None, seed).carry_out()).operations.syncs;
    let is_seen = (1..=count).rev().any(|first| {
        let fault = Fault { kind: FaultKind::SyncError, first, times: 1 };
        sees_a_loss(&runtime, &Run { ignores_rewriting: true, ..Run::new(Some(fault), seed) })
    });
    assert!(is_seen, "seed {seed}");
}
