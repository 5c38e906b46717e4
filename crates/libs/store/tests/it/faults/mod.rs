//! Disk faults below SQLite at each step of a load, and PostgreSQL connections that break or hang: no acknowledged
//! write is lost or applied twice, and the store recovers by itself.
//!
//! Regular test runs sample the steps; `make faults` tries them all, with `AGENTD_TEST_FAULTS=all`.

mod check;
mod load;
mod opening;
mod postgres;
mod run;

use agentd_testing_store::faults::{Fault, FaultKind, Unsynced};

use self::run::{Outcome, Run};

const ALL: &str = "AGENTD_TEST_FAULTS";
/// Number of steps that are all tried; later ones are sampled.
const EXHAUSTIVE_STEPS: u64 = 400;
const SAMPLED_STEPS: u64 = 100;

fn tries_all() -> bool {
    std::env::var(ALL).is_ok_and(|all| all == "all")
}

/// Selects the steps to try. Steps after the first hundreds are sampled by the seed.
fn steps(count: u64, a_few: u64, seed: u64) -> Vec<u64> {
    if tries_all() {
        let dice = agentd_base::Entropy::seeded(seed);
        let behind = count.saturating_sub(EXHAUSTIVE_STEPS);
        let sampled = (0..SAMPLED_STEPS.min(behind)).map(|_| EXHAUSTIVE_STEPS + 1 + below(&dice, behind));
        return (1..=count.min(EXHAUSTIVE_STEPS)).chain(sampled).collect();
    }
    spread(count, a_few, seed)
}

/// Selects `number` steps, one from each interval.
fn spread(count: u64, number: u64, seed: u64) -> Vec<u64> {
    let dice = agentd_base::Entropy::seeded(seed);
    let stride = (count / number).max(1);
    (0..number.min(count)).map(|index| (1 + index * stride + below(&dice, stride)).min(count)).collect()
}

fn below(dice: &agentd_base::Entropy, bound: u64) -> u64 {
    u64::from_le_bytes(dice.bytes()) % bound.max(1)
}

/// Chosen for each run and printed, so that a failure can be reproduced: `AGENTD_TEST_FAULTS_SEED=…`.
fn seed() -> u64 {
    let given = std::env::var("AGENTD_TEST_FAULTS_SEED").ok().and_then(|seed| seed.parse().ok());
    given.unwrap_or_else(|| u64::from(u32::from_le_bytes(agentd_base::Entropy::system().bytes())))
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

/// Injects a kind of fault at steps of the load, prints a table row, and fails with all violations.
fn try_at_steps(kind: FaultKind, times: u64, a_few: u64) {
    let seed = seed();
    let runtime = runtime();
    let clean = runtime.block_on(Run::new(None, seed).execute());
    assert_eq!(clean.violations, Vec::<String>::new(), "without a fault");
    let count = clean.operations.matching(kind);
    assert!(count > 20, "the load meets {kind:?} at {count} steps");
    let (mut tried, mut injected, mut violations) = (0, 0, Vec::new());
    let mut attempt = |first: u64, failed_syncs: Unsynced, writes_much: bool| {
        let fault = Fault { kind, first, times };
        let run = Run { failed_syncs, writes_much, ..Run::new(Some(fault), seed.wrapping_add(first)) };
        let Outcome { violations: found, injected: struck, .. } = runtime.block_on(run.execute());
        tried += 1;
        injected += struck;
        violations.extend(found.into_iter().map(|found| format!("{kind:?} at {first} ({failed_syncs:?}): {found}")));
    };
    for first in steps(count, a_few, seed) {
        attempt(first, Unsynced::Lost, false);
        if kind == FaultKind::SyncError {
            // Half of the data of a failed sync reaches the disk.
            attempt(first, Unsynced::Half(seed.wrapping_add(first)), false);
        }
    }
    // During a concurrent checkpoint.
    let much = Run { writes_much: true, ..Run::new(None, seed) };
    let count_of_much = runtime.block_on(much.execute()).operations.matching(kind);
    let most = if tries_all() { SAMPLED_STEPS } else { 1 };
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
fn power_cut_loses_no_acknowledged_write() {
    try_at_steps(FaultKind::PowerCut, 1, 24);
}

#[test]
fn failed_writes_lose_nothing_and_recover() {
    try_at_steps(FaultKind::WriteError, 1, 8);
    try_at_steps(FaultKind::WriteError, UNTIL_CLEARED, 5);
}

#[test]
fn short_writes_lose_nothing_and_recover() {
    try_at_steps(FaultKind::ShortWrite, 1, 6);
}

#[test]
fn full_disk_loses_nothing_and_recovers() {
    try_at_steps(FaultKind::NoSpace, 1, 4);
    try_at_steps(FaultKind::NoSpace, UNTIL_CLEARED, 6);
}

#[test]
fn failed_reads_lose_nothing_and_recover() {
    try_at_steps(FaultKind::ReadError, 1, 8);
    try_at_steps(FaultKind::ReadError, UNTIL_CLEARED, 4);
}

#[test]
fn failed_syncs_lose_nothing_and_recover() {
    try_at_steps(FaultKind::SyncError, 1, 14);
    try_at_steps(FaultKind::SyncError, UNTIL_CLEARED, 6);
}

fn detects_loss(runtime: &tokio::runtime::Runtime, run: &Run) -> bool {
    let found = runtime.block_on(run.execute()).violations;
    found.iter().any(|found| found.contains("was acknowledged and is gone"))
}

/// A check that cannot fail would prove nothing.
#[test]
fn check_detects_omitted_syncs() {
    let (runtime, seed) = (runtime(), seed());
    let fault = Fault { kind: FaultKind::NoSync, first: 1, times: UNTIL_CLEARED };
    assert!(detects_loss(&runtime, &Run::new(Some(fault), seed)), "seed {seed}");
}

#[test]
fn check_detects_responses_before_the_commit() {
    let (runtime, seed) = (runtime(), seed());
    let count = runtime.block_on(Run::new(None, seed).execute()).operations.writes;
    let is_seen = (1..=count).step_by(7).any(|first| {
        let fault = Fault { kind: FaultKind::PowerCut, first, times: 1 };
        detects_loss(&runtime, &Run { answers_before_commit: true, ..Run::new(Some(fault), seed) })
    });
    assert!(is_seen, "seed {seed}");
}

/// Commits behind a gap in the log are lost in a power failure.
#[test]
fn check_detects_a_log_not_rewritten_after_a_failed_sync() {
    let (runtime, seed) = (runtime(), seed());
    let count = runtime.block_on(Run::new(None, seed).execute()).operations.syncs;
    let is_seen = (1..=count).rev().any(|first| {
        let fault = Fault { kind: FaultKind::SyncError, first, times: 1 };
        detects_loss(&runtime, &Run { ignores_rewriting: true, ..Run::new(Some(fault), seed) })
    });
    assert!(is_seen, "seed {seed}");
}
