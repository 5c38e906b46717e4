//! Who evaluates, and what was last evaluated by.

use std::collections::BTreeMap;
use std::time::Duration;

use agentd_base::Timestamp;
use agentd_core::lease::{self, HeldRow};
use agentd_store::{Read, StoreError, Tx, args};
use serde_json::Value;

const EVALUATION: &str = "alerts.evaluation";

/// Takes the evaluation over, or keeps it if it is `held`, for as long as `lease`, and answers when somebody last
/// evaluated; `None` while another daemon evaluates.
pub(crate) async fn claim(
    tx: &mut Tx,
    owner: &str,
    held: Option<&HeldRow>,
    lease: Duration,
) -> Result<Option<(HeldRow, Timestamp)>, StoreError> {
    tx.keep_version();
    let Some(held) = lease::take(tx, EVALUATION, owner, held, lease).await? else { return Ok(None) };
    let row = tx.fetch_optional("SELECT evaluated_at FROM alert_evaluator WHERE id = 1", args![]).await?;
    let last = row.map(|row| row.get("evaluated_at")).transpose()?;
    Ok(Some((held, last.unwrap_or(Timestamp::from_micros(0)))))
}

/// Notes that this daemon evaluates now. Nobody else can take that over before this transaction ends.
///
/// # Errors
/// `StoreError::LostLease` if another daemon evaluates.
pub(crate) async fn note_evaluated(tx: &mut Tx, held: &HeldRow, lease: Duration) -> Result<(), StoreError> {
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

/// Of periods that no alert has any more.
pub(crate) async fn purge_figures(tx: &mut Tx) -> Result<u64, StoreError> {
    let sql =
        "DELETE FROM alert_figures WHERE period_minutes NOT IN (SELECT period_minutes FROM alerts WHERE enabled = 1)";
    tx.execute(sql, args![]).await
}

/// Items of queues that wait.
pub(crate) async fn count_pending(read: &mut Read) -> Result<u64, StoreError> {
    // Named as the index names them, so that what is done is not gone through.
    let sql = "SELECT COUNT(*) FROM queue WHERE status IN ('pending', 'leased') AND status = 'pending'";
    read.fetch_one(sql, args![]).await?.first()
}

/// Items of queues that were given up since: the minute, in minutes since 1970, and how many.
pub(crate) async fn list_dead_letters(read: &mut Read, since: Timestamp) -> Result<Vec<(i64, u64)>, StoreError> {
    let sql = "SELECT updated_at / 60000000 AS minute, COUNT(*) AS items FROM queue WHERE status = 'dead_letter' AND \
               updated_at >= $1 GROUP BY updated_at / 60000000";
    let rows = read.fetch_all(sql, args![since]).await?;
    rows.iter().map(|row| Ok((row.get("minute")?, row.get("items")?))).collect()
}
