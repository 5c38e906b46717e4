//! Invariants that must hold after every fault.

use std::collections::BTreeSet;

use agentd_store::{Db, Dialect, Read, StoreError, args};

use super::load::{CONSUMER, CREDENTIAL, Ledger, PARTS, QUEUE, write_again};

/// Event that precedes the check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum After {
    /// Writes of the relaxed class survive it.
    Kill,
    PowerCut,
}

async fn names(read: &mut Read, sql: &str) -> Result<BTreeSet<String>, StoreError> {
    read.fetch_all(sql.to_owned(), args![]).await?.iter().map(|row| row.first::<String>()).collect()
}

async fn number(read: &mut Read, sql: String) -> Result<i64, StoreError> {
    read.fetch_one(sql, args![]).await?.first()
}

/// Checks a freshly opened database and returns the violations.
pub(super) async fn check(db: &Db, ledger: &Ledger, after: After) -> Result<Vec<String>, StoreError> {
    let mut read = db.read().await?;
    let mut wrong = Vec::new();
    let checks: &[&str] = match db.dialect() {
        Dialect::Sqlite => &["PRAGMA integrity_check", "PRAGMA foreign_key_check"],
        Dialect::Postgres => &[],
    };
    for check in checks {
        for row in read.fetch_all(*check, args![]).await? {
            let result: String = row.first()?;
            if result != "ok" {
                wrong.push(format!("{check}: {result}"));
            }
        }
    }
    let there = names(&mut read, "SELECT DISTINCT write_key FROM parts WHERE write_key <> 'large'").await?;
    for key in &there {
        if !ledger.asked.contains(key) {
            wrong.push(format!("{key} was taken back and is there"));
        }
        let counted = number(&mut read, counts(key)).await?;
        if counted != PARTS * 1_000 + 111 {
            wrong.push(format!("{key} is not whole, or there twice: {counted} as parts, events, items, answers"));
        }
    }
    for (what, sql) in [
        ("events", "SELECT COUNT(*) FROM outbox".to_owned()),
        ("items", "SELECT COUNT(*) FROM queue".to_owned()),
        ("answers", format!("SELECT COUNT(*) FROM idempotency WHERE credential = '{CREDENTIAL}'")),
    ] {
        let counted = number(&mut read, sql).await?;
        if usize::try_from(counted) != Ok(there.len()) {
            wrong.push(format!("{counted} {what} for {} writes", there.len()));
        }
    }
    let gone = |kind: &str, acknowledged: &BTreeSet<String>, there: &BTreeSet<String>| -> Vec<String> {
        acknowledged.difference(there).map(|name| format!("{kind} {name} was acknowledged and is gone")).collect()
    };
    wrong.extend(gone("write", &ledger.written, &there));
    if after == After::Kill {
        wrong.extend(gone("token", &ledger.tokens, &names(&mut read, "SELECT token FROM tokens").await?));
    }

    let heard = names(&mut read, "SELECT event FROM heard").await?;
    wrong.extend(gone("event", &ledger.heard, &heard));
    let behind = format!(
        "SELECT id FROM outbox WHERE (tx_id, seq) <= (SELECT tx_id, seq FROM cursors WHERE consumer = '{CONSUMER}')"
    );
    if heard != names(&mut read, &behind).await? {
        wrong.push("the cursor and what was heard are not of one state".to_owned());
    }
    let finished = names(&mut read, "SELECT item FROM finished").await?;
    wrong.extend(gone("item", &ledger.finished, &finished));
    if finished
        != names(&mut read, &format!("SELECT id FROM queue WHERE queue = '{QUEUE}' AND status = 'done'")).await?
    {
        wrong.push("what is done and what came of it are not of one state".to_owned());
    }
    Ok(wrong)
}

/// Condenses the expected rows to one number: thousands of parts, hundreds of events, tens of items, answers.
fn counts(key: &str) -> String {
    format!(
        "SELECT (SELECT COUNT(*) FROM parts WHERE write_key = '{key}') * 1000 \
         + (SELECT COUNT(*) FROM outbox WHERE data = '{{\"key\":\"{key}\"}}') * 100 \
         + (SELECT COUNT(*) FROM queue WHERE queue = '{QUEUE}' AND dedup_key = '{key}') * 10 \
         + (SELECT COUNT(*) FROM idempotency WHERE credential = '{CREDENTIAL}' AND idempotency_key = '{key}')"
    )
}

/// Repeats all unanswered requests, after which everything exists exactly once.
pub(super) async fn repeat_unanswered(db: &Db, ledger: &mut Ledger) -> Result<Vec<String>, StoreError> {
    for key in ledger.asked.clone() {
        write_again(db, &key).await?;
        ledger.written.insert(key);
    }
    check(db, ledger, After::PowerCut).await
}
