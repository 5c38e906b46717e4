//! Rows of what turns did besides what their logs show.

use agentd_store::{Read, StoreError, Tx, args};

use crate::engine::model::{SessionId, Step, StepKind};

/// Adds a step. One that is there already stays: a commit whose answer was lost came through after all.
pub(crate) async fn insert_step(tx: &mut Tx, session: &SessionId, step: &Step) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO session_steps (session_id, id, kind, started_at, ended_at, data) VALUES ($1, $2, $3, $4, $5, $6) \
         ON CONFLICT (session_id, id) DO NOTHING",
        args![session, step.id.as_str(), step.kind.as_str(), step.started_at, step.ended_at, step.data.to_string()],
    )
    .await
    .map(|_| ())
}

/// As many as there were calls of models.
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
