//! Rows of deliveries.

use std::collections::{BTreeMap, HashSet};

use agentd_base::trace::TraceContext;
use agentd_base::{Page, Timestamp};
use agentd_store::{Args, Read, Row, StoreError, Tx, args, batch_size, in_list, row_placeholders};

use super::figures::{self, Figures};
use super::queue::Claim;
use crate::hooks::model::{Delivery, DeliveryResult, DeliveryStatus, HookDeliveryId, HookId};

const COLUMNS: &str = "id, hook_id, event_id, event_type, status, attempt_count, due_at, response_status, duration_ms, \
                       error, created_at, updated_at, (SELECT c.open_until FROM hook_circuits c \
                       WHERE c.hook_id = hook_deliveries.hook_id) AS open_until";

fn delivery(row: &Row) -> Result<Delivery, StoreError> {
    let status = DeliveryStatus::from_stored(&row.get::<String>("status")?);
    let due_at: Option<Timestamp> = row.get("due_at")?;
    // While the receiver's circuit is open, nothing is sent before it is tried again.
    let next_attempt_at = due_at.max(row.get::<Option<Timestamp>>("open_until")?.filter(|_| due_at.is_some()));
    Ok(Delivery {
        id: row.get("id")?,
        hook_id: row.get("hook_id")?,
        event_id: row.get("event_id")?,
        event_type: row.get("event_type")?,
        status,
        attempt_count: row.get("attempt_count")?,
        next_attempt_at: next_attempt_at.filter(|_| matches!(status, DeliveryStatus::Pending | DeliveryStatus::Failed)),
        response_status: row.get("response_status")?,
        duration_ms: row.get("duration_ms")?,
        error: row.get("error")?,
        created_at: row.get("created_at")?,
        updated_at: row.get("updated_at")?,
    })
}

/// New work of a hook for an event.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewWork<'a> {
    pub(crate) hook_id: &'a HookId,
    pub(crate) event_id: &'a str,
    pub(crate) event_type: &'a str,
    /// The event as JSON.
    pub(crate) payload: &'a str,
    pub(crate) depth: u32,
    pub(crate) trace: Option<TraceContext>,
    /// Reason the work is rejected without an attempt.
    pub(crate) rejected: Option<&'a str>,
}

/// Numbers of inserted deliveries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct InsertedDeliveries {
    pub(crate) waiting: usize,
    pub(crate) rejected: usize,
}

/// Inserts deliveries and ignores existing ones; a hook has one delivery per event.
pub(crate) async fn insert_deliveries(
    tx: &mut Tx,
    new: &[(HookDeliveryId, NewWork<'_>)],
) -> Result<InsertedDeliveries, StoreError> {
    const COLUMN_COUNT: usize = 9;
    let (now, mut left, mut added) = (tx.clock().now(), new, InsertedDeliveries::default());
    while !left.is_empty() {
        let (batch, rest) = left.split_at(batch_size(left.len()));
        let mut values = Args::with_capacity(1 + COLUMN_COUNT * batch.len());
        values.push(now);
        for (id, work) in batch {
            let status = if work.rejected.is_some() { DeliveryStatus::DeadLetter } else { DeliveryStatus::Pending };
            values.push(id);
            values.push(work.hook_id);
            values.push(work.event_id);
            values.push(work.event_type);
            values.push(work.payload);
            values.push(work.depth);
            values.push(status.as_str());
            values.push(work.rejected);
            values.push(work.trace);
        }
        // Rejected work completes without an attempt and is counted as a failure.
        let ends = batch.iter().any(|(_, work)| work.rejected.is_some());
        let sql = format!(
            "INSERT INTO hook_deliveries (id, hook_id, event_id, event_type, payload, depth, status, error, \
             traceparent, attempt_count, due_at, fence, created_at, updated_at) \
             SELECT v.column1, v.column2, v.column3, v.column4, v.column5, v.column6, v.column7, v.column8, \
             v.column9, 0, CASE WHEN v.column8 IS NULL THEN $1 END, 0, $1, $1 FROM (VALUES {}) AS v WHERE 1 = 1 \
             ON CONFLICT (hook_id, event_id) DO NOTHING RETURNING status{}",
            row_placeholders(2, COLUMN_COUNT, batch.len()),
            if ends { ", hook_id, event_type" } else { "" },
        );
        let mut rejected = CompletedWork::default();
        for row in tx.fetch_all(sql, values).await? {
            match DeliveryStatus::from_stored(&row.get::<String>("status")?) {
                DeliveryStatus::Pending => added.waiting += 1,
                _ => {
                    added.rejected += 1;
                    rejected.add(row.get("hook_id")?, row.get("event_type")?, Figures::of(false, 0));
                }
            }
        }
        rejected.write(tx).await?;
        left = rest;
    }
    Ok(added)
}

/// Records the results of attempts. Returns the ids of the deliveries whose lease was still held.
pub(crate) async fn update_results<'r>(
    tx: &mut Tx,
    results: impl ExactSizeIterator<Item = (&'r Claim, &'r DeliveryResult)>,
) -> Result<HashSet<String>, StoreError> {
    const COLUMN_COUNT: usize = 8;
    let now = tx.clock().now();
    let (mut left, mut held) = (results, HashSet::new());
    while left.len() > 0 {
        let count = batch_size(left.len());
        let mut values = Args::with_capacity(1 + COLUMN_COUNT * count);
        values.push(now);
        for (claim, result) in left.by_ref().take(count) {
            values.push(&claim.id);
            values.push(claim.held.owner());
            values.push(claim.held.fence());
            values.push(result.status.as_str());
            values.push(result.due_at);
            values.push(result.response_status);
            values.push(result.duration_ms);
            values.push(result.error.as_deref());
        }
        let sql = format!(
            "UPDATE hook_deliveries SET status = v.column4, attempt_count = attempt_count + 1, due_at = v.column5, \
             owner = NULL, response_status = v.column6, duration_ms = v.column7, error = v.column8, updated_at = $1 \
             FROM (VALUES {}) AS v WHERE hook_deliveries.id = v.column1 AND hook_deliveries.owner = v.column2 \
             AND hook_deliveries.fence = v.column3 RETURNING id",
            row_placeholders(2, COLUMN_COUNT, count)
        );
        for row in tx.fetch_all(sql, values).await? {
            held.insert(row.get("id")?);
        }
    }
    Ok(held)
}

pub(crate) async fn find_delivery(
    read: &mut Read,
    hook: &HookId,
    id: &HookDeliveryId,
) -> Result<Option<Delivery>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM hook_deliveries WHERE id = $1 AND hook_id = $2");
    read.fetch_optional(sql, args![id, hook]).await?.as_ref().map(delivery).transpose()
}

/// Returns a delivery and its event payload as JSON.
pub(crate) async fn find_payload(
    read: &mut Read,
    hook: &HookId,
    id: &HookDeliveryId,
) -> Result<Option<(Delivery, String)>, StoreError> {
    let sql = format!("SELECT {COLUMNS}, payload FROM hook_deliveries WHERE id = $1 AND hook_id = $2");
    let row = read.fetch_optional(sql, args![id, hook]).await?;
    row.map(|row| Ok((delivery(&row)?, row.get("payload")?))).transpose()
}

/// Returns a page of deliveries, newest first, and the total number of matches. `None` selects all hooks.
pub(crate) async fn list_deliveries(
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

/// Counts the dead letters of each hook. Hooks without dead letters are omitted.
pub(crate) async fn count_dead_letters(read: &mut Read) -> Result<Vec<(HookId, u64)>, StoreError> {
    let sql =
        "SELECT hook_id, COUNT(*) AS deliveries FROM hook_deliveries WHERE status = 'dead_letter' GROUP BY hook_id";
    let rows = read.fetch_all(sql, args![]).await?;
    rows.iter().map(|row| Ok((row.get("hook_id")?, row.get("deliveries")?))).collect()
}

/// Counts the deliveries in each state, of one hook or of all hooks.
pub(crate) async fn count_by_status(
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

/// Requeues a failed or dead-lettered delivery and resets its attempt count. Returns whether its state allowed this.
pub(crate) async fn retry_delivery(tx: &mut Tx, delivery: &Delivery) -> Result<bool, StoreError> {
    let now = tx.clock().now();
    let changed = tx
        .execute(
            "UPDATE hook_deliveries SET status = 'pending', attempt_count = 0, due_at = $2, updated_at = $2 \
             WHERE id = $1 AND status = $3 AND status IN ('failed', 'dead_letter')",
            args![&delivery.id, now, delivery.status.as_str()],
        )
        .await?;
    if changed == 1 && delivery.status == DeliveryStatus::DeadLetter {
        subtract_from_statistics(tx, std::slice::from_ref(delivery)).await?;
    }
    Ok(changed == 1)
}

/// Requeues up to `limit` dead letters of existing hooks. Returns the hook id of each.
pub(crate) async fn retry_dead_letters(
    tx: &mut Tx,
    hook: Option<&HookId>,
    limit: u32,
) -> Result<Vec<HookId>, StoreError> {
    let mut args = args![limit];
    let of_hook = hook.map(|hook| format!("AND hook_id = ${}", args.push(hook))).unwrap_or_default();
    let sql = format!(
        "SELECT {COLUMNS} FROM hook_deliveries WHERE status = 'dead_letter' {of_hook} AND EXISTS (SELECT 1 FROM hooks \
         WHERE hooks.id = hook_deliveries.hook_id AND hooks.deleted_at IS NULL) LIMIT $1 {}",
        tx.dialect().skip_locked()
    );
    let dead: Vec<Delivery> = tx.fetch_all(sql, args).await?.iter().map(delivery).collect::<Result<_, StoreError>>()?;
    let now = tx.clock().now();
    for dead in dead.chunks(64) {
        let mut values = args![now];
        let list = in_list(&mut values, &dead.iter().map(|dead| dead.id.as_str()).collect::<Vec<_>>());
        let sql = format!(
            "UPDATE hook_deliveries SET status = 'pending', attempt_count = 0, due_at = $1, updated_at = $1 \
             WHERE id IN ({list})"
        );
        tx.execute(sql, values).await?;
    }
    subtract_from_statistics(tx, &dead).await?;
    Ok(dead.into_iter().map(|dead| dead.hook_id).collect())
}

/// Subtracts requeued deliveries from the statistics, so that each delivery is counted once.
async fn subtract_from_statistics(tx: &mut Tx, dead: &[Delivery]) -> Result<(), StoreError> {
    let mut ends: BTreeMap<(&HookId, &str, Timestamp), Figures> = BTreeMap::new();
    for dead in dead {
        let end = Figures::of(false, dead.duration_ms.unwrap_or_default());
        let key = (&dead.hook_id, dead.event_type.as_str(), figures::period_of(dead.updated_at));
        ends.entry(key).or_default().add(end);
    }
    for ((hook, event_type, period), ended) in ends {
        figures::subtract_failures(tx, hook, event_type, period, ended).await?;
    }
    Ok(())
}

/// Completed deliveries by hook and event type.
#[derive(Default)]
struct CompletedWork(BTreeMap<(HookId, String), Figures>);

impl CompletedWork {
    fn add(&mut self, hook: HookId, event_type: String, ended: Figures) {
        self.0.entry((hook, event_type)).or_default().add(ended);
    }

    async fn write(self, tx: &mut Tx) -> Result<(), StoreError> {
        let ended: Vec<(&HookId, &str, Figures)> =
            self.0.iter().map(|((hook, event_type), ended)| (hook, event_type.as_str(), *ended)).collect();
        figures::add_deliveries(tx, &ended).await
    }
}

pub(crate) async fn delete_dead_letters(tx: &mut Tx, hook: Option<&HookId>, limit: u32) -> Result<u64, StoreError> {
    let mut args = args![limit];
    let of_hook = hook.map(|hook| format!("AND hook_id = ${}", args.push(hook))).unwrap_or_default();
    let sql = format!(
        "DELETE FROM hook_deliveries WHERE id IN (SELECT id FROM hook_deliveries WHERE status = 'dead_letter' {of_hook} LIMIT $1)"
    );
    tx.execute(sql, args).await
}

/// Returns when the next lease expires.
pub(crate) async fn next_expiry(read: &mut Read) -> Result<Option<Timestamp>, StoreError> {
    let sql = "SELECT MIN(due_at) AS due_at FROM hook_deliveries WHERE status = 'processing'";
    read.fetch_one(sql, args![]).await?.get("due_at")
}

/// Releases deliveries whose lease expired. A claim would take them over too, but not for a hook whose deliveries are
/// paused.
pub(crate) async fn release_expired(tx: &mut Tx, limit: u32) -> Result<u64, StoreError> {
    let now = tx.clock().now();
    tx.execute(
        "UPDATE hook_deliveries SET status = 'pending', owner = NULL, updated_at = $1 WHERE id IN (\
         SELECT id FROM hook_deliveries WHERE status = 'processing' AND due_at <= $1 LIMIT $2)",
        args![now, limit],
    )
    .await
}

/// Dead-letters the unfinished deliveries of a deleted hook and returns their number. Deliveries under a valid lease
/// complete on their own.
pub(crate) async fn close_deliveries(tx: &mut Tx, hook: &HookId, reason: &str, limit: u32) -> Result<u64, StoreError> {
    let now = tx.clock().now();
    let closed = tx
        .fetch_all(
            // The condition is repeated because on PostgreSQL a row may be claimed or completed after the subquery.
            "UPDATE hook_deliveries SET status = 'dead_letter', due_at = NULL, owner = NULL, error = $2, updated_at = $3 \
             WHERE id IN (SELECT id FROM hook_deliveries WHERE hook_id = $1 AND due_at IS NOT NULL \
             AND (status <> 'processing' OR due_at <= $3) LIMIT $4) \
             AND due_at IS NOT NULL AND (status <> 'processing' OR due_at <= $3) RETURNING event_type, duration_ms",
            args![hook, reason, now, limit],
        )
        .await?;
    let mut ends = CompletedWork::default();
    for row in &closed {
        let duration: Option<u64> = row.get("duration_ms")?;
        ends.add(hook.clone(), row.get("event_type")?, Figures::of(false, duration.unwrap_or_default()));
    }
    ends.write(tx).await?;
    Ok(u64::try_from(closed.len()).unwrap_or(u64::MAX))
}

/// Deletes up to `limit` deliveries of a hook in any state.
pub(crate) async fn delete_of_hook(tx: &mut Tx, hook: &HookId, limit: u32) -> Result<u64, StoreError> {
    tx.execute(
        "DELETE FROM hook_deliveries WHERE id IN (SELECT id FROM hook_deliveries WHERE hook_id = $1 LIMIT $2)",
        args![hook, limit],
    )
    .await
}

/// Deletes up to `limit` completed deliveries of a hook in `status` that were created before `before`.
pub(crate) async fn delete_ended(
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

/// Returns the creation time of the newest delivery beyond the `keep` newest ones of a hook in `status`. `None` if
/// there are no more than `keep`.
pub(crate) async fn find_retention_cutoff(
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

/// Whether a hook has deliveries in any state.
pub(crate) async fn has_any(read: &mut Read, hook: &HookId) -> Result<bool, StoreError> {
    let row = read.fetch_optional("SELECT id FROM hook_deliveries WHERE hook_id = $1 LIMIT 1", args![hook]).await?;
    Ok(row.is_some())
}
