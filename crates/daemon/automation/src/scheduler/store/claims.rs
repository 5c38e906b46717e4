//! Claims of runs. A claim is fenced by its owner and a monotonic counter. It ends when the session of the run starts,
//! which has its own lease.

use std::time::Duration;

use agentd_base::Timestamp;
use agentd_core::lease::{HeldRow, LeaseTable};
use agentd_engine::engine::SessionId;
use agentd_store::{Read, StoreError, Tx, args};

use super::runs::{COLUMNS, run};
use crate::scheduler::model::{Run, RunId};

/// Runs of a job are sequential unless they may overlap.
const MAY_START: &str = "(r.may_overlap = 1 OR NOT EXISTS (SELECT 1 FROM job_runs o WHERE o.job_id = r.job_id \
    AND o.status IN ('pending', 'running') AND o.id <> r.id AND (o.status = 'running' OR o.id < r.id)))";

/// Claims cover running runs without a session.
static CLAIMS: LeaseTable =
    LeaseTable { table: "job_runs", key: "id", until: "due_at", held: "status = 'running' AND session_id IS NULL" };

fn claim_on(run: &Run) -> HeldRow {
    CLAIMS.lease(run.id.as_str(), run.owner.as_deref().unwrap_or_default(), run.fence.into())
}

/// Claims up to `limit` due runs, oldest due time first, and marks them as running.
pub(crate) async fn claim_runs(tx: &mut Tx, owner: &str, limit: u32, lease: Duration) -> Result<Vec<Run>, StoreError> {
    let now = tx.clock().now();
    let sql = format!(
        "WITH due AS MATERIALIZED (SELECT r.id FROM job_runs r WHERE r.due_at <= $1 AND {MAY_START} ORDER BY r.due_at, r.id LIMIT $2 {skip_locked}) \
         UPDATE job_runs SET status = 'running', owner = $3, fence = fence + 1, due_at = $4, session_id = NULL, \
         started_at = COALESCE(started_at, $1) WHERE id IN (SELECT id FROM due) RETURNING {COLUMNS}",
        skip_locked = tx.dialect().skip_locked(),
    );
    let rows = tx.fetch_all(sql, args![now, limit, owner, now + lease]).await?;
    let mut runs: Vec<Run> = rows.iter().map(run).collect::<Result<_, _>>()?;
    runs.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(runs)
}

/// Returns when the next run may be claimed.
pub(crate) async fn next_claimable(read: &mut Read) -> Result<Option<Timestamp>, StoreError> {
    let sql = format!(
        "SELECT r.due_at FROM job_runs r WHERE r.due_at IS NOT NULL AND {MAY_START} ORDER BY r.due_at, r.id LIMIT 1"
    );
    read.fetch_optional(sql, args![]).await?.map(|row| row.get("due_at")).transpose()
}

/// Converts a claim to an attempt with a session.
///
/// # Errors
/// `StoreError::LostLease` if the claim was lost.
pub(crate) async fn begin_attempt(
    tx: &mut Tx,
    run: &Run,
    session: &SessionId,
    deadline_at: Timestamp,
) -> Result<(), StoreError> {
    let change = "session_id = $4, attempt = attempt + 1, due_at = NULL, deadline_at = $5";
    claim_on(run).update(tx, change, args![session, deadline_at]).await
}

/// Whether a claim without a session is still held.
pub(crate) async fn is_held(read: &mut Read, run: &Run) -> Result<bool, StoreError> {
    claim_on(run).is_held(read).await
}

/// Releases a claim. The run may be claimed again at `due_at`.
///
/// # Errors
/// `StoreError::LostLease` if the claim was lost.
pub(crate) async fn release_run(tx: &mut Tx, run: &Run, due_at: Timestamp) -> Result<(), StoreError> {
    claim_on(run).update(tx, "status = 'pending', owner = NULL, due_at = $4", args![due_at]).await
}

/// Extends those of the given claims of an owner that have no session.
pub(crate) async fn renew_claims(tx: &mut Tx, owner: &str, runs: &[RunId], length: Duration) -> Result<(), StoreError> {
    let runs: Vec<&str> = runs.iter().map(RunId::as_str).collect();
    CLAIMS.extend_some(tx, Some(owner), &runs, length).await
}

/// Expires the claims of all other owners. Used by a daemon with exclusive access to the database.
pub(crate) async fn void_foreign_claims(tx: &mut Tx, owner: &str) -> Result<(), StoreError> {
    let now = tx.clock().now();
    let sql = "UPDATE job_runs SET due_at = $2 WHERE due_at IS NOT NULL AND status = 'running' AND owner <> $1";
    tx.execute(sql, args![owner, now]).await.map(|_| ())
}

/// Returns the earliest deadline of an attempt.
pub(crate) async fn next_deadline(read: &mut Read) -> Result<Option<Timestamp>, StoreError> {
    let sql = "SELECT deadline_at FROM job_runs WHERE deadline_at IS NOT NULL ORDER BY deadline_at LIMIT 1";
    match read.fetch_optional(sql, args![]).await? {
        Some(row) => row.get("deadline_at").map(Some),
        None => Ok(None),
    }
}

/// Returns runs whose attempt has reached its deadline.
pub(crate) async fn list_overdue(read: &mut Read, now: Timestamp, limit: u32) -> Result<Vec<Run>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM job_runs WHERE deadline_at <= $1 ORDER BY deadline_at LIMIT $2");
    let rows = read.fetch_all(sql, args![now, limit]).await?;
    rows.iter().map(run).collect()
}

/// Extends the deadline of an attempt by time spent waiting for approval.
pub(crate) async fn extend_deadline(tx: &mut Tx, id: &RunId, until: Timestamp) -> Result<(), StoreError> {
    let sql = "UPDATE job_runs SET deadline_at = $2 WHERE id = $1 AND deadline_at IS NOT NULL";
    tx.execute(sql, args![id, until]).await.map(|_| ())
}
