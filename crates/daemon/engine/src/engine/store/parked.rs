//! Rows of parked turns, which wait for an approval without an owner.

use std::time::Duration;

use agentd_base::Timestamp;
use agentd_store::{Read, StoreError, Tx, args};

use crate::engine::model::SessionId;

/// Parks a session owned by `owner` and stores its state; returns whether it was owned.
pub(crate) async fn park(
    tx: &mut Tx,
    id: &SessionId,
    owner: &str,
    state: &str,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let parked = tx
        .execute(
            "UPDATE sessions SET waiting_since = $3, owner = '' WHERE id = $1 AND owner = $2 AND status = 'running'",
            args![id, owner, now],
        )
        .await?;
    if parked == 0 {
        return Ok(false);
    }
    tx.execute(
        "INSERT INTO parked_turns (session_id, state) VALUES ($1, $2) \
         ON CONFLICT (session_id) DO UPDATE SET state = excluded.state",
        args![id, state],
    )
    .await?;
    Ok(true)
}

/// Claims a parked session whose approvals are all decided or whose cancellation is requested. Returns whether the
/// claim succeeded.
pub(crate) async fn claim(tx: &mut Tx, id: &SessionId, owner: &str, lease: Duration) -> Result<bool, StoreError> {
    let now = tx.clock().now();
    let claimed = tx
        .execute(
            "UPDATE sessions SET waited_micros = waited_micros + \
             CASE WHEN waiting_since < $4 THEN $4 - waiting_since ELSE 0 END, \
             waiting_since = NULL, owner = $2, lease_until = $3 \
             WHERE id = $1 AND status = 'running' AND waiting_since IS NOT NULL AND (cancel_requested = 1 OR NOT EXISTS \
             (SELECT 1 FROM approvals WHERE session_id = $1 AND approvals.status = 'pending'))",
            args![id, owner, now + lease, now],
        )
        .await?;
    Ok(claimed == 1)
}

/// Parks a session again whose owner died before it did anything.
pub(crate) async fn park_again(tx: &mut Tx, id: &SessionId, owner: &str, now: Timestamp) -> Result<bool, StoreError> {
    let waiting = tx
        .execute(
            "UPDATE sessions SET waiting_since = $3, owner = '' WHERE id = $1 AND owner = $2 AND status = 'running' \
             AND EXISTS (SELECT 1 FROM parked_turns WHERE session_id = $1)",
            args![id, owner, now],
        )
        .await?;
    Ok(waiting == 1)
}

pub(crate) async fn find_state(read: &mut Read, id: &SessionId) -> Result<Option<String>, StoreError> {
    let row = read.fetch_optional("SELECT state FROM parked_turns WHERE session_id = $1", args![id]).await?;
    row.map(|row| row.get("state")).transpose()
}

pub(crate) async fn delete_state(tx: &mut Tx, id: &SessionId) -> Result<(), StoreError> {
    tx.execute("DELETE FROM parked_turns WHERE session_id = $1", args![id]).await.map(|_| ())
}

/// Returns parked sessions whose approvals are all decided or whose cancellation is requested.
pub(crate) async fn list_decided(read: &mut Read, limit: u32) -> Result<Vec<SessionId>, StoreError> {
    let rows = read
        .fetch_all(
            "SELECT id FROM sessions WHERE status = 'running' AND waiting_since IS NOT NULL AND \
             (cancel_requested = 1 OR NOT EXISTS \
             (SELECT 1 FROM approvals WHERE approvals.session_id = sessions.id AND approvals.status = 'pending')) \
             ORDER BY waiting_since LIMIT $1",
            args![limit],
        )
        .await?;
    rows.iter().map(|row| row.get("id")).collect()
}

/// Whether the cancellation of the session is requested.
pub(crate) async fn is_cancelled(read: &mut Read, id: &SessionId) -> Result<bool, StoreError> {
    let row = read.fetch_optional("SELECT 1 FROM sessions WHERE id = $1 AND cancel_requested = 1", args![id]).await?;
    Ok(row.is_some())
}
