//! What the simulation is worth: parts of the daemon are taken away, one at a time, and it must notice.
//!
//! Statements are altered where they reach SQLite; nothing of it is in a daemon that was not built for tests.

use agentd_store::testing::postgres_url;
use agentd_store::testing::statements::Alteration;

use super::run::Report;
use super::{TEMPLATE, number, run_seeds};

/// It must be noticed within so many, which are always the same.
const SEEDS: (u64, u64) = (1, 500);
/// So many of the first are tried in a run of the tests, which notices them at once; all in `make simulation`.
const A_FEW: usize = 4;

/// What is taken away, and how a statement is altered for it.
const MUTATIONS: [(&str, Alteration); 6] = [
    ("the sync of a commit", ("PRAGMA synchronous = FULL", "PRAGMA synchronous = NORMAL")),
    (
        "the owner of the turns that are kept",
        (
            "SET lease_until = $1 WHERE status = 'running' AND owner = $2",
            "SET lease_until = $1 WHERE status = 'running'",
        ),
    ),
    ("the lease in the queue", ("status IN ('pending', 'leased') AND due_at <= $2", "status IN ('pending', 'leased')")),
    (
        "the lease of what hooks do",
        ("WHERE hook_id = $1 AND due_at <= $2", "WHERE hook_id = $1 AND due_at IS NOT NULL"),
    ),
    ("the fence of the queue", ("status = 'leased' AND owner = $2 AND fence = $3", "status = 'leased'")),
    (
        "the fence of what deliveries came to",
        ("AND hook_deliveries.owner = v.column2 AND hook_deliveries.fence = v.column3", ""),
    ),
];

#[test]
fn what_is_taken_away_is_missed() {
    if postgres_url().is_some() || number("SEED").is_some() {
        return;
    }
    let count = if number("SEEDS").is_some() { MUTATIONS.len() } else { A_FEW };
    let mut unnoticed = Vec::new();
    for (what, altered) in MUTATIONS.iter().take(count) {
        let sum = run_seeds(&TEMPLATE, SEEDS, Some(*altered), true);
        match sum.violations.iter().min_by_key(|report| report.seed) {
            Some(Report { seed, violation, .. }) => {
                let violation = violation.as_deref().unwrap_or_default();
                println!("| {what} | {seed} | {} |", violation.split(": ").next().unwrap_or_default());
            }
            None => unnoticed.push(format!("{what}: nobody missed it within {} seeds", sum.seeds)),
        }
    }
    assert!(unnoticed.is_empty(), "{}", unnoticed.join("\n"));
}
