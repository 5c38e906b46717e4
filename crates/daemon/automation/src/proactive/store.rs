//! Rows of proactive turns.

use agentd_base::{Page, Timestamp};
use agentd_engine::agents::{AgentId, live_agent_condition};
use agentd_store::{Read, Row, StoreError, Tx, args};

use super::model::{CauseKind, Outcome, ProactiveTurn, ProactiveTurnId, TurnStatus};

const COLUMNS: &str = "id, agent_id, day, ordinal, cause, cause_id, job_id, subject, reason, status, session_id, output, \
    error, started_at, completed_at";

const IS_EXPIRED: &str = "started_at < $1 AND cause = 'failed_run' AND status <> 'running'";

fn turn(row: &Row) -> Result<ProactiveTurn, StoreError> {
    Ok(ProactiveTurn {
        id: row.get("id")?,
        agent_id: row.get("agent_id")?,
        day: row.get("day")?,
        ordinal: row.get("ordinal")?,
        cause: CauseKind::from_stored(&row.get::<String>("cause")?),
        cause_id: row.get("cause_id")?,
        job_id: row.get("job_id")?,
        subject: row.get("subject")?,
        reason: row.get("reason")?,
        status: TurnStatus::from_stored(&row.get::<String>("status")?),
        session_id: row.get("session_id")?,
        output: row.get("output")?,
        error: row.get("error")?,
        started_at: row.get("started_at")?,
        completed_at: row.get("completed_at")?,
    })
}

/// Inserts a starting turn. Returns false if its ordinal of the day or its cause already has a turn.
pub(super) async fn insert_turn(tx: &mut Tx, turn: &ProactiveTurn) -> Result<bool, StoreError> {
    let added = tx
        .execute(
            "INSERT INTO proactive_turns (id, agent_id, day, ordinal, cause, cause_id, job_id, subject, reason, status, \
             session_id, started_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) ON CONFLICT DO NOTHING",
            args![
                &turn.id,
                &turn.agent_id,
                turn.day.as_str(),
                turn.ordinal,
                turn.cause.as_str(),
                turn.cause_id.as_str(),
                turn.job_id.as_deref(),
                turn.subject.as_str(),
                turn.reason.as_str(),
                turn.status.as_str(),
                turn.session_id.as_deref(),
                turn.started_at
            ],
        )
        .await?;
    Ok(added == 1)
}

/// Counts the turns that an agent started on a day.
pub(super) async fn count_on_day(read: &mut Read, agent: &AgentId, day: &str) -> Result<u64, StoreError> {
    let sql = "SELECT COUNT(*) FROM proactive_turns WHERE agent_id = $1 AND day = $2";
    read.fetch_one(sql, args![agent, day]).await?.first()
}

pub(super) async fn has_turn(read: &mut Read, cause: CauseKind, cause_id: &str) -> Result<bool, StoreError> {
    let sql = "SELECT id FROM proactive_turns WHERE cause = $1 AND cause_id = $2";
    Ok(read.fetch_optional(sql, args![cause.as_str(), cause_id]).await?.is_some())
}

/// Returns a turn whose agent exists.
pub(super) async fn find_turn(read: &mut Read, id: &ProactiveTurnId) -> Result<Option<ProactiveTurn>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM proactive_turns WHERE id = $1 AND agent_id IS NOT NULL");
    read.fetch_optional(sql, args![id]).await?.as_ref().map(turn).transpose()
}

/// Ends a running turn. Returns false if it had already ended.
pub(super) async fn end_turn(tx: &mut Tx, id: &ProactiveTurnId, outcome: &Outcome) -> Result<bool, StoreError> {
    let now = tx.clock().now();
    let (output, error) = (outcome.output.as_deref(), outcome.error.as_deref());
    let ended = tx
        .execute(
            "UPDATE proactive_turns SET status = $2, output = $3, error = $4, completed_at = $5 \
             WHERE id = $1 AND status = 'running'",
            args![id, outcome.status.as_str(), output, error, now],
        )
        .await?;
    Ok(ended == 1)
}

/// Returns a page of turns of existing agents, newest first, and their total number.
pub(super) async fn list_turns(
    read: &mut Read,
    agent: Option<&AgentId>,
    page: Page,
) -> Result<(Vec<ProactiveTurn>, u64), StoreError> {
    let mut values = args![];
    let mut condition = live_agent_condition("proactive_turns.agent_id");
    if let Some(agent) = agent {
        condition.push_str(&format!(" AND agent_id = ${}", values.push(agent)));
    }
    let sql = format!("SELECT COUNT(*) FROM proactive_turns WHERE {condition}");
    let total = read.fetch_one(sql, values.clone()).await?.first()?;
    let (limit, offset) = (values.push(page.limit), values.push(page.offset));
    let sql = format!(
        "SELECT {COLUMNS} FROM proactive_turns WHERE {condition} ORDER BY started_at DESC, id DESC \
         LIMIT ${limit} OFFSET ${offset}"
    );
    let rows = read.fetch_all(sql, values).await?;
    Ok((rows.iter().map(turn).collect::<Result<_, _>>()?, total))
}

/// Whether [`purge_turns`] would delete rows.
pub(super) async fn has_expired(read: &mut Read, before: Timestamp) -> Result<bool, StoreError> {
    let sql = format!("SELECT id FROM proactive_turns WHERE {IS_EXPIRED} ORDER BY started_at LIMIT 1");
    Ok(read.fetch_optional(sql, args![before]).await?.is_some())
}

/// Deletes up to `limit` turns about failed runs that started before `before` and returns their number. Turns about
/// suggestions are retained, because each suggestion is made only once; there are at most a few hundred.
pub(super) async fn purge_turns(tx: &mut Tx, before: Timestamp, limit: u32) -> Result<u64, StoreError> {
    let sql = format!(
        "DELETE FROM proactive_turns WHERE id IN \
         (SELECT id FROM proactive_turns WHERE {IS_EXPIRED} ORDER BY started_at LIMIT $2)"
    );
    tx.execute(sql, args![before, limit]).await
}

/// Deletes up to `limit` turns of a deleted agent and returns their number. Turns about suggestions are only
/// anonymized.
pub(super) async fn forget_agent(tx: &mut Tx, agent: &AgentId, limit: u32) -> Result<u64, StoreError> {
    let deleted = tx
        .execute(
            "DELETE FROM proactive_turns WHERE id IN (SELECT id FROM proactive_turns WHERE agent_id = $1 \
             AND cause = 'failed_run' LIMIT $2)",
            args![agent, limit],
        )
        .await?;
    if deleted >= u64::from(limit) {
        return Ok(deleted);
    }
    let emptied = tx
        .execute(
            "UPDATE proactive_turns SET agent_id = NULL, session_id = NULL, output = NULL, error = NULL \
             WHERE agent_id = $1",
            args![agent],
        )
        .await?;
    Ok(deleted + emptied)
}
