//! Rows of deliveries.

use agentd_base::{Page, Timestamp};
use agentd_store::{Args, Read, Row, StoreError, Tx, args};

use super::queue::Claim;
use crate::hooks::model::{Delivery, DeliveryId, DeliveryStatus, HookId};

const COLUMNS: &str = "id, hook_id, event_id, event_type, status, attempt_count, due_at, response_status, duration_ms, \
                       error, created_at, updated_at";

fn delivery(row: &Row) -> Result<Delivery, StoreError> {
    let status = DeliveryStatus::from_stored(&row.get::<String>("status")?);
    let due_at: Option<Timestamp> = row.get("due_at")?;
    Ok(Delivery {
        id: row.get("id")?,
        hook_id: row.get("hook_id")?,
        event_id: row.get("event_id")?,
        event_type: row.get("event_type")?,
        status,
        attempt_count: row.get("attempt_count")?,
        next_attempt_at: due_at.filter(|_| matches!(status, DeliveryStatus::Pending | DeliveryStatus::Failed)),
        response_status: row.get("response_status")?,
        duration_ms: row.get("duration_ms")?,
        error: row.get("error")?,
        created_at: row.get("created_at")?,
        updated_at: row.get("updated_at")?,
    })
}

/// What a hook is to do about an event.
#[derive(Debug)]
pub(in crate::hooks) struct NewWork<'a> {
    pub(in crate::hooks) hook_id: &'a HookId,
    pub(in crate::hooks) event_id: &'a str,
    pub(in crate::hooks) event_type: &'a str,
    /// The event as JSON.
    pub(in crate::hooks) payload: &'a str,
    pub(in crate::hooks) depth: u32,
}

/// Whether it was added: not when the hook has one of this event.
pub(in crate::hooks) async fn insert_delivery(
    tx: &mut Tx,
    id: &DeliveryId,
    new: &NewWork<'_>,
) -> Result<bool, StoreError> {
    let now = tx.clock().now();
    let added = tx
        .execute(
            "INSERT INTO hook_deliveries (id, hook_id, event_id, event_type, payload, depth, status, attempt_count, \
             due_at, fence, created_at, updated_at) VALUES ($1, $2, $3, $4, $5, $6, 'pending', 0, $7, 0, $7, $7) \
             ON CONFLICT (hook_id, event_id) DO NOTHING",
            args![id, new.hook_id, new.event_id, new.event_type, new.payload, new.depth, now],
        )
        .await?;
    Ok(added == 1)
}

/// What an attempt came to.
#[derive(Debug, Clone)]
pub(in crate::hooks) struct DeliveryResult {
    pub(in crate::hooks) status: DeliveryStatus,
    /// When it is tried again.
    pub(in crate::hooks) due_at: Option<Timestamp>,
    pub(in crate::hooks) response_status: Option<u16>,
    pub(in crate::hooks) duration_ms: u64,
    pub(in crate::hooks) error: Option<String>,
}

/// Whether it was still held.
pub(in crate::hooks) async fn update_result(
    tx: &mut Tx,
    claim: &Claim,
    result: &DeliveryResult,
) -> Result<bool, StoreError> {
    let now = tx.clock().now();
    let changed = tx
        .execute(
            "UPDATE hook_deliveries SET status = $4, attempt_count = attempt_count + 1, due_at = $5, owner = NULL, \
             response_status = $6, duration_ms = $7, error = $8, updated_at = $9 \
             WHERE id = $1 AND owner = $2 AND fence = $3",
            args![
                &claim.id,
                &claim.owner,
                claim.fence,
                result.status.as_str(),
                result.due_at,
                result.response_status,
                result.duration_ms,
                result.error.as_deref(),
                now
            ],
        )
        .await?;
    Ok(changed == 1)
}

pub(in crate::hooks) async fn find_delivery(
    read: &mut Read,
    hook: &HookId,
    id: &DeliveryId,
) -> Result<Option<Delivery>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM hook_deliveries WHERE id = $1 AND hook_id = $2");
    read.fetch_optional(sql, args![id, hook]).await?.as_ref().map(delivery).transpose()
}

/// The newest first, and how many there are. Without a hook those of all.
pub(in crate::hooks) async fn list_deliveries(
    read: &mut Read,
    hook: Option<&HookId>,
    status: Option<DeliveryStatus>,
    page: Page,
) -> Result<(Vec<Delivery>, u64), StoreError> {
    let mut args = Args::new();
    let mut conditions = Vec::new();
    if let Some(status) = status {
        conditions.push(format!("status = ${}", args.push(status.as_str())));
    }
    if let Some(hook) = hook {
        conditions.push(format!("hook_id = ${}", args.push(hook)));
    }
    let condition = if conditions.is_empty() { "1 = 1".to_owned() } else { conditions.join(" AND ") };
    let sql = format!("SELECT COUNT(*) AS total FROM hook_deliveries WHERE {condition}");
    let total = read.fetch_one(sql, args.clone()).await?.get("total")?;
    let (limit, offset) = (args.push(page.limit), args.push(page.offset));
    let sql = format!(
        "SELECT {COLUMNS} FROM hook_deliveries WHERE {condition} ORDER BY created_at DESC, id DESC \
         LIMIT ${limit} OFFSET ${offset}"
    );
    let rows = read.fetch_all(sql, args).await?;
    Ok((rows.iter().map(delivery).collect::<Result<_, _>>()?, total))
}

/// How many are in each state, of one hook or of all.
pub(in crate::hooks) async fn count_by_status(
    read: &mut Read,
    hook: Option<&HookId>,
) -> Result<Vec<(DeliveryStatus, u64)>, StoreError> {
    let rows = match hook {
        Some(hook) => {
            let sql = "SELECT status, COUNT(*) AS deliveries FROM hook_deliveries WHERE hook_id = $1 GROUP BY status";
            read.fetch_all(sql, args![hook]).await?
        }
        None => {
            let sql = "SELECT status, COUNT(*) AS deliveries FROM hook_deliveries GROUP BY status";
            read.fetch_all(sql, args![]).await?
        }
    };
    let count = |row: &Row| Ok((DeliveryStatus::from_stored(&row.get::<String>("status")?), row.get("deliveries")?));
    rows.iter().map(count).collect()
}

/// Makes one that failed or was given up pending again, its attempts allowed anew. Not in any other state.
pub(in crate::hooks) async fn retry_delivery(tx: &mut Tx, id: &DeliveryId) -> Result<bool, StoreError> {
    let now = tx.clock().now();
    let changed = tx
        .execute(
            "UPDATE hook_deliveries SET status = 'pending', attempt_count = 0, due_at = $2, updated_at = $2 \
             WHERE id = $1 AND status IN ('failed', 'dead_letter')",
            args![id, now],
        )
        .await?;
    Ok(changed == 1)
}

/// Retries up to `limit` dead letters of hooks that are there, and answers whose and how many.
pub(in crate::hooks) async fn retry_dead_letters(
    tx: &mut Tx,
    hook: Option<&HookId>,
    limit: u32,
) -> Result<Vec<HookId>, StoreError> {
    let now = tx.clock().now();
    let mut args = args![now, limit];
    let of_hook = hook.map(|hook| format!("AND hook_id = ${}", args.push(hook))).unwrap_or_default();
    let sql = format!(
        "UPDATE hook_deliveries SET status = 'pending', attempt_count = 0, due_at = $1, updated_at = $1 WHERE id IN (\
         SELECT id FROM hook_deliveries WHERE status = 'dead_letter' {of_hook} AND EXISTS (SELECT 1 FROM hooks \
         WHERE hooks.id = hook_deliveries.hook_id AND hooks.deleted_at IS NULL) LIMIT $2) RETURNING hook_id"
    );
    tx.fetch_all(sql, args).await?.iter().map(|row| row.get("hook_id")).collect()
}

pub(in crate::hooks) async fn delete_dead_letters(
    tx: &mut Tx,
    hook: Option<&HookId>,
    limit: u32,
) -> Result<u64, StoreError> {
    let mut args = args![limit];
    let of_hook = hook.map(|hook| format!("AND hook_id = ${}", args.push(hook))).unwrap_or_default();
    let sql = format!(
        "DELETE FROM hook_deliveries WHERE id IN (SELECT id FROM hook_deliveries WHERE status = 'dead_letter' {of_hook} LIMIT $1)"
    );
    tx.execute(sql, args).await
}

/// When the next lease runs out.
pub(in crate::hooks) async fn next_expiry(read: &mut Read) -> Result<Option<Timestamp>, StoreError> {
    let sql = "SELECT MIN(due_at) AS due_at FROM hook_deliveries WHERE status = 'processing'";
    read.fetch_one(sql, args![]).await?.get("due_at")
}

/// Gives back what nobody works on any more. A claim would do so too, but not for a hook whose
/// deliveries are held.
pub(in crate::hooks) async fn release_expired(tx: &mut Tx, limit: u32) -> Result<u64, StoreError> {
    let now = tx.clock().now();
    tx.execute(
        "UPDATE hook_deliveries SET status = 'pending', owner = NULL, updated_at = $1 WHERE id IN (\
         SELECT id FROM hook_deliveries WHERE status = 'processing' AND due_at <= $1 LIMIT $2)",
        args![now, limit],
    )
    .await
}

/// Closes what a deleted hook still has to deliver; answers how many.
pub(in crate::hooks) async fn close_deliveries(
    tx: &mut Tx,
    hook: &HookId,
    reason: &str,
    limit: u32,
) -> Result<u64, StoreError> {
    let now = tx.clock().now();
    tx.execute(
        "UPDATE hook_deliveries SET status = 'dead_letter', due_at = NULL, owner = NULL, error = $2, updated_at = $3 \
         WHERE id IN (SELECT id FROM hook_deliveries WHERE hook_id = $1 AND due_at IS NOT NULL LIMIT $4)",
        args![hook, reason, now, limit],
    )
    .await
}

/// Of one hook, whatever their state.
pub(in crate::hooks) async fn delete_of_hook(tx: &mut Tx, hook: &HookId, limit: u32) -> Result<u64, StoreError> {
    tx.execute(
        "DELETE FROM hook_deliveries WHERE id IN (SELECT id FROM hook_deliveries WHERE hook_id = $1 LIMIT $2)",
        args![hook, limit],
    )
    .await
}

/// Of those that ended in `status` (of any hook), what was made before `before`.
pub(in crate::hooks) async fn delete_ended(
    tx: &mut Tx,
    status: DeliveryStatus,
    hook: &HookId,
    before: Timestamp,
    limit: u32,
) -> Result<u64, StoreError> {
    tx.execute(
        "DELETE FROM hook_deliveries WHERE id IN (SELECT id FROM hook_deliveries WHERE status = $1 AND hook_id = $2 \
         AND created_at < $3 AND due_at IS NULL ORDER BY created_at LIMIT $4)",
        args![status.as_str(), hook, before, limit],
    )
    .await
}

/// When the `keep`-th newest of a hook that ended in `status` was made; `None` when there are fewer.
pub(in crate::hooks) async fn find_surplus(
    read: &mut Read,
    status: DeliveryStatus,
    hook: &HookId,
    keep: u64,
) -> Result<Option<Timestamp>, StoreError> {
    let sql = "SELECT created_at FROM hook_deliveries WHERE status = $1 AND hook_id = $2 \
               ORDER BY created_at DESC LIMIT 1 OFFSET $3";
    let row = read.fetch_optional(sql, args![status.as_str(), hook, keep]).await?;
    row.map(|row| row.get("created_at")).transpose()
}

/// Whether a hook has one, in whatever state.
pub(in crate::hooks) async fn has_any(read: &mut Read, hook: &HookId) -> Result<bool, StoreError> {
    let row = read.fetch_optional("SELECT id FROM hook_deliveries WHERE hook_id = $1 LIMIT 1", args![hook]).await?;
    Ok(row.is_some())
}
