//! What the simulation is worth: parts of the daemon are taken away, one at a time, and it must notice.
//!
//! Statements are altered where they reach SQLite, and tables where the seeds begin; nothing of it is in a daemon that
//! was not built for tests. Transactions of SQLite go one after the other, so that most unique keys stand behind a look
//! in the same transaction: those are taken away together, for either alone holds.

use agentd_store::testing::statements::Alteration;
use agentd_testing_store::postgres_url;

use super::ledger::Ledger;
use super::node::Place;
use super::run::Report;
use super::template::Template;
use super::{TEMPLATE, number, run_seeds};
use crate::support::TestFolder;

/// It must be noticed within so many, which are always the same.
const SEEDS: (u64, u64) = (1, 500);

/// A table, and what of it is replaced by what.
type Change = (&'static str, &'static str, &'static str);

struct Mutation {
    /// What is taken away.
    what: &'static str,
    table: Option<Change>,
    statements: &'static [Alteration],
}

const fn without(what: &'static str, statements: &'static [Alteration]) -> Mutation {
    Mutation { what, table: None, statements }
}

const fn without_key(what: &'static str, table: Change, statements: &'static [Alteration]) -> Mutation {
    Mutation { what, table: Some(table), statements }
}

/// Where hooks have read to.
const PLACE: Alteration = (
    "SELECT tx_id, seq FROM cursors WHERE consumer = $1",
    "SELECT tx_id, seq FROM cursors WHERE consumer = $1 AND seq < 0",
);

/// Noticed at once: these are tried in every run of the tests.
const QUICK: [Mutation; 7] = [
    without("the sync of a commit", &[("PRAGMA synchronous = FULL", "PRAGMA synchronous = NORMAL")]),
    without(
        "the owner of the turns that are kept",
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
        "the lease of what hooks do",
        &[("WHERE hook_id = $1 AND due_at <= $2", "WHERE hook_id = $1 AND due_at IS NOT NULL")],
    ),
    without_key(
        "the unique numbers in the log of a turn",
        ("session_events", ",\n    PRIMARY KEY (session_id, seq)\n) WITHOUT ROWID", "\n)"),
        &[],
    ),
    without_key(
        "the unique turn of a conversation, and the look at it",
        ("sessions", "UNIQUE INDEX sessions_turn", "INDEX sessions_turn"),
        &[(
            "SELECT id FROM sessions WHERE conversation_id = $1 AND status = 'running'",
            "SELECT id FROM sessions WHERE conversation_id = $1 AND status = ''",
        )],
    ),
    without_key(
        "the unique delivery of an event, and the place of the reader",
        ("hook_deliveries", ",\n    UNIQUE (hook_id, event_id)", ""),
        &[("ON CONFLICT (hook_id, event_id) DO NOTHING RETURNING", "RETURNING"), PLACE],
    ),
];

/// Tried in `make simulation`.
const SLOW: [Mutation; 16] = [
    without("the fence of the queue", &[("status = 'leased' AND owner = $2 AND fence = $3", "status = 'leased'")]),
    without(
        "the fence of what deliveries came to",
        &[("AND hook_deliveries.owner = v.column2 AND hook_deliveries.fence = v.column3", "")],
    ),
    without(
        "the fence of what executions came to",
        &[("duration_ms = $10 WHERE id = $1 AND owner = $2 AND fence = $3", "duration_ms = $10 WHERE id = $1")],
    ),
    without(
        "the fence of keeping what hooks do",
        &[("SET due_at = $4 WHERE id = $1 AND owner = $2 AND fence = $3", "SET due_at = $4 WHERE id = $1")],
    ),
    without(
        "the lease of deliveries that are given back",
        &[("WHERE status = 'processing' AND due_at <= $1 LIMIT", "WHERE status = 'processing' LIMIT")],
    ),
    without("the lease of runs", &[("WHERE r.due_at <= $1", "WHERE r.due_at IS NOT NULL")]),
    without(
        "the fence of beginning a run",
        &[("deadline_at = $5 WHERE id = $1 AND owner = $2 AND fence = $3", "deadline_at = $5 WHERE id = $1")],
    ),
    without("the owner of the claims that are kept", &[("session_id IS NULL AND owner = $2", "session_id IS NULL")]),
    without(
        "the lease of a turn that is given up",
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
        "the unique execution of an event, and the place of the reader",
        ("hook_executions", ",\n    UNIQUE (hook_id, event_id)", ""),
        &[("0, $7, 0, $7, $7, $8) ON CONFLICT (hook_id, event_id) DO NOTHING", "0, $7, 0, $7, $7, $8)"), PLACE],
    ),
    without_key(
        "the unique place of a message, and the revision of its conversation",
        ("messages", ",\n    UNIQUE (conversation_id, position)", ""),
        &[("WHERE id = $1 AND revision = $2", "WHERE id = $1 AND revision >= $2")],
    ),
    without_key(
        "the unique run of a slot, and that jobs go on",
        ("job_runs", ",\n    UNIQUE (job_id, scheduled_for)", ""),
        &[
            ("ON CONFLICT (job_id, scheduled_for) DO NOTHING", ""),
            ("SET counted_from = v.column2, next_run_at = v.column3", "SET counted_from = counted_from"),
        ],
    ),
];

/// The template, with a table that is another one.
fn changed(template: &Template, (table, part, other): Change) -> Template {
    let folder = TestFolder::create();
    let place = Place { folder: folder.path() };
    std::fs::write(place.database(), &template.database).expect("a database");
    let ledger = Ledger::open(folder.path(), &place.database());
    // The table first, then its indexes and triggers, which go with it.
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
fn what_is_taken_away_is_missed() {
    if postgres_url().is_some() || number("SEED").is_some() {
        return;
    }
    let is_long = number("SEEDS").is_some();
    let more = SLOW.iter().filter(|_| is_long);
    let mut unnoticed = Vec::new();
    for Mutation { what, table, statements } in QUICK.iter().chain(more) {
        let template = table.map(|change| changed(&TEMPLATE, change));
        let sum = run_seeds(template.as_ref().unwrap_or(&TEMPLATE), SEEDS, statements, true);
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
