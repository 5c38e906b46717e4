//! Tokens set aside for calls that are under way.

use std::time::Duration;

use agentd_base::Timestamp;
use agentd_core::lease::LeaseTable;
use agentd_store::{Dialect, Read, StoreError, Topic, Tx, args};

/// Told when tokens that were set aside are settled.
pub(crate) const RESERVATIONS: Topic = Topic::new("budget_reservations");

/// Waits until nobody else sets tokens aside, until this transaction ends. What is read after it is what those before
/// have committed.
pub(crate) async fn take_turn(tx: &mut Tx) -> Result<(), StoreError> {
    if tx.dialect() == Dialect::Postgres {
        let sql = "INSERT INTO budget_turn (id, taken) VALUES (1, 1) \
                   ON CONFLICT (id) DO UPDATE SET taken = budget_turn.taken + 1";
        tx.execute(sql, args![]).await?;
    }
    Ok(())
}

pub(crate) async fn delete_expired(tx: &mut Tx, now: Timestamp) -> Result<u64, StoreError> {
    tx.execute("DELETE FROM budget_reservations WHERE expires_at < $1", args![now]).await
}

/// Tokens set aside by others: (in all, of this agent).
pub(crate) async fn sum_reserved(read: &mut Read, id: &str, agent_id: &str) -> Result<(u64, u64), StoreError> {
    let sql = "SELECT CAST(COALESCE(SUM(tokens), 0) AS BIGINT) AS reserved, \
               CAST(COALESCE(SUM(CASE WHEN agent_id = $2 THEN tokens ELSE 0 END), 0) AS BIGINT) AS of_agent \
               FROM budget_reservations WHERE id <> $1";
    let row = read.fetch_one(sql, args![id, agent_id]).await?;
    Ok((row.get("reserved")?, row.get("of_agent")?))
}

pub(crate) async fn put_reservation(
    tx: &mut Tx,
    id: &str,
    agent_id: &str,
    tokens: u64,
    expires_at: Timestamp,
) -> Result<(), StoreError> {
    let sql = "INSERT INTO budget_reservations (id, agent_id, tokens, expires_at) VALUES ($1, $2, $3, $4) \
               ON CONFLICT (id) DO UPDATE SET tokens = excluded.tokens, expires_at = excluded.expires_at";
    tx.execute(sql, args![id, agent_id, tokens, expires_at]).await.map(|_| ())
}

pub(crate) async fn delete_reservation(tx: &mut Tx, id: &str) -> Result<(), StoreError> {
    if tx.execute("DELETE FROM budget_reservations WHERE id = $1", args![id]).await? > 0 {
        tx.touch(RESERVATIONS);
    }
    Ok(())
}

pub(crate) async fn delete_reservations(tx: &mut Tx) -> Result<u64, StoreError> {
    tx.execute("DELETE FROM budget_reservations", args![]).await
}

static LEASES: LeaseTable = LeaseTable { table: "budget_reservations", key: "id", until: "expires_at", held: "1 = 1" };

pub(crate) async fn renew_reservations(tx: &mut Tx, ids: &[String], length: Duration) -> Result<(), StoreError> {
    LEASES.extend_some(tx, None, ids, length).await
}
