//! Claiming deliveries and executions.
//!
//! Both tables use the same protocol. A waiting row is due at `due_at`; the lease of a claimed row ends at `due_at`.
//! The holder is fenced by `owner` and `fence`.
//!
//! A claim starts from the hooks that have due work, each looked up by index. Its cost therefore depends on the number
//! of waiting hooks, not on the length of a hook's backlog.

use std::collections::HashSet;
use std::time::Duration;

use agentd_base::Timestamp;
use agentd_base::trace::TraceContext;
use agentd_core::lease::{HeldRow, LeaseTable};
use agentd_store::{Args, Read, Row, StoreError, Tx, args, in_list};

use crate::hooks::model::{HookDeliveryId, HookId};

/// One of the two queues; each is a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum QueueKind {
    Deliveries,
    Executions,
}

static DELIVERIES: LeaseTable =
    LeaseTable { table: "hook_deliveries", key: "id", until: "due_at", held: "status = 'processing'" };
static EXECUTIONS: LeaseTable =
    LeaseTable { table: "hook_executions", key: "id", until: "due_at", held: "status = 'running'" };

impl QueueKind {
    fn leases(self) -> &'static LeaseTable {
        match self {
            Self::Deliveries => &DELIVERIES,
            Self::Executions => &EXECUTIONS,
        }
    }

    fn table(self) -> &'static str {
        self.leases().table
    }

    /// Column with the claim time of a leased row.
    fn begun_at(self) -> &'static str {
        match self {
            Self::Deliveries => "updated_at",
            Self::Executions => "started_at",
        }
    }

    /// Further assignments of a claim.
    fn claimed(self) -> &'static str {
        match self {
            Self::Deliveries => "status = 'processing', updated_at = $2",
            Self::Executions => "status = 'running', started_at = $2",
        }
    }
}

/// Maximum time a hook waits for hooks of a higher priority to handle the same event.
const MAX_PRIORITY_WAIT: Duration = Duration::from_secs(1);

/// Unfinished work of a hook, due now or later.
#[derive(Debug, Clone)]
pub(crate) struct Backlog {
    pub(crate) hook_id: HookId,
    /// Earliest due time.
    pub(crate) due_at: Timestamp,
    /// When the next probe is permitted, if the circuit is open.
    pub(crate) open_until: Option<Timestamp>,
}

/// A claimed row.
#[derive(Debug, Clone)]
pub(crate) struct Claim {
    pub(crate) id: String,
    pub(crate) hook_id: HookId,
    pub(crate) event_id: String,
    pub(crate) event_type: String,
    /// The event as JSON.
    pub(crate) payload: String,
    pub(crate) depth: u32,
    /// Trace context of the event.
    pub(crate) trace: Option<TraceContext>,
    pub(crate) attempt_count: u32,
    pub(crate) held: HeldRow,
}

/// Returns every hook with unfinished work, with one index lookup per hook (a loose index scan). The explicit `ORDER
/// BY` selects the index of due rows; any other index would scan completed rows.
pub(crate) async fn list_backlogs(read: &mut Read, queue: QueueKind) -> Result<Vec<Backlog>, StoreError> {
    let sql = format!(
        "WITH RECURSIVE backlogs (hook_id) AS (\
         SELECT (SELECT t.hook_id FROM {table} t WHERE t.due_at IS NOT NULL ORDER BY t.hook_id, t.due_at LIMIT 1) \
         UNION ALL \
         SELECT (SELECT t.hook_id FROM {table} t WHERE t.due_at IS NOT NULL AND t.hook_id > backlogs.hook_id \
         ORDER BY t.hook_id, t.due_at LIMIT 1) FROM backlogs WHERE backlogs.hook_id IS NOT NULL) \
         SELECT backlogs.hook_id AS hook_id, \
         (SELECT t.due_at FROM {table} t WHERE t.due_at IS NOT NULL AND t.hook_id = backlogs.hook_id \
         ORDER BY t.due_at LIMIT 1) AS due_at, \
         (SELECT c.open_until FROM hook_circuits c WHERE c.hook_id = backlogs.hook_id) AS open_until \
         FROM backlogs WHERE backlogs.hook_id IS NOT NULL",
        table = queue.table()
    );
    let rows = read.fetch_all(sql, args![]).await?;
    let backlog = |row: &Row| {
        // NULL if another transaction completed the row meanwhile.
        let Some(due_at) = row.get("due_at")? else { return Ok(None) };
        Ok(Some(Backlog { hook_id: row.get("hook_id")?, due_at, open_until: row.get("open_until")? }))
    };
    rows.iter().filter_map(|row| backlog(row).transpose()).collect()
}

/// Claims up to `limit` due rows of a hook, oldest due time first. Excludes events that a hook of a higher priority has
/// not started yet, or has just started.
pub(crate) async fn claim(
    tx: &mut Tx,
    queue: QueueKind,
    (hook, higher_priority): (&HookId, &[String]),
    limit: usize,
    owner: &str,
    lease: Duration,
) -> Result<Vec<Claim>, StoreError> {
    let now = tx.clock().now();
    let mut values = args![hook, now, limit, owner, now + lease];
    let first = if higher_priority.is_empty() {
        String::new()
    } else {
        let waits = values.push(now - MAX_PRIORITY_WAIT);
        format!(
            "AND NOT EXISTS (SELECT 1 FROM {table} AS earlier WHERE earlier.hook_id IN ({list}) \
             AND earlier.event_id = {table}.event_id AND earlier.due_at IS NOT NULL \
             AND ((earlier.owner IS NOT NULL AND earlier.{begun_at} > ${waits}) \
             OR (earlier.owner IS NULL AND earlier.attempt_count = 0 AND {table}.created_at > ${waits})))",
            table = queue.table(),
            begun_at = queue.begun_at(),
            list = in_list(&mut values, &higher_priority.iter().map(String::as_str).collect::<Vec<_>>()),
        )
    };
    let sql = format!(
        "WITH due AS MATERIALIZED (SELECT id FROM {table} WHERE hook_id = $1 AND due_at <= $2 {first} \
         ORDER BY due_at, id LIMIT $3 {skip_locked}) \
         UPDATE {table} SET {claimed}, owner = $4, fence = fence + 1, due_at = $5 WHERE id IN (SELECT id FROM due) \
         RETURNING id, hook_id, event_id, event_type, payload, depth, attempt_count, owner, fence, traceparent",
        table = queue.table(),
        claimed = queue.claimed(),
        skip_locked = tx.dialect().skip_locked(),
    );
    let rows = tx.fetch_all(sql, values).await?;
    let mut claims: Vec<Claim> = rows.iter().map(|row| claimed(row, queue)).collect::<Result<_, StoreError>>()?;
    claims.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(claims)
}

/// Claims one row unconditionally.
pub(crate) async fn claim_one(
    tx: &mut Tx,
    queue: QueueKind,
    id: &str,
    owner: &str,
    lease: Duration,
) -> Result<Option<Claim>, StoreError> {
    let now = tx.clock().now();
    let sql = format!(
        "UPDATE {table} SET {claimed}, owner = $3, fence = fence + 1, due_at = $4 WHERE id = $1 \
         RETURNING id, hook_id, event_id, event_type, payload, depth, attempt_count, owner, fence, traceparent",
        table = queue.table(),
        claimed = queue.claimed(),
    );
    tx.fetch_optional(sql, args![id, now, owner, now + lease])
        .await?
        .as_ref()
        .map(|row| claimed(row, queue))
        .transpose()
}

fn claimed(row: &Row, queue: QueueKind) -> Result<Claim, StoreError> {
    Ok(Claim {
        id: row.get("id")?,
        hook_id: row.get("hook_id")?,
        event_id: row.get("event_id")?,
        event_type: row.get("event_type")?,
        payload: row.get("payload")?,
        depth: row.get("depth")?,
        trace: row.trace()?,
        attempt_count: row.get("attempt_count")?,
        held: queue.leases().lease_from_row(row)?,
    })
}

/// Counts waiting and running rows of both queues, each up to `limit`.
pub(crate) async fn count_unfinished(read: &mut Read, limit: u64) -> Result<u64, StoreError> {
    let sql = "SELECT (SELECT COUNT(*) FROM (SELECT 1 AS one FROM hook_deliveries WHERE due_at IS NOT NULL LIMIT $1) d) + \
               (SELECT COUNT(*) FROM (SELECT 1 AS one FROM hook_executions WHERE due_at IS NOT NULL LIMIT $1) e) AS waiting";
    read.fetch_one(sql, args![limit]).await?.get("waiting")
}

/// Counts waiting and running rows of one hook, up to `limit`.
pub(crate) async fn count_unfinished_of_hook(
    read: &mut Read,
    queue: QueueKind,
    hook: &HookId,
    limit: u64,
) -> Result<u64, StoreError> {
    let sql = format!(
        "SELECT COUNT(*) AS waiting FROM (SELECT 1 AS one FROM {} WHERE hook_id = $1 AND due_at IS NOT NULL LIMIT $2) w",
        queue.table()
    );
    read.fetch_one(sql, args![hook, limit]).await?.get("waiting")
}

/// Moves a delivery to the front of its hook's due work. Manually requested deliveries go first, even if an open
/// circuit permits only one probe.
pub(crate) async fn move_to_front(tx: &mut Tx, hook: &HookId, id: &HookDeliveryId) -> Result<(), StoreError> {
    let now = tx.clock().now();
    let sql = "SELECT due_at FROM hook_deliveries WHERE hook_id = $1 AND due_at <= $2 AND id <> $3 \
               ORDER BY due_at LIMIT 1";
    if let Some(earliest) = tx.fetch_optional(sql, args![hook, now, id]).await? {
        let before = earliest.get::<Timestamp>("due_at")? - Duration::from_micros(1);
        tx.execute("UPDATE hook_deliveries SET due_at = $2 WHERE id = $1", args![id, before]).await?;
    }
    Ok(())
}

/// Acquires the right to probe an open circuit, and postpones the next probe by `lease`. Returns whether this caller
/// acquired it.
pub(crate) async fn begin_probe(
    tx: &mut Tx,
    hook: &HookId,
    open_until: Timestamp,
    lease: Duration,
) -> Result<bool, StoreError> {
    let until = tx.clock().now() + lease;
    let sql = "UPDATE hook_circuits SET open_until = $3 WHERE hook_id = $1 AND open_until = $2";
    Ok(tx.execute(sql, args![hook, open_until, until]).await? == 1)
}

/// Returns which of the given hooks have a circuit, that is, failures since their last success.
pub(crate) async fn list_circuits(read: &mut Read, hooks: &[&str]) -> Result<HashSet<HookId>, StoreError> {
    let mut found = HashSet::new();
    for hooks in hooks.chunks(64) {
        let mut values = Args::new();
        let list = in_list(&mut values, hooks);
        let sql = format!("SELECT hook_id FROM hook_circuits WHERE hook_id IN ({list})");
        for row in read.fetch_all(sql, values).await? {
            found.insert(row.get("hook_id")?);
        }
    }
    Ok(found)
}

/// Closes the circuit of a hook and resets its failures.
pub(crate) async fn close_circuit(tx: &mut Tx, hook: &HookId) -> Result<(), StoreError> {
    tx.execute("DELETE FROM hook_circuits WHERE hook_id = $1", args![hook]).await?;
    Ok(())
}

/// Permits an immediate probe of an open circuit.
pub(crate) async fn permit_probe(tx: &mut Tx, hook: &HookId) -> Result<(), StoreError> {
    let now = tx.clock().now();
    let sql = "UPDATE hook_circuits SET open_until = $2 WHERE hook_id = $1 AND open_until > $2";
    tx.execute(sql, args![hook, now]).await?;
    Ok(())
}

/// Adds consecutive failures. Returns their number, how often the circuit has opened for them, and whether it is open.
pub(crate) async fn add_failures(tx: &mut Tx, hook: &HookId, count: u64) -> Result<(u64, u64, bool), StoreError> {
    let row = tx
        .fetch_one(
            "INSERT INTO hook_circuits (hook_id, failures, openings) VALUES ($1, $2, 0) ON CONFLICT (hook_id) \
             DO UPDATE SET failures = hook_circuits.failures + excluded.failures RETURNING failures, openings, open_until",
            args![hook, count],
        )
        .await?;
    let open_until: Option<Timestamp> = row.get("open_until")?;
    Ok((row.get("failures")?, row.get("openings")?, open_until.is_some()))
}

pub(crate) async fn open_circuit(
    tx: &mut Tx,
    hook: &HookId,
    openings: u64,
    until: Timestamp,
) -> Result<(), StoreError> {
    let sql = "UPDATE hook_circuits SET openings = $2, open_until = $3 WHERE hook_id = $1";
    tx.execute(sql, args![hook, openings, until]).await?;
    Ok(())
}

pub(crate) async fn count_open_circuits(read: &mut Read) -> Result<u64, StoreError> {
    let sql = "SELECT COUNT(*) AS circuits FROM hook_circuits WHERE open_until IS NOT NULL";
    read.fetch_one(sql, args![]).await?.get("circuits")
}
