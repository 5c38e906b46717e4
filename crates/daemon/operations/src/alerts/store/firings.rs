//! Rows of firings and notices.

use agentd_base::{Page, Timestamp};
use agentd_store::{Args, Read, Row, StoreError, Tx, args, in_list};

use crate::alerts::model::{AlertId, Firing, FiringId, Notice};

pub(crate) async fn insert_firing(
    tx: &mut Tx,
    id: &FiringId,
    alert: &AlertId,
    value: Option<f64>,
) -> Result<(), StoreError> {
    let now = tx.clock().now();
    let sql = "INSERT INTO alert_firings (id, alert_id, started_at, peak_value) VALUES ($1, $2, $3, $4)";
    tx.execute(sql, args![id, alert, now, value]).await.map(|_| ())
}

pub(crate) async fn update_peak(tx: &mut Tx, id: &FiringId, peak: Option<f64>) -> Result<(), StoreError> {
    tx.execute("UPDATE alert_firings SET peak_value = $2 WHERE id = $1", args![id, peak]).await.map(|_| ())
}

/// Records the first acknowledgement.
pub(crate) async fn acknowledge_firing(tx: &mut Tx, id: &FiringId) -> Result<(), StoreError> {
    let now = tx.clock().now();
    let sql = "UPDATE alert_firings SET acknowledged_at = $2 WHERE id = $1 AND acknowledged_at IS NULL";
    tx.execute(sql, args![id, now]).await.map(|_| ())
}

pub(crate) async fn end_firing(tx: &mut Tx, id: &FiringId) -> Result<(), StoreError> {
    let now = tx.clock().now();
    tx.execute("UPDATE alert_firings SET ended_at = $2 WHERE id = $1 AND ended_at IS NULL", args![id, now])
        .await
        .map(|_| ())
}

/// Inserts a notice and deletes all but the newest `max_retained` notices of the firing.
pub(crate) async fn insert_notice(
    tx: &mut Tx,
    firing: &FiringId,
    ordinal: u32,
    target: &str,
    error: Option<&str>,
    max_retained: u32,
) -> Result<(), StoreError> {
    let now = tx.clock().now();
    let sql = "INSERT INTO alert_notices (firing_id, ordinal, at, target, error) VALUES ($1, $2, $3, $4, $5)";
    tx.execute(sql, args![firing, ordinal, now, target, error]).await?;
    let sql = "DELETE FROM alert_notices WHERE firing_id = $1 AND ordinal <= $2";
    tx.execute(sql, args![firing, ordinal.saturating_sub(max_retained)]).await.map(|_| ())
}

fn firing(row: &Row) -> Result<Firing, StoreError> {
    Ok(Firing {
        id: row.get("id")?,
        started_at: row.get("started_at")?,
        ended_at: row.get("ended_at")?,
        peak_value: row.get("peak_value")?,
        acknowledged_at: row.get("acknowledged_at")?,
        notices: Vec::new(),
    })
}

/// Returns a page of firings, newest first, and their total number.
pub(crate) async fn list_firings(
    read: &mut Read,
    alert: &AlertId,
    page: Page,
) -> Result<(Vec<Firing>, u64), StoreError> {
    let sql = "SELECT COUNT(*) FROM alert_firings WHERE alert_id = $1";
    let total = read.fetch_one(sql, args![alert]).await?.first()?;
    let sql = "SELECT id, started_at, ended_at, peak_value, acknowledged_at FROM alert_firings WHERE alert_id = $1 \
               ORDER BY started_at DESC, id DESC LIMIT $2 OFFSET $3";
    let rows = read.fetch_all(sql, args![alert, page.limit, page.offset]).await?;
    let mut firings: Vec<Firing> = rows.iter().map(firing).collect::<Result<_, _>>()?;
    if firings.is_empty() {
        return Ok((firings, total));
    }
    let ids: Vec<FiringId> = firings.iter().map(|firing| firing.id.clone()).collect();
    let mut values = Args::new();
    let list = in_list(&mut values, &ids);
    let sql = format!(
        "SELECT firing_id, ordinal, at, target, error FROM alert_notices WHERE firing_id IN ({list}) \
         ORDER BY firing_id, ordinal"
    );
    for row in read.fetch_all(sql, values).await? {
        let firing_id: FiringId = row.get("firing_id")?;
        let notice = Notice {
            ordinal: row.get("ordinal")?,
            at: row.get("at")?,
            to: row.get("target")?,
            error: row.get("error")?,
        };
        if let Some(firing) = firings.iter_mut().find(|firing| firing.id == firing_id) {
            firing.notices.push(notice);
        }
    }
    Ok((firings, total))
}

async fn delete_firings(tx: &mut Tx, rows: &[Row]) -> Result<u64, StoreError> {
    let ids: Vec<FiringId> = rows.iter().map(|row| row.get("id")).collect::<Result<_, _>>()?;
    for sql in ["DELETE FROM alert_notices WHERE firing_id IN", "DELETE FROM alert_firings WHERE id IN"] {
        if !ids.is_empty() {
            let mut values = Args::new();
            let list = in_list(&mut values, &ids);
            tx.execute(format!("{sql} ({list})"), values).await?;
        }
    }
    Ok(ids.len() as u64)
}

/// Returns whether any firings or values can be purged.
pub(crate) async fn has_expired(read: &mut Read, ended_before: Timestamp) -> Result<bool, StoreError> {
    let sql = "SELECT 1 AS one WHERE EXISTS (SELECT 1 FROM alert_firings WHERE ended_at < $1) OR EXISTS (SELECT 1 FROM \
               alert_firings WHERE alert_id NOT IN (SELECT id FROM alerts)) OR EXISTS (SELECT 1 FROM alert_figures \
               WHERE period_minutes NOT IN (SELECT period_minutes FROM alerts WHERE enabled = 1))";
    Ok(read.fetch_optional(sql, args![ended_before]).await?.is_some())
}

/// Deletes firings that ended before `before` and firings of deleted alerts; returns their number.
pub(crate) async fn purge_firings(tx: &mut Tx, before: Timestamp, limit: u32) -> Result<u64, StoreError> {
    let sql = "SELECT id FROM alert_firings WHERE ended_at IS NOT NULL AND ended_at < $1 ORDER BY ended_at LIMIT $2";
    let rows = tx.fetch_all(sql, args![before, limit]).await?;
    let ended = delete_firings(tx, &rows).await?;
    let sql = "SELECT id FROM alert_firings WHERE alert_id NOT IN (SELECT id FROM alerts) LIMIT $1";
    let rows = tx.fetch_all(sql, args![limit]).await?;
    Ok(ended.max(delete_firings(tx, &rows).await?))
}

/// Deletes all but the newest `max_retained` firings of an alert.
pub(crate) async fn trim_firings(tx: &mut Tx, alert: &AlertId, max_retained: u32) -> Result<(), StoreError> {
    const BATCH_SIZE: u32 = 50;
    let sql = "SELECT id FROM alert_firings WHERE alert_id = $1 ORDER BY started_at DESC, id DESC LIMIT $2 OFFSET $3";
    let rows = tx.fetch_all(sql, args![alert, BATCH_SIZE, max_retained]).await?;
    delete_firings(tx, &rows).await.map(|_| ())
}
