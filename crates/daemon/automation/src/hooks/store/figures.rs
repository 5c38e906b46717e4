//! Statistics of deliveries and executions, updated when they complete.

use std::time::Duration;

use agentd_base::Timestamp;
use agentd_core::rollups::{self, Counter};
use agentd_store::{Args, Read, Row, StoreError, Tx, args, batch_size, row_placeholders};

use crate::hooks::model::HookId;

/// Length of the period covered by one row. Fifteen minutes align with the days of every time zone.
pub(crate) const PERIOD: Duration = Duration::from_secs(15 * 60);

/// Returns the start of the period that contains `at`.
pub(crate) fn period_of(at: Timestamp) -> Timestamp {
    let period = i64::try_from(PERIOD.as_micros()).unwrap_or(i64::MAX);
    Timestamp::from_micros(at.as_micros().div_euclid(period) * period)
}

/// Numbers of completed deliveries and executions, and their total duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Figures {
    pub(crate) succeeded: u64,
    pub(crate) failed: u64,
    /// Sum of all durations, in milliseconds.
    pub(crate) duration_ms: u64,
}

impl Figures {
    pub(crate) fn add(&mut self, other: Self) {
        self.succeeded += other.succeeded;
        self.failed += other.failed;
        self.duration_ms += other.duration_ms;
    }

    pub(crate) fn of(is_success: bool, duration_ms: u64) -> Self {
        Self { succeeded: u64::from(is_success), failed: u64::from(!is_success), duration_ms }
    }
}

fn figures(row: &Row) -> Result<Figures, StoreError> {
    Ok(Figures { succeeded: row.get("succeeded")?, failed: row.get("failed")?, duration_ms: row.get("duration_ms")? })
}

/// Adds completed work of one hook to the current period.
pub(crate) async fn add_figures(
    tx: &mut Tx,
    hook: &HookId,
    event_type: &str,
    figures: Figures,
) -> Result<(), StoreError> {
    add_all_figures(tx, &[(hook, event_type, figures)]).await
}

/// Adds completed deliveries to the current period and to the daemon-wide rollups.
pub(crate) async fn add_deliveries(tx: &mut Tx, ended: &[(&HookId, &str, Figures)]) -> Result<(), StoreError> {
    let failed = ended.iter().map(|(_, _, figures)| figures.failed).sum::<u64>();
    let all = failed + ended.iter().map(|(_, _, figures)| figures.succeeded).sum::<u64>();
    rollups::count(tx, &[(Counter::Deliveries, "", all), (Counter::DeadLetters, "", failed)]).await?;
    add_all_figures(tx, ended).await
}

/// Adds completed work to the current period. The entries must be unique by hook and event type, and sorted, so that
/// concurrent transactions cannot deadlock.
async fn add_all_figures(tx: &mut Tx, ended: &[(&HookId, &str, Figures)]) -> Result<(), StoreError> {
    const COLUMN_COUNT: usize = 6;
    let start = period_of(tx.clock().now());
    let mut left = ended;
    while !left.is_empty() {
        let (batch, rest) = left.split_at(batch_size(left.len()));
        let mut values = Args::with_capacity(COLUMN_COUNT * batch.len());
        for (hook, event_type, figures) in batch {
            values.push(*hook);
            values.push(*event_type);
            values.push(start);
            values.push(figures.succeeded);
            values.push(figures.failed);
            values.push(figures.duration_ms);
        }
        let sql = format!(
            "INSERT INTO hook_figures (hook_id, event_type, period_start, succeeded, failed, duration_ms) VALUES {} \
             ON CONFLICT (hook_id, event_type, period_start) DO UPDATE SET \
             succeeded = hook_figures.succeeded + excluded.succeeded, failed = hook_figures.failed + excluded.failed, \
             duration_ms = hook_figures.duration_ms + excluded.duration_ms",
            row_placeholders(1, COLUMN_COUNT, batch.len())
        );
        tx.execute(sql, values).await?;
        left = rest;
    }
    Ok(())
}

/// Returns the statistics of a hook by period start, oldest first.
pub(crate) async fn list_figures(
    read: &mut Read,
    hook: &HookId,
    from: Timestamp,
    until: Timestamp,
) -> Result<Vec<(Timestamp, Figures)>, StoreError> {
    let sql = "SELECT period_start, CAST(SUM(succeeded) AS BIGINT) AS succeeded, CAST(SUM(failed) AS BIGINT) AS failed, \
               CAST(SUM(duration_ms) AS BIGINT) AS duration_ms FROM hook_figures \
               WHERE hook_id = $1 AND period_start >= $2 AND period_start < $3 \
               GROUP BY period_start ORDER BY period_start";
    let rows = read.fetch_all(sql, args![hook, from, until]).await?;
    rows.iter().map(|row| Ok((row.get("period_start")?, figures(row)?))).collect()
}

/// Subtracts failures from a period.
pub(crate) async fn subtract_failures(
    tx: &mut Tx,
    hook: &HookId,
    event_type: &str,
    period: Timestamp,
    ended: Figures,
) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE hook_figures SET failed = CASE WHEN failed > $4 THEN failed - $4 ELSE 0 END, \
         duration_ms = CASE WHEN duration_ms > $5 THEN duration_ms - $5 ELSE 0 END \
         WHERE hook_id = $1 AND event_type = $2 AND period_start = $3",
        args![hook, event_type, period, ended.failed, ended.duration_ms],
    )
    .await?;
    Ok(())
}

/// Counts the work of a hook that completed within a time range, from the retained rows.
pub(crate) async fn count_ended(
    read: &mut Read,
    hook: &HookId,
    from: Timestamp,
    until: Timestamp,
) -> Result<Figures, StoreError> {
    let sql = "SELECT CAST(COALESCE(SUM(succeeded), 0) AS BIGINT) AS succeeded, \
               CAST(COUNT(*) - COALESCE(SUM(succeeded), 0) AS BIGINT) AS failed, \
               CAST(COALESCE(SUM(duration_ms), 0) AS BIGINT) AS duration_ms FROM (\
               SELECT CASE WHEN status = 'success' THEN 1 ELSE 0 END AS succeeded, duration_ms FROM hook_deliveries \
               WHERE status IN ('success', 'dead_letter') AND hook_id = $1 AND created_at < $3 \
               AND updated_at >= $2 AND updated_at < $3 UNION ALL \
               SELECT CASE WHEN status = 'success' THEN 1 ELSE 0 END AS succeeded, duration_ms FROM hook_executions \
               WHERE status IN ('success', 'error', 'timeout') AND hook_id = $1 AND created_at < $3 \
               AND completed_at >= $2 AND completed_at < $3) AS ended";
    figures(&read.fetch_one(sql, args![hook, from, until]).await?)
}

/// Returns the statistics of all hooks by event type.
pub(crate) async fn sum_by_event(read: &mut Read) -> Result<Vec<(String, Figures)>, StoreError> {
    let sql = "SELECT event_type, CAST(SUM(succeeded) AS BIGINT) AS succeeded, CAST(SUM(failed) AS BIGINT) AS failed, \
               CAST(SUM(duration_ms) AS BIGINT) AS duration_ms FROM hook_figures GROUP BY event_type ORDER BY event_type";
    let rows = read.fetch_all(sql, args![]).await?;
    rows.iter().map(|row| Ok((row.get("event_type")?, figures(row)?))).collect()
}

pub(crate) async fn delete_figures(tx: &mut Tx, before: Timestamp, limit: u32) -> Result<u64, StoreError> {
    tx.execute(
        "DELETE FROM hook_figures WHERE (hook_id, event_type, period_start) IN (SELECT hook_id, event_type, period_start \
         FROM hook_figures WHERE period_start < $1 LIMIT $2)",
        args![before, limit],
    )
    .await
}

pub(crate) async fn delete_of_hook(tx: &mut Tx, hook: &HookId) -> Result<(), StoreError> {
    tx.execute("DELETE FROM hook_figures WHERE hook_id = $1", args![hook]).await?;
    Ok(())
}
