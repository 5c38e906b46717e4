//! Rows of sessions and of their events.

pub(super) mod approvals;
pub(super) mod parked;

use std::time::Duration;

use agentd_base::Timestamp;
use agentd_core::lease::LeaseTable;
use agentd_store::{Args, Read, Row, StoreError, Topic, Tx, args};

use super::model::{
    EventKind, Origin, OriginKind, Session, SessionEvent, SessionId, SessionStatus, Step, StepKind, TurnTrace,
};
use crate::agents::AgentId;

/// Notified when the cancellation of a session is requested in its row.
pub(super) const CANCELS: Topic = Topic::new("engine.cancels");

/// Rows per statement, largest first. A bounded number of statement texts keeps the prepared statement cache small.
const BATCHES: [usize; 4] = [64, 16, 4, 1];

const COLUMNS: &str = "id, agent_id, origin, job_id, run_id, key_id, project_id, conversation_id, message_id, transcript, \
    provider, model, \
    prompt_tokens_estimate, status, error_code, owner, started_at, completed_at, waiting_since, waited_micros, \
    traceparent";

fn session(row: &Row) -> Result<Session, StoreError> {
    let id: SessionId = row.get("id")?;
    Ok(Session {
        trace: TurnTrace::new(&id, row.trace()?),
        id,
        agent_id: row.get("agent_id")?,
        origin: Origin {
            kind: OriginKind::from_stored(&row.get::<String>("origin")?),
            job_id: row.get("job_id")?,
            run_id: row.get("run_id")?,
            key_id: row.get("key_id")?,
        },
        project_id: row.get("project_id")?,
        conversation_id: row.get("conversation_id")?,
        message_id: row.get("message_id")?,
        sink: row.get("transcript")?,
        provider: row.get("provider")?,
        model: row.get("model")?,
        prompt_tokens_estimate: row.get("prompt_tokens_estimate")?,
        status: SessionStatus::from_stored(&row.get::<String>("status")?),
        error_code: row.get("error_code")?,
        owner: row.get("owner")?,
        started_at: row.get("started_at")?,
        completed_at: row.get("completed_at")?,
        waiting_since: row.get("waiting_since")?,
        waited: Duration::from_micros(row.get::<u64>("waited_micros")?),
    })
}

/// Inserts a running session; returns whether its conversation had none.
pub(super) async fn insert_session(tx: &mut Tx, session: &Session, lease_until: Timestamp) -> Result<bool, StoreError> {
    let inserted = tx
        .execute(
            "INSERT INTO sessions (id, agent_id, conversation_id, message_id, transcript, provider, model, \
             prompt_tokens_estimate, status, owner, lease_until, started_at, origin, job_id, run_id, project_id, key_id, \
             traceparent) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 'running', $9, $10, $11, $12, $13, $14, $15, $16, $17) \
             ON CONFLICT DO NOTHING",
            args![
                &session.id,
                &session.agent_id,
                &session.conversation_id,
                &session.message_id,
                &session.sink,
                &session.provider,
                &session.model,
                session.prompt_tokens_estimate,
                &session.owner,
                lease_until,
                session.started_at,
                session.origin.kind.as_str(),
                &session.origin.job_id,
                &session.origin.run_id,
                session.project_id.as_deref(),
                &session.origin.key_id,
                session.trace.parent()
            ],
        )
        .await?;
    Ok(inserted == 1)
}

pub(super) async fn find_session(read: &mut Read, id: &SessionId) -> Result<Option<Session>, StoreError> {
    let row = read.fetch_optional(format!("SELECT {COLUMNS} FROM sessions WHERE id = $1"), args![id]).await?;
    row.as_ref().map(session).transpose()
}

/// Returns the sequence number of the last event. Event 0 is the row itself.
pub(super) async fn find_last_event(read: &mut Read, id: &SessionId) -> Result<u64, StoreError> {
    let sql = "SELECT COALESCE(MAX(seq), 0) FROM session_events WHERE session_id = $1";
    read.fetch_one(sql, args![id]).await?.first()
}

/// Returns the running turn of a conversation.
///
/// # Errors
/// A store error.
pub async fn find_running_in_conversation(
    read: &mut Read,
    conversation_id: &str,
) -> Result<Option<SessionId>, StoreError> {
    let row = read
        .fetch_optional(
            "SELECT id FROM sessions WHERE conversation_id = $1 AND status = 'running'",
            args![conversation_id],
        )
        .await?;
    row.map(|row| row.get("id")).transpose()
}

/// Returns running sessions that are not parked, with the end of their lease, the oldest lease first.
pub(super) async fn list_running(read: &mut Read, limit: u32) -> Result<Vec<(Session, Timestamp)>, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS}, lease_until FROM sessions \
         WHERE status = 'running' AND waiting_since IS NULL ORDER BY lease_until, id LIMIT $1"
    );
    let rows = read.fetch_all(sql, args![limit]).await?;
    rows.iter().map(|row| Ok((session(row)?, row.get("lease_until")?))).collect()
}

/// Sequence numbers of events are fencing tokens: a process that lost the session finds the next number taken.
static SESSIONS: LeaseTable =
    LeaseTable { table: "sessions", key: "id", until: "lease_until", held: "status = 'running'" };

pub(super) async fn renew_leases(tx: &mut Tx, owner: &str, length: Duration) -> Result<(), StoreError> {
    SESSIONS.extend_all(tx, owner, length).await
}

/// Ends a running session owned by `owner`; returns whether it did.
pub(super) async fn end_session(
    tx: &mut Tx,
    id: &SessionId,
    owner: &str,
    status: SessionStatus,
    error_code: Option<&str>,
) -> Result<bool, StoreError> {
    let now = tx.clock().now();
    let ended = tx
        .execute(
            "UPDATE sessions SET status = $3, error_code = $4, completed_at = $5 \
             WHERE id = $1 AND owner = $2 AND status = 'running'",
            args![id, owner, status.as_str(), error_code, now],
        )
        .await?;
    Ok(ended == 1)
}

/// Whether the lease is unchanged since it was read. A stalled owner may have renewed it.
pub(super) async fn has_lease(read: &mut Read, id: &SessionId, lease_until: Timestamp) -> Result<bool, StoreError> {
    let sql = "SELECT 1 FROM sessions WHERE id = $1 AND lease_until = $2";
    Ok(read.fetch_optional(sql, args![id, lease_until]).await?.is_some())
}

/// Returns the final status of a session that `owner` ended.
pub(super) async fn ended_by(
    read: &mut Read,
    id: &SessionId,
    owner: &str,
) -> Result<Option<SessionStatus>, StoreError> {
    let row = read
        .fetch_optional(
            "SELECT status FROM sessions WHERE id = $1 AND owner = $2 AND status <> 'running'",
            args![id, owner],
        )
        .await?;
    row.map(|row| Ok(SessionStatus::from_stored(&row.get::<String>("status")?))).transpose()
}

/// Inserts events; fails if a sequence number is taken or the session does not exist.
pub(super) async fn insert_events(tx: &mut Tx, id: &SessionId, events: &[SessionEvent]) -> Result<(), StoreError> {
    let mut left = events;
    while !left.is_empty() {
        let count = BATCHES.into_iter().find(|count| *count <= left.len()).unwrap_or(1);
        let (batch, rest) = left.split_at(count);
        let mut values = Args::with_capacity(1 + 4 * count);
        values.push(id);
        let mut sql = String::from("INSERT INTO session_events (session_id, seq, kind, data, at) VALUES ");
        for (position, event) in batch.iter().enumerate() {
            let comma = if position == 0 { "" } else { ", " };
            let seq = values.push(event.seq);
            let kind = values.push(event.kind.as_str());
            let data = values.push(&*event.data);
            let at = values.push(event.at);
            sql.push_str(&format!("{comma}($1, ${seq}, ${kind}, ${data}, ${at})"));
        }
        tx.execute(sql, values).await?;
        left = rest;
    }
    Ok(())
}

/// Returns stored events after `seen`, in order.
pub(super) async fn list_events(
    read: &mut Read,
    id: &SessionId,
    seen: u64,
    limit: u32,
) -> Result<Vec<SessionEvent>, StoreError> {
    let rows = read
        .fetch_all(
            "SELECT seq, kind, data, at FROM session_events WHERE session_id = $1 AND seq > $2 ORDER BY seq LIMIT $3",
            args![id, i64::try_from(seen).unwrap_or(i64::MAX), limit],
        )
        .await?;
    rows.iter().map(event).collect()
}

fn event(row: &Row) -> Result<SessionEvent, StoreError> {
    Ok(SessionEvent {
        seq: row.get("seq")?,
        kind: EventKind::from_stored(&row.get::<String>("kind")?),
        data: row.get("data")?,
        at: row.get("at")?,
    })
}

/// Variant of [`list_events`] without text events.
pub(super) async fn list_tool_events(
    read: &mut Read,
    id: &SessionId,
    seen: u64,
    limit: u32,
) -> Result<Vec<SessionEvent>, StoreError> {
    let sql = "SELECT seq, kind, data, at FROM session_events WHERE session_id = $1 AND seq > $2 AND kind <> 'token' \
               ORDER BY seq LIMIT $3";
    let seen = i64::try_from(seen).unwrap_or(i64::MAX);
    read.fetch_all(sql, args![id, seen, limit]).await?.iter().map(event).collect()
}

/// Requests the cancellation of a session; returns whether it was running.
pub(super) async fn request_cancel(tx: &mut Tx, id: &SessionId) -> Result<bool, StoreError> {
    let updated =
        tx.execute("UPDATE sessions SET cancel_requested = 1 WHERE id = $1 AND status = 'running'", args![id]).await?;
    tx.touch(CANCELS);
    Ok(updated == 1)
}

/// Requests the cancellation of a turn in the caller's transaction; no effect if it has ended.
///
/// # Errors
/// A store error.
pub async fn cancel_session(tx: &mut Tx, id: &SessionId) -> Result<(), StoreError> {
    request_cancel(tx, id).await.map(|_| ())
}

/// Requests the cancellation of a conversation's running turn in the caller's transaction.
///
/// # Errors
/// A store error.
pub async fn cancel_in_conversation(tx: &mut Tx, conversation_id: &str) -> Result<(), StoreError> {
    let updated = tx
        .execute(
            "UPDATE sessions SET cancel_requested = 1 WHERE conversation_id = $1 AND status = 'running'",
            args![conversation_id],
        )
        .await?;
    if updated > 0 {
        tx.touch(CANCELS);
    }
    Ok(())
}

pub(super) async fn cancel_of_agent(tx: &mut Tx, agent: &AgentId) -> Result<(), StoreError> {
    tx.execute("UPDATE sessions SET cancel_requested = 1 WHERE agent_id = $1 AND status = 'running'", args![agent])
        .await?;
    tx.touch(CANCELS);
    Ok(())
}

/// Returns the sessions of this owner whose cancellation is requested.
pub(super) async fn list_cancelled(read: &mut Read, owner: &str) -> Result<Vec<SessionId>, StoreError> {
    let rows = read
        .fetch_all(
            "SELECT id FROM sessions WHERE status = 'running' AND owner = $1 AND cancel_requested = 1",
            args![owner],
        )
        .await?;
    rows.iter().map(|row| row.get("id")).collect()
}

/// Returns sessions that ended before `before`, oldest first.
pub(super) async fn list_ended(read: &mut Read, before: Timestamp, limit: u32) -> Result<Vec<SessionId>, StoreError> {
    let rows = read
        .fetch_all(
            "SELECT id FROM sessions WHERE completed_at < $1 ORDER BY completed_at LIMIT $2",
            args![before, limit],
        )
        .await?;
    rows.iter().map(|row| row.get("id")).collect()
}

pub(super) async fn list_of_agent(read: &mut Read, agent: &AgentId, limit: u32) -> Result<Vec<SessionId>, StoreError> {
    let rows = read.fetch_all("SELECT id FROM sessions WHERE agent_id = $1 LIMIT $2", args![agent, limit]).await?;
    rows.iter().map(|row| row.get("id")).collect()
}

/// Deletes sessions of a deleted conversation with their events, up to about `limit` rows; returns whether all were
/// deleted.
///
/// # Errors
/// A store error.
pub async fn forget_sessions(tx: &mut Tx, ids: &[SessionId], limit: u32) -> Result<bool, StoreError> {
    delete_sessions(tx, ids, limit).await
}

/// Deletes sessions with their events, up to about `limit` rows; returns whether all were deleted.
pub(super) async fn delete_sessions(tx: &mut Tx, ids: &[SessionId], limit: u32) -> Result<bool, StoreError> {
    let mut left = u64::from(limit);
    for id in ids {
        let deleted = tx
            .execute(
                "DELETE FROM session_events WHERE session_id = $1 AND seq IN \
                 (SELECT seq FROM session_events WHERE session_id = $1 ORDER BY seq LIMIT $2)",
                args![id, left],
            )
            .await?;
        if deleted >= left {
            return Ok(false);
        }
        left -= deleted;
        tx.execute("DELETE FROM parked_turns WHERE session_id = $1", args![id]).await?;
        tx.execute("DELETE FROM approvals WHERE session_id = $1", args![id]).await?;
        tx.execute("DELETE FROM session_steps WHERE session_id = $1", args![id]).await?;
        tx.execute("DELETE FROM sessions WHERE id = $1", args![id]).await?;
    }
    Ok(true)
}

/// Inserts a step. An existing step is kept: an earlier commit may have succeeded although its response was lost.
pub(crate) async fn insert_step(tx: &mut Tx, session: &SessionId, step: &Step) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO session_steps (session_id, id, kind, started_at, ended_at, data) VALUES ($1, $2, $3, $4, $5, $6) \
         ON CONFLICT (session_id, id) DO NOTHING",
        args![session, step.id.as_str(), step.kind.as_str(), step.started_at, step.ended_at, step.data.to_string()],
    )
    .await
    .map(|_| ())
}

/// Returns the steps of a session; bounded by its number of model calls and recalls.
pub(crate) async fn list_steps(read: &mut Read, session: &SessionId) -> Result<Vec<Step>, StoreError> {
    let sql = "SELECT id, kind, started_at, ended_at, data FROM session_steps WHERE session_id = $1 ORDER BY id";
    let rows = read.fetch_all(sql, args![session]).await?;
    rows.iter()
        .map(|row| {
            let kind: String = row.get("kind")?;
            Ok(Step {
                id: row.get("id")?,
                kind: if kind == StepKind::Recall.as_str() { StepKind::Recall } else { StepKind::ModelCall },
                started_at: row.get("started_at")?,
                ended_at: row.get("ended_at")?,
                data: row.json("data")?,
            })
        })
        .collect()
}
