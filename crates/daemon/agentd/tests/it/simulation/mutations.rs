//! Mutation tests of the simulation: each removes one safeguard of the daemon, and the simulation must detect it.
//!
//! Statements are altered before they reach SQLite, and tables are altered in the template; regular builds contain none
//! of this. SQLite transactions are serialized, so most unique keys are preceded by a check in the same transaction. A
//! key and its check are removed together, because either one alone is sufficient.

use agentd_store::testing::statements::Alteration;
use agentd_testing_store::postgres_url;

use super::ledger::Ledger;
use super::node::Place;
use super::run::Report;
use super::template::Template;
use super::{TEMPLATE, number, run_seeds};
use crate::support::TestFolder;

/// First seed and number of seeds within which a mutation must be detected.
const SEEDS: (u64, u64) = (1, 500);

/// Table, text to replace, and its replacement.
type Change = (&'static str, &'static str, &'static str);

struct Mutation {
    /// Safeguard that is removed.
    safeguard: &'static str,
    table: Option<Change>,
    statements: &'static [Alteration],
}

const fn without(safeguard: &'static str, statements: &'static [Alteration]) -> Mutation {
    Mutation { safeguard, table: None, statements }
}

const fn without_key(safeguard: &'static str, table: Change, statements: &'static [Alteration]) -> Mutation {
    Mutation { safeguard, table: Some(table), statements }
}

/// Position of the outbox reader of hooks.
const PLACE: Alteration = (
    "SELECT tx_id, seq FROM cursors WHERE consumer = $1",
    "SELECT tx_id, seq FROM cursors WHERE consumer = $1 AND seq < 0",
);

/// Mutations that are detected quickly; they run in every test run.
const QUICK: [Mutation; 7] = [
    without("the sync of a commit", &[("PRAGMA synchronous = FULL", "PRAGMA synchronous = NORMAL")]),
    without(
        "the owner check when extending turns",
        &[(
            "SET lease_until = $1 WHERE status = 'running' AND owner = $2",
            "SET lease_until = $1 WHERE status = 'running'",
        )],
    ),
    without(
        "the lease in the queue",
        &[("status IN ('pending', 'leased') AND due_at <= $2", "status IN ('pending', 'leased')")],
    ),
    without(
        "the lease of hook executions",
        &[("WHERE hook_id = $1 AND due_at <= $2", "WHERE hook_id = $1 AND due_at IS NOT NULL")],
    ),
    without_key(
        "the unique numbers in the log of a turn",
        ("session_events", ",\n    PRIMARY KEY (session_id, seq)\n) WITHOUT ROWID", "\n)"),
        &[],
    ),
    without_key(
        "the unique turn of a conversation, and its check",
        ("sessions", "UNIQUE INDEX sessions_turn", "INDEX sessions_turn"),
        &[(
            "SELECT id FROM sessions WHERE conversation_id = $1 AND status = 'running'",
            "SELECT id FROM sessions WHERE conversation_id = $1 AND status = ''",
        )],
    ),
    without_key(
        "the unique delivery of an event, and the position of the reader",
        ("hook_deliveries", ",\n    UNIQUE (hook_id, event_id)", ""),
        &[("ON CONFLICT (hook_id, event_id) DO NOTHING RETURNING", "RETURNING"), PLACE],
    ),
];

/// Mutations that run only in `make simulation`.
const SLOW: [Mutation; 16] = [
    without("the fence of the queue", &[("status = 'leased' AND owner = $2 AND fence = $3", "status = 'leased'")]),
    without(
        "the fence of delivery results",
        &[("AND hook_deliveries.owner = v.column2 AND hook_deliveries.fence = v.column3", "")],
    ),
    without(
        "the fence of execution results",
        &[("duration_ms = $10 WHERE id = $1 AND owner = $2 AND fence = $3", "duration_ms = $10 WHERE id = $1")],
    ),
    without(
        "the fence of extending executions",
        &[("SET due_at = $4 WHERE id = $1 AND owner = $2 AND fence = $3", "SET due_at = $4 WHERE id = $1")],
    ),
    without(
        "the lease of released deliveries",
        &[("WHERE status = 'processing' AND due_at <= $1 LIMIT", "WHERE status = 'processing' LIMIT")],
    ),
    without("the lease of runs", &[("WHERE r.due_at <= $1", "WHERE r.due_at IS NOT NULL")]),
    without(
        "the fence of beginning a run",
        &[("deadline_at = $5 WHERE id = $1 AND owner = $2 AND fence = $3", "deadline_at = $5 WHERE id = $1")],
    ),
    without("the owner check when extending claims", &[("session_id IS NULL AND owner = $2", "session_id IS NULL")]),
    without(
        "the lease of an abandoned turn",
        &[("FROM sessions WHERE id = $1 AND lease_until = $2", "FROM sessions WHERE id = $1")],
    ),
    without("the end of a named lease", &[("leases.lease_until <= $4", "leases.lease_until <> $4")]),
    without(
        "the fence of a named lease",
        &[(
            "SET lease_until = $4 WHERE name = $1 AND owner = $2 AND fence = $3",
            "SET lease_until = $4 WHERE name = $1",
        )],
    ),
    without_key(
        "the unique cause of a proactive turn",
        ("proactive_turns", ",\n    UNIQUE (cause, cause_id)", ""),
        &[],
    ),
    without_key(
        "the unique ordinal of a proactive turn, and the count of its day",
        ("proactive_turns", "UNIQUE (agent_id, day, ordinal),\n    ", ""),
        &[(
            "COUNT(*) FROM proactive_turns WHERE agent_id = $1 AND day = $2",
            "0 FROM agents WHERE id = $1 AND $2 <> ''",
        )],
    ),
    without_key(
        "the unique execution of an event, and the position of the reader",
        ("hook_executions", ",\n    UNIQUE (hook_id, event_id)", ""),
        &[("0, $7, 0, $7, $7, $8) ON CONFLICT (hook_id, event_id) DO NOTHING", "0, $7, 0, $7, $7, $8)"), PLACE],
    ),
    without_key(
        "the unique position of a message, and the revision of its conversation",
        ("messages", ",\n    UNIQUE (conversation_id, position)", ""),
        &[("WHERE id = $1 AND revision = $2", "WHERE id = $1 AND revision >= $2")],
    ),
    without_key(
        "the unique run of a slot, and the advance of jobs",
        ("job_runs", ",\n    UNIQUE (job_id, scheduled_for)", ""),
        &[
            ("ON CONFLICT (job_id, scheduled_for) DO NOTHING", ""),
            ("SET counted_from = v.column2, next_run_at = v.column3", "SET counted_from = counted_from"),
        ],
    ),
];

/// Returns the template with an altered table.
fn changed(template: &Template, (table, part, other): Change) -> Template {
    let folder = TestFolder::create();
    let place = Place { folder: folder.path() };
    std::fs::write(place.database(), &template.database).expect("a database");
    let ledger = Ledger::open(folder.path(), &place.database());
    // The table first, then its indexes and triggers, which are dropped with it.
    let sql = "SELECT sql FROM sqlite_schema WHERE tbl_name = $1 AND sql IS NOT NULL ORDER BY type <> 'table'";
    let rows = ledger.rows(sql, agentd_store::args![table]);
    let made: Vec<String> = rows.iter().map(|row| row.get("sql").expect("a statement")).collect();
    assert!(made.iter().any(|statement| statement.contains(part)), "{table} has no `{part}`");
    let mut changes = vec![format!("CREATE TABLE kept AS SELECT * FROM {table}"), format!("DROP TABLE {table}")];
    for (number, statement) in made.iter().enumerate() {
        changes.push(statement.replace(part, other));
        if number == 0 {
            changes.extend([format!("INSERT INTO {table} SELECT * FROM kept"), "DROP TABLE kept".to_owned()]);
        }
    }
    ledger.change(changes);
    drop(ledger);
    Template { database: std::fs::read(place.database()).expect("a database"), ..template.clone() }
}

#[test]
fn removed_safeguards_are_detected() {
    if postgres_url().is_some() || number("SEED").is_some() {
        return;
    }
    let is_long = number("SEEDS").is_some();
    let more = SLOW.iter().filter(|_| is_long);
    let mut undetected = Vec::new();
    for Mutation { safeguard, table, statements } in QUICK.iter().chain(more) {
        let template = table.map(|change| changed(&TEMPLATE, change));
        let sum = run_seeds(template.as_ref().unwrap_or(&TEMPLATE), SEEDS, statements, true);
        match sum.violations.iter().min_by_key(|report| report.seed) {
            Some(Report { seed, violation, .. }) => {
                let violation = violation.as_deref().unwrap_or_default();
                println!("| {safeguard} | {seed} | {} |", violation.split(": ").next().unwrap_or_default());
            }
            None => undetected.push(format!("{safeguard}: not detected within {} seeds", sum.seeds)),
        }
    }
    assert!(undetected.is_empty(), "{}", undetected.join("\n"));
}
