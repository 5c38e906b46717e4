//! What the simulation is worth: parts of the daemon are taken away, one at a time, and it must notice.
//!
//! Statements are altered where they reach SQLite, and the tables where the seeds begin; nothing of it is in a daemon
//! that was not built for tests.

use agentd_store::testing::postgres_url;
use agentd_store::testing::statements::Alteration;

use super::ledger::Ledger;
use super::node::Place;
use super::run::Report;
use super::template::Template;
use super::{TEMPLATE, number, run_seeds};
use crate::support::TestFolder;

/// It must be noticed within so many, which are always the same.
const SEEDS: (u64, u64) = (1, 500);
/// So many of the first are tried in a run of the tests, which notices them at once; all in `make simulation`.
const A_FEW: usize = 3;

struct Mutation {
    /// What is taken away.
    what: &'static str,
    /// A table, and what of its schema is replaced by what.
    schema: Option<(&'static str, &'static str, &'static str)>,
    statement: Option<Alteration>,
}

const fn statement(what: &'static str, part: &'static str, other: &'static str) -> Mutation {
    Mutation { what, schema: None, statement: Some((part, other)) }
}

const fn key(what: &'static str, table: &'static str, part: &'static str, other: &'static str) -> Mutation {
    Mutation { what, schema: Some((table, part, other)), statement: None }
}

/// Fences: who has lost what it holds changes nothing of it.
const FENCES: [Mutation; 12] = [
    statement(
        "the owner of the turns that are kept",
        "SET lease_until = $1 WHERE status = 'running' AND owner = $2",
        "SET lease_until = $1 WHERE status = 'running'",
    ),
    statement(
        "the lease in the queue",
        "status IN ('pending', 'leased') AND due_at <= $2",
        "status IN ('pending', 'leased')",
    ),
    statement(
        "the lease of what hooks do",
        "WHERE hook_id = $1 AND due_at <= $2",
        "WHERE hook_id = $1 AND due_at IS NOT NULL",
    ),
    statement("the fence of the queue", "status = 'leased' AND owner = $2 AND fence = $3", "status = 'leased'"),
    statement(
        "the fence of what deliveries came to",
        "AND hook_deliveries.owner = v.column2 AND hook_deliveries.fence = v.column3",
        "",
    ),
    statement(
        "the fence of what executions came to",
        "duration_ms = $10 WHERE id = $1 AND owner = $2 AND fence = $3",
        "duration_ms = $10 WHERE id = $1",
    ),
    statement(
        "the fence of keeping what hooks do",
        "SET due_at = $4 WHERE id = $1 AND owner = $2 AND fence = $3",
        "SET due_at = $4 WHERE id = $1",
    ),
    statement(
        "the fence of beginning a run",
        "deadline_at = $5 WHERE id = $1 AND owner = $2 AND fence = $3",
        "deadline_at = $5 WHERE id = $1",
    ),
    statement(
        "the owner of the claims that are kept",
        "due_at IS NOT NULL AND status = 'running' AND owner = $1",
        "due_at IS NOT NULL AND status = 'running'",
    ),
    statement(
        "the lease of a turn that is given up",
        "FROM sessions WHERE id = $1 AND lease_until = $2",
        "FROM sessions WHERE id = $1",
    ),
    statement("the lease of runs", "WHERE r.due_at <= $1", "WHERE r.due_at IS NOT NULL"),
    statement(
        "the end of a turn that is over",
        "completed_at = $5 WHERE id = $1 AND owner = $2 AND status = 'running'",
        "completed_at = $5 WHERE id = $1 AND owner = $2",
    ),
];

const KEYS: [Mutation; 6] = [
    key("the unique turn of a conversation", "sessions", "UNIQUE INDEX sessions_turn", "INDEX sessions_turn"),
    key(
        "the unique events of a turn",
        "session_events",
        ",\n    PRIMARY KEY (session_id, seq)\n) WITHOUT ROWID",
        "\n)",
    ),
    Mutation {
        what: "the unique delivery of an event",
        schema: Some(("hook_deliveries", ",\n    UNIQUE (hook_id, event_id)", "")),
        statement: Some(("ON CONFLICT (hook_id, event_id) DO NOTHING RETURNING status", "RETURNING status")),
    },
    Mutation {
        what: "the unique execution of an event",
        schema: Some(("hook_executions", ",\n    UNIQUE (hook_id, event_id)", "")),
        statement: Some(("ON CONFLICT (hook_id, event_id) DO NOTHING", "")),
    },
    Mutation {
        what: "the unique run of a slot",
        schema: Some(("job_runs", ",\n    UNIQUE (job_id, scheduled_for)", "")),
        statement: Some(("ON CONFLICT (job_id, scheduled_for) DO NOTHING", "")),
    },
    Mutation {
        what: "the unique key of a notification",
        schema: Some(("notifications", "idempotency_key TEXT UNIQUE", "idempotency_key TEXT")),
        statement: Some(("ON CONFLICT (idempotency_key) DO NOTHING", "")),
    },
];

const SYNCS: [Mutation; 1] =
    [statement("the sync of a commit", "PRAGMA synchronous = FULL", "PRAGMA synchronous = NORMAL")];

/// The template, with a table whose schema is another one.
fn changed(template: &Template, (table, part, other): (&str, &str, &str)) -> Template {
    let folder = TestFolder::create();
    let place = Place { folder: folder.path() };
    std::fs::write(place.database(), &template.database).expect("a database");
    let ledger = Ledger::open(folder.path(), &place.database());
    // The table first, then its indexes and triggers, which go with it.
    let sql = "SELECT sql FROM sqlite_schema WHERE tbl_name = $1 AND sql IS NOT NULL ORDER BY type <> 'table'";
    let rows = ledger.rows(sql, agentd_store::args![table]);
    let made: Vec<String> = rows.iter().map(|row| row.get("sql").expect("a statement")).collect();
    assert!(made.iter().any(|statement| statement.contains(part)), "{table} has no `{part}`");
    let again = made.iter().map(|statement| statement.replace(part, other));
    ledger.change(std::iter::once(format!("DROP TABLE {table}")).chain(again).collect());
    drop(ledger);
    Template { database: std::fs::read(place.database()).expect("a database"), ..template.clone() }
}

#[test]
fn what_is_taken_away_is_missed() {
    if postgres_url().is_some() || number("SEED").is_some() {
        return;
    }
    let all: Vec<&Mutation> = FENCES.iter().chain(&KEYS).chain(&SYNCS).collect();
    let is_long = number("SEEDS").is_some();
    let count = if is_long { all.len() } else { A_FEW };
    let mut unnoticed = Vec::new();
    for Mutation { what, schema, statement } in all.iter().take(count) {
        let template = schema.map(|schema| changed(&TEMPLATE, schema));
        let sum = run_seeds(template.as_ref().unwrap_or(&TEMPLATE), SEEDS, *statement, true);
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
