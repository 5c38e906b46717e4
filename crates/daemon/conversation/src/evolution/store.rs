//! Rows with the turn counts of agents.

use agentd_base::Timestamp;
use agentd_engine::agents::AgentId;
use agentd_store::{Read, StoreError, Tx, args};

/// Turn count of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Progress {
    /// Number of turns since the last review.
    pub(super) turns: u64,
    /// Time up to which messages were reviewed.
    pub(super) considered_at: Option<Timestamp>,
}

/// Adds turns and returns the new count.
pub(super) async fn add_turns(tx: &mut Tx, agent: &AgentId, turns: u32) -> Result<u64, StoreError> {
    let row = tx
        .fetch_one(
            "INSERT INTO evolution (agent_id, turns) VALUES ($1, $2) \
             ON CONFLICT (agent_id) DO UPDATE SET turns = evolution.turns + excluded.turns RETURNING turns",
            args![agent, turns],
        )
        .await?;
    row.get("turns")
}

pub(super) async fn find_progress(read: &mut Read, agent: &AgentId) -> Result<Option<Progress>, StoreError> {
    let row =
        read.fetch_optional("SELECT turns, considered_at FROM evolution WHERE agent_id = $1", args![agent]).await?;
    row.map(|row| Ok(Progress { turns: row.get("turns")?, considered_at: row.get("considered_at")? })).transpose()
}

/// Subtracts the `seen` turns from the count. `considered_at`, if given, is the time up to which messages were
/// reviewed.
pub(super) async fn reset_count(
    tx: &mut Tx,
    agent: &AgentId,
    seen: u64,
    considered_at: Option<Timestamp>,
) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE evolution SET turns = CASE WHEN turns > $2 THEN turns - $2 ELSE 0 END, \
         considered_at = COALESCE($3, considered_at) WHERE agent_id = $1",
        args![agent, seen, considered_at],
    )
    .await
    .map(|_| ())
}

pub(super) async fn delete_progress(tx: &mut Tx, agent: &AgentId) -> Result<(), StoreError> {
    tx.execute("DELETE FROM evolution WHERE agent_id = $1", args![agent]).await.map(|_| ())
}
