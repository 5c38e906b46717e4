//! Rows of approvals.

use agentd_base::Timestamp;
use agentd_store::{NewEvent, Read, Row, StoreError, Tx, args};
use serde_json::json;

use crate::agents::AgentId;
use crate::engine::model::{Approval, ApprovalId, ApprovalStatus, SessionId, Sources};

const COLUMNS: &str = "id, kind, agent_id, session_id, conversation_id, call_id, tool, input, input_sha256, status, \
    untrusted_sources, reason, requested_at, expires_at, decided_at";

fn approval(row: &Row) -> Result<Approval, StoreError> {
    let sources = Sources::from_stored(row.get::<Option<String>>("untrusted_sources")?.as_deref());
    Ok(Approval {
        id: row.get("id")?,
        kind: row.get("kind")?,
        agent_id: row.get("agent_id")?,
        session_id: row.get("session_id")?,
        conversation_id: row.get("conversation_id")?,
        call_id: row.get("call_id")?,
        tool: row.get("tool")?,
        // Written by us from a value, so it is JSON.
        input: serde_json::from_str(&row.get::<String>("input")?).unwrap_or_default(),
        input_sha256: row.get("input_sha256")?,
        status: ApprovalStatus::from_stored(&row.get::<String>("status")?),
        request_reason: sources.reason(),
        untrusted_sources: sources,
        reason: row.get("reason")?,
        requested_at: row.get("requested_at")?,
        expires_at: row.get("expires_at")?,
        decided_at: row.get("decided_at")?,
    })
}

pub(crate) async fn insert_approval(tx: &mut Tx, approval: &Approval) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO approvals (id, kind, agent_id, session_id, conversation_id, call_id, tool, input, input_sha256, \
         status, requested_at, expires_at, untrusted_sources) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, 'pending', $10, $11, $12)",
        args![
            &approval.id,
            &approval.kind,
            &approval.agent_id,
            &approval.session_id,
            &approval.conversation_id,
            &approval.call_id,
            &approval.tool,
            approval.input.to_string(),
            &approval.input_sha256,
            approval.requested_at,
            approval.expires_at,
            approval.untrusted_sources.to_stored()
        ],
    )
    .await?;
    tx.emit(event("approval.requested", approval)).await.map(|_| ())
}

/// The input is omitted: it may be long and is only for the owner.
fn event(event_type: &str, approval: &Approval) -> NewEvent {
    let data = json!({
        "approval_id": approval.id,
        "kind": approval.kind,
        "tool": approval.tool,
        "agent_id": approval.agent_id,
        "session_id": approval.session_id,
        "conversation_id": approval.conversation_id,
        "status": approval.status,
        "expires_at": approval.expires_at,
    });
    NewEvent::new(event_type, data).for_agent(approval.agent_id.as_str())
}

/// Parses the rows of an `UPDATE` that decided approvals and emits their events.
async fn emit_decided(tx: &mut Tx, rows: &[Row]) -> Result<Vec<Approval>, StoreError> {
    let decided: Vec<Approval> = rows.iter().map(approval).collect::<Result<_, _>>()?;
    if !decided.is_empty() {
        tx.emit_all(decided.iter().map(|approval| event("approval.decided", approval)).collect()).await?;
    }
    Ok(decided)
}

pub(crate) async fn find_approval(read: &mut Read, id: &ApprovalId) -> Result<Option<Approval>, StoreError> {
    let row = read.fetch_optional(format!("SELECT {COLUMNS} FROM approvals WHERE id = $1"), args![id]).await?;
    row.as_ref().map(approval).transpose()
}

/// Returns a page, newest first, and the total number. Overdue approvals count as expired before the expiry is
/// stored.
pub(crate) async fn list_approvals(
    read: &mut Read,
    status: Option<ApprovalStatus>,
    now: Timestamp,
    limit: u32,
    offset: u64,
) -> Result<(Vec<Approval>, u64), StoreError> {
    // An empty status matches any.
    let status = status.map_or("", ApprovalStatus::as_str);
    let matches = "($1 = '' OR CASE WHEN status = 'pending' AND expires_at <= $2 THEN 'expired' ELSE status END = $1)";
    let sql = format!(
        "SELECT {COLUMNS} FROM approvals WHERE {matches} ORDER BY requested_at DESC, id DESC LIMIT $3 OFFSET $4"
    );
    let rows = read.fetch_all(sql, args![status, now, limit, offset]).await?;
    let total =
        read.fetch_one(format!("SELECT COUNT(*) FROM approvals WHERE {matches}"), args![status, now]).await?.first()?;
    let found = rows.iter().map(|row| {
        let mut found = approval(row)?;
        if found.status == ApprovalStatus::Pending && found.expires_at <= now {
            found.status = ApprovalStatus::Expired;
        }
        Ok(found)
    });
    Ok((found.collect::<Result<_, StoreError>>()?, total))
}

pub(crate) async fn list_of_session(read: &mut Read, session: &SessionId) -> Result<Vec<Approval>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM approvals WHERE session_id = $1");
    read.fetch_all(sql, args![session]).await?.iter().map(approval).collect()
}

/// Whether the session has pending approvals; locks them until the transaction ends. The rows are written so that on
/// PostgreSQL a decision and the parking of its turn conflict.
pub(crate) async fn lock_pending(tx: &mut Tx, session: &SessionId) -> Result<bool, StoreError> {
    let held = tx
        .execute("UPDATE approvals SET status = 'pending' WHERE session_id = $1 AND status = 'pending'", args![session])
        .await?;
    Ok(held > 0)
}

pub(crate) async fn find_pending(read: &mut Read, kind: &str, agent: &AgentId) -> Result<Option<Approval>, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM approvals WHERE agent_id = $1 AND kind = $2 AND status = 'pending' \
         ORDER BY requested_at, id LIMIT 1"
    );
    read.fetch_optional(sql, args![agent, kind]).await?.as_ref().map(approval).transpose()
}

/// Returns approvals that are pending at `now`, newest first.
pub(crate) async fn list_pending(read: &mut Read, now: Timestamp, limit: u32) -> Result<Vec<Approval>, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM approvals WHERE status = 'pending' AND expires_at > $1 \
         ORDER BY requested_at DESC, id DESC LIMIT $2"
    );
    read.fetch_all(sql, args![now, limit]).await?.iter().map(approval).collect()
}

/// Returns approvals that are not pending at `now`, newest first.
pub(crate) async fn list_decided(read: &mut Read, now: Timestamp, limit: u32) -> Result<Vec<ApprovalId>, StoreError> {
    let sql = "SELECT id FROM approvals WHERE status <> 'pending' OR expires_at <= $1 \
               ORDER BY requested_at DESC, id DESC LIMIT $2";
    read.fetch_all(sql, args![now, limit]).await?.iter().map(Row::first).collect()
}

/// Stores a decision; returns whether the approval was pending.
pub(crate) async fn decide(
    tx: &mut Tx,
    id: &ApprovalId,
    status: ApprovalStatus,
    reason: Option<&str>,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let sql = format!(
        "UPDATE approvals SET status = $2, reason = $3, decided_at = $4 WHERE id = $1 AND status = 'pending' \
         RETURNING {COLUMNS}"
    );
    let rows = tx.fetch_all(sql, args![id, status.as_str(), reason, now]).await?;
    Ok(emit_decided(tx, &rows).await?.len() == 1)
}

/// Cancels the pending approvals of a session that has ended.
pub(crate) async fn cancel_of_session(tx: &mut Tx, session: &SessionId, now: Timestamp) -> Result<(), StoreError> {
    let sql = format!(
        "UPDATE approvals SET status = 'cancelled', decided_at = $2 WHERE session_id = $1 AND status = 'pending' \
         RETURNING {COLUMNS}"
    );
    let rows = tx.fetch_all(sql, args![session, now]).await?;
    emit_decided(tx, &rows).await.map(|_| ())
}

/// Cancels the pending approvals of a deleted agent.
pub(crate) async fn cancel_of_agent(tx: &mut Tx, agent: &AgentId, reason: &str) -> Result<(), StoreError> {
    let now = tx.clock().now();
    let sql = format!(
        "UPDATE approvals SET status = 'cancelled', reason = $3, decided_at = $2 \
         WHERE agent_id = $1 AND status = 'pending' RETURNING {COLUMNS}"
    );
    let rows = tx.fetch_all(sql, args![agent, now, reason]).await?;
    emit_decided(tx, &rows).await.map(|_| ())
}

/// Returns the earliest expiry of a pending approval.
pub(crate) async fn next_expiry(read: &mut Read) -> Result<Option<Timestamp>, StoreError> {
    let sql = "SELECT expires_at FROM approvals WHERE status = 'pending' ORDER BY expires_at LIMIT 1";
    read.fetch_optional(sql, args![]).await?.map(|row| row.first()).transpose()
}

/// Expires the oldest overdue approvals and returns them.
pub(crate) async fn expire(tx: &mut Tx, now: Timestamp, limit: u32) -> Result<Vec<Approval>, StoreError> {
    let sql = format!(
        "UPDATE approvals SET status = 'expired', decided_at = $1 WHERE id IN \
         (SELECT id FROM approvals WHERE status = 'pending' AND expires_at <= $1 ORDER BY expires_at LIMIT $2) \
         RETURNING {COLUMNS}"
    );
    let rows = tx.fetch_all(sql, args![now, limit]).await?;
    emit_decided(tx, &rows).await
}

/// Deletes old decisions.
pub(crate) async fn delete_decided(tx: &mut Tx, before: Timestamp, limit: u32) -> Result<u64, StoreError> {
    tx.execute(
        "DELETE FROM approvals WHERE id IN (SELECT id FROM approvals WHERE status <> 'pending' AND decided_at < $1 \
         LIMIT $2)",
        args![before, limit],
    )
    .await
}

pub(crate) async fn delete_of_agent(tx: &mut Tx, agent: &AgentId, limit: u32) -> Result<u64, StoreError> {
    tx.execute(
        "DELETE FROM approvals WHERE id IN (SELECT id FROM approvals WHERE agent_id = $1 LIMIT $2)",
        args![agent, limit],
    )
    .await
}
