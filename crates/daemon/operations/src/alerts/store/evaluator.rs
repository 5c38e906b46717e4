//! Lease of the evaluation, and the values of the last evaluation.

use std::collections::BTreeMap;
use std::time::Duration;

use agentd_base::Timestamp;
use agentd_core::lease::{self, HeldRow};
use agentd_store::{Read, StoreError, Tx, args};
use serde_json::Value;

const EVALUATION: &str = "alerts.evaluation";

/// Acquires the evaluation lease, or renews it if it is `held`. Returns the time of the last evaluation; `None` while
/// another daemon holds the lease.
pub(crate) async fn claim(
    tx: &mut Tx,
    owner: &str,
    held: Option<&HeldRow>,
    lease: Duration,
) -> Result<Option<(HeldRow, Timestamp)>, StoreError> {
    tx.keep_version();
    let Some(held) = lease::acquire(tx, EVALUATION, owner, held, lease).await? else { return Ok(None) };
    let row = tx.fetch_optional("SELECT evaluated_at FROM alert_evaluator WHERE id = 1", args![]).await?;
    let last = row.map(|row| row.get("evaluated_at")).transpose()?;
    Ok(Some((held, last.unwrap_or(Timestamp::from_micros(0)))))
}

/// Renews the lease and records the time of the evaluation. No other daemon can take over before this transaction ends.
///
/// # Errors
/// `StoreError::LostLease` if another daemon evaluates.
pub(crate) async fn record_evaluation(tx: &mut Tx, held: &HeldRow, lease: Duration) -> Result<(), StoreError> {
    held.extend(tx, lease).await?;
    let now = tx.clock().now();
    let sql = "INSERT INTO alert_evaluator (id, evaluated_at) VALUES (1, $1) \
               ON CONFLICT (id) DO UPDATE SET evaluated_at = excluded.evaluated_at";
    tx.execute(sql, args![now]).await.map(|_| ())
}

pub(crate) async fn upsert_figures(tx: &mut Tx, period_minutes: u32, figures: &Value) -> Result<(), StoreError> {
    let now = tx.clock().now();
    tx.execute(
        "INSERT INTO alert_figures (period_minutes, figures, updated_at) VALUES ($1, $2, $3) \
         ON CONFLICT (period_minutes) DO UPDATE SET figures = excluded.figures, updated_at = excluded.updated_at",
        args![period_minutes, figures.to_string(), now],
    )
    .await
    .map(|_| ())
}

pub(crate) async fn find_figures(read: &mut Read, period_minutes: u32) -> Result<Option<Value>, StoreError> {
    let sql = "SELECT figures FROM alert_figures WHERE period_minutes = $1";
    let row = read.fetch_optional(sql, args![period_minutes]).await?;
    row.map(|row| row.json("figures")).transpose()
}

pub(crate) async fn list_figures(read: &mut Read) -> Result<BTreeMap<u32, Value>, StoreError> {
    let rows = read.fetch_all("SELECT period_minutes, figures FROM alert_figures", args![]).await?;
    rows.iter().map(|row| Ok((row.get("period_minutes")?, row.json("figures")?))).collect()
}

/// Deletes values of periods that no alert uses.
pub(crate) async fn purge_figures(tx: &mut Tx) -> Result<u64, StoreError> {
    let sql =
        "DELETE FROM alert_figures WHERE period_minutes NOT IN (SELECT period_minutes FROM alerts WHERE enabled = 1)";
    tx.execute(sql, args![]).await
}

/// Counts waiting queue items.
pub(crate) async fn count_pending(read: &mut Read) -> Result<u64, StoreError> {
    // Repeats the condition of the partial index, so that finished items are not scanned.
    let sql = "SELECT COUNT(*) FROM queue WHERE status IN ('pending', 'leased') AND status = 'pending'";
    read.fetch_one(sql, args![]).await?.first()
}

/// Counts queue items dead-lettered since a time, per minute since 1970.
pub(crate) async fn list_dead_letters(read: &mut Read, since: Timestamp) -> Result<Vec<(i64, u64)>, StoreError> {
    let sql = "SELECT updated_at / 60000000 AS minute, COUNT(*) AS items FROM queue WHERE status = 'dead_letter' AND \
               updated_at >= $1 GROUP BY updated_at / 60000000";
    let rows = read.fetch_all(sql, args![since]).await?;
    rows.iter().map(|row| Ok((row.get("minute")?, row.get("items")?))).collect()
}
