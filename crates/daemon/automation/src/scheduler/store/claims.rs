//! Who works on a run. A claim is fenced by owner and a count that only rises; it ends when the run's session
//! begins, which has a lease of its own.

use std::time::Duration;

use agentd_base::Timestamp;
use agentd_core::lease::{HeldRow, LeaseTable};
use agentd_engine::engine::SessionId;
use agentd_store::{Read, StoreError, Tx, args};

use super::runs::{COLUMNS, run};
use crate::scheduler::model::{Run, RunId};

/// Runs of a job go one after the other unless they may overlap.
const IS_ITS_TURN: &str = "(r.may_overlap = 1 OR NOT EXISTS (SELECT 1 FROM job_runs o WHERE o.job_id = r.job_id \
    AND o.status IN ('pending', 'running') AND o.id <> r.id AND (o.status = 'running' OR o.id < r.id)))";

/// Claims end where a session begins.
static CLAIMS: LeaseTable =
    LeaseTable { table: "job_runs", key: "id", until: "due_at", held: "status = 'running' AND session_id IS NULL" };

fn claim_on(run: &Run) -> HeldRow {
    CLAIMS.held_by(run.id.as_str(), run.owner.as_deref().unwrap_or_default(), run.fence.into())
}

/// Claims up to `limit` runs that are due, the longest first: they are running from now on.
pub(crate) async fn claim_runs(tx: &mut Tx, owner: &str, limit: u32, lease: Duration) -> Result<Vec<Run>, StoreError> {
    let now = tx.clock().now();
    let sql = format!(
        "WITH due AS MATERIALIZED (SELECT r.id FROM job_runs r WHERE r.due_at <= $1 AND {IS_ITS_TURN} ORDER BY r.due_at, r.id LIMIT $2 {skip_locked}) \
         UPDATE job_runs SET status = 'running', owner = $3, fence = fence + 1, due_at = $4, session_id = NULL, \
         started_at = COALESCE(started_at, $1) WHERE id IN (SELECT id FROM due) RETURNING {COLUMNS}",
        skip_locked = tx.dialect().skip_locked(),
    );
    let rows = tx.fetch_all(sql, args![now, limit, owner, now + lease]).await?;
    let mut runs: Vec<Run> = rows.iter().map(run).collect::<Result<_, _>>()?;
    runs.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(runs)
}

/// When the next run may be claimed.
pub(crate) async fn next_claimable(read: &mut Read) -> Result<Option<Timestamp>, StoreError> {
    let sql = format!(
        "SELECT r.due_at FROM job_runs r WHERE r.due_at IS NOT NULL AND {IS_ITS_TURN} ORDER BY r.due_at, r.id LIMIT 1"
    );
    read.fetch_optional(sql, args![]).await?.map(|row| row.get("due_at")).transpose()
}

/// The claim becomes an attempt with a session.
///
/// # Errors
/// `StoreError::LostLease` if the claim does not stand any more.
pub(crate) async fn begin_attempt(
    tx: &mut Tx,
    run: &Run,
    session: &SessionId,
    deadline_at: Timestamp,
) -> Result<(), StoreError> {
    let change = "session_id = $4, attempt = attempt + 1, due_at = NULL, deadline_at = $5";
    claim_on(run).update(tx, change, args![session, deadline_at]).await
}

/// Whether a claim without a session still stands.
pub(crate) async fn is_held(read: &mut Read, run: &Run) -> Result<bool, StoreError> {
    claim_on(run).is_held(read).await
}

/// Gives a claim back: it may be claimed again at `due_at`.
///
/// # Errors
/// `StoreError::LostLease` if the claim does not stand any more.
pub(crate) async fn release_run(tx: &mut Tx, run: &Run, due_at: Timestamp) -> Result<(), StoreError> {
    claim_on(run).update(tx, "status = 'pending', owner = NULL, due_at = $4", args![due_at]).await
}

/// Extends these claims of an owner, as far as they have no session yet.
pub(crate) async fn renew_claims(tx: &mut Tx, owner: &str, runs: &[RunId], length: Duration) -> Result<(), StoreError> {
    let runs: Vec<&str> = runs.iter().map(RunId::as_str).collect();
    CLAIMS.extend_some(tx, Some(owner), &runs, length).await
}

/// Ends the claims of everybody but `owner`, for a daemon that has the database for itself.
pub(crate) async fn void_foreign_claims(tx: &mut Tx, owner: &str) -> Result<(), StoreError> {
    let now = tx.clock().now();
    let sql = "UPDATE job_runs SET due_at = $2 WHERE due_at IS NOT NULL AND status = 'running' AND owner <> $1";
    tx.execute(sql, args![owner, now]).await.map(|_| ())
}

/// When the next attempt will have used up its time.
pub(crate) async fn next_deadline(read: &mut Read) -> Result<Option<Timestamp>, StoreError> {
    let sql = "SELECT deadline_at FROM job_runs WHERE deadline_at IS NOT NULL ORDER BY deadline_at LIMIT 1";
    match read.fetch_optional(sql, args![]).await? {
        Some(row) => row.get("deadline_at").map(Some),
        None => Ok(None),
    }
}

/// Runs whose attempt has used up its time.
pub(crate) async fn list_overdue(read: &mut Read, now: Timestamp, limit: u32) -> Result<Vec<Run>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM job_runs WHERE deadline_at <= $1 ORDER BY deadline_at LIMIT $2");
    let rows = read.fetch_all(sql, args![now, limit]).await?;
    rows.iter().map(run).collect()
}

/// The attempt waits for its owner: that time is not its own.
pub(crate) async fn extend_deadline(tx: &mut Tx, id: &RunId, until: Timestamp) -> Result<(), StoreError> {
    let sql = "UPDATE job_runs SET deadline_at = $2 WHERE id = $1 AND deadline_at IS NOT NULL";
    tx.execute(sql, args![id, until]).await.map(|_| ())
}
