//! Rows of executions.

use std::collections::HashMap;

use agentd_base::{Page, Timestamp};
use agentd_store::{Args, Read, Row, StoreError, Tx, args, in_list};
use serde_json::Value;

use super::deliveries::NewWork;
use super::queue::Claim;
use crate::hooks::model::{Execution, ExecutionId, ExecutionStatus, HookId};

const COLUMNS: &str = "id, hook_id, event_id, event_type, status, attempt_count, output, error, started_at, \
                       completed_at, duration_ms";

fn execution(row: &Row) -> Result<Execution, StoreError> {
    let output: Option<String> = row.get("output")?;
    Ok(Execution {
        id: row.get("id")?,
        hook_id: row.get("hook_id")?,
        event_id: row.get("event_id")?,
        event_type: row.get("event_type")?,
        status: ExecutionStatus::from_stored(&row.get::<String>("status")?),
        attempt_count: row.get("attempt_count")?,
        output: output.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or(Value::Null),
        error: row.get("error")?,
        started_at: row.get("started_at")?,
        completed_at: row.get("completed_at")?,
        duration_ms: row.get("duration_ms")?,
    })
}

/// Inserts an execution that is due immediately. Returns false if the hook already has one for this event.
pub(crate) async fn insert_execution(tx: &mut Tx, id: &ExecutionId, new: &NewWork<'_>) -> Result<bool, StoreError> {
    let now = tx.clock().now();
    let added = tx
        .execute(
            "INSERT INTO hook_executions (id, hook_id, event_id, event_type, payload, depth, status, \
             attempt_count, due_at, fence, started_at, created_at, traceparent) \
             VALUES ($1, $2, $3, $4, $5, $6, 'running', 0, $7, 0, $7, $7, $8) \
             ON CONFLICT (hook_id, event_id) DO NOTHING",
            args![id, new.hook_id, new.event_id, new.event_type, new.payload, new.depth, now, new.trace],
        )
        .await?;
    Ok(added == 1)
}

/// Inserts a skipped execution with its reason. Returns false if the hook already has one for this event.
pub(crate) async fn insert_skipped(
    tx: &mut Tx,
    id: &ExecutionId,
    new: &NewWork<'_>,
    reason: &str,
) -> Result<bool, StoreError> {
    let now = tx.clock().now();
    let added = tx
        .execute(
            "INSERT INTO hook_executions (id, hook_id, event_id, event_type, payload, depth, status, \
             attempt_count, fence, error, started_at, completed_at, duration_ms, created_at) \
             VALUES ($1, $2, $3, $4, $5, $6, 'skipped', 0, 0, $7, $8, $8, 0, $8) \
             ON CONFLICT (hook_id, event_id) DO NOTHING",
            args![id, new.hook_id, new.event_id, new.event_type, new.payload, new.depth, reason, now],
        )
        .await?;
    Ok(added == 1)
}

/// Result of an execution.
#[derive(Debug, Clone)]
pub(crate) struct ExecutionResult {
    pub(crate) status: ExecutionStatus,
    pub(crate) attempts: u32,
    pub(crate) output: Option<Value>,
    pub(crate) error: Option<String>,
    /// Id of the created session, notification or episode. Events with this id are attributed to the hook.
    pub(crate) caused_id: Option<String>,
    pub(crate) duration_ms: u64,
}

/// Completes a claimed execution.
pub(crate) async fn update_result(tx: &mut Tx, claim: &Claim, result: &ExecutionResult) -> Result<(), StoreError> {
    let values = args![
        result.status.as_str(),
        result.attempts,
        result.output.as_ref().map(|output| output.to_string().replace("\\u0000", "\\ufffd")),
        result.error.as_ref().map(|error| error.replace('\0', "\u{fffd}")),
        result.caused_id.as_deref(),
        tx.clock().now(),
        result.duration_ms
    ];
    let change = "status = $4, attempt_count = $5, due_at = NULL, owner = NULL, output = $6, error = $7, \
                  caused_id = $8, completed_at = $9, duration_ms = $10";
    claim.held.update(tx, change, values).await
}

pub(crate) async fn find_execution(read: &mut Read, id: &ExecutionId) -> Result<Option<Execution>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM hook_executions WHERE id = $1");
    read.fetch_optional(sql, args![id]).await?.as_ref().map(execution).transpose()
}

/// Returns a page of executions, newest first, and the total number of matches.
pub(crate) async fn list_executions(
    read: &mut Read,
    hook: &HookId,
    status: Option<ExecutionStatus>,
    since: Option<Timestamp>,
    page: Page,
) -> Result<(Vec<Execution>, u64), StoreError> {
    let mut args = Args::new();
    let mut conditions = vec![format!("hook_id = ${}", args.push(hook))];
    if let Some(status) = status {
        conditions.push(format!("status = ${}", args.push(status.as_str())));
    }
    if let Some(since) = since {
        // Responses show milliseconds, so `since` is truncated to that precision.
        let since = Timestamp::from_micros(since.as_micros().div_euclid(1000) * 1000);
        conditions.push(format!("started_at >= ${}", args.push(since)));
    }
    let condition = conditions.join(" AND ");
    let sql = format!("SELECT COUNT(*) AS total FROM hook_executions WHERE {condition}");
    let total = read.fetch_one(sql, args.clone()).await?.get("total")?;
    let (limit, offset) = (args.push(page.limit), args.push(page.offset));
    let sql = format!(
        "SELECT {COLUMNS} FROM hook_executions WHERE {condition} ORDER BY started_at DESC, id DESC \
         LIMIT ${limit} OFFSET ${offset}"
    );
    let rows = read.fetch_all(sql, args).await?;
    Ok((rows.iter().map(execution).collect::<Result<_, _>>()?, total))
}

/// Returns the chain depth of the executions that caused the given ids.
pub(crate) async fn find_depths(read: &mut Read, caused: &[&str]) -> Result<HashMap<String, u32>, StoreError> {
    let mut depths = HashMap::new();
    for caused in caused.chunks(64) {
        let mut values = Args::new();
        let list = in_list(&mut values, caused);
        let sql = format!(
            "SELECT caused_id, MAX(depth) AS depth FROM hook_executions WHERE caused_id IN ({list}) GROUP BY caused_id"
        );
        for row in read.fetch_all(sql, values).await? {
            depths.insert(row.get("caused_id")?, row.get("depth")?);
        }
    }
    Ok(depths)
}

/// Returns the chain depth of the given deliveries and executions.
pub(crate) async fn find_own_depths(read: &mut Read, ids: &[&str]) -> Result<HashMap<String, u32>, StoreError> {
    let mut depths = HashMap::new();
    for ids in ids.chunks(64) {
        let mut values = Args::new();
        let list = in_list(&mut values, ids);
        let sql = format!(
            "SELECT id, depth FROM hook_deliveries WHERE id IN ({list}) \
             UNION ALL SELECT id, depth FROM hook_executions WHERE id IN ({list})"
        );
        for row in read.fetch_all(sql, values).await? {
            depths.insert(row.get("id")?, row.get("depth")?);
        }
    }
    Ok(depths)
}

/// Skips the unfinished executions of a deleted hook and returns their number.
pub(crate) async fn close_executions(tx: &mut Tx, hook: &HookId, reason: &str, limit: u32) -> Result<u64, StoreError> {
    let now = tx.clock().now();
    tx.execute(
        "UPDATE hook_executions SET status = 'skipped', due_at = NULL, owner = NULL, error = $2, completed_at = $3 \
         WHERE id IN (SELECT id FROM hook_executions WHERE hook_id = $1 AND due_at IS NOT NULL LIMIT $4)",
        args![hook, reason, now, limit],
    )
    .await
}

pub(crate) async fn delete_of_hook(tx: &mut Tx, hook: &HookId, limit: u32) -> Result<u64, StoreError> {
    tx.execute(
        "DELETE FROM hook_executions WHERE id IN (SELECT id FROM hook_executions WHERE hook_id = $1 LIMIT $2)",
        args![hook, limit],
    )
    .await
}

/// Deletes up to `limit` completed executions of a hook that were created before `before`.
pub(crate) async fn delete_ended(tx: &mut Tx, hook: &HookId, before: Timestamp, limit: u32) -> Result<u64, StoreError> {
    tx.execute(
        "DELETE FROM hook_executions WHERE id IN (SELECT id FROM hook_executions WHERE hook_id = $1 AND created_at < $2 \
         AND due_at IS NULL ORDER BY created_at LIMIT $3)",
        args![hook, before, limit],
    )
    .await
}

/// Returns the creation time of the newest execution beyond the `keep` newest ones of a hook. `None` if there are no
/// more than `keep`.
pub(crate) async fn find_retention_cutoff(
    read: &mut Read,
    hook: &HookId,
    keep: u64,
) -> Result<Option<Timestamp>, StoreError> {
    let sql = "SELECT created_at FROM hook_executions WHERE hook_id = $1 ORDER BY created_at DESC LIMIT 1 OFFSET $2";
    let row = read.fetch_optional(sql, args![hook, keep]).await?;
    row.map(|row| row.get("created_at")).transpose()
}
