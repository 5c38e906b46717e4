//! Messages whose episodes were deleted. Later summaries of their conversations exclude them.

use std::collections::BTreeSet;

use agentd_engine::agents::AgentId;
use agentd_store::{Args, Read, StoreError, Tx, args};

use super::placeholders;

/// Records the origin of an episode before it is deleted, if it was a message.
pub(crate) async fn record_forgotten(tx: &mut Tx, number: i64) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO memory_forgotten (origin, agent_id) SELECT origin, agent_id FROM episodes \
         WHERE number = $1 AND origin LIKE 'message:%' AND agent_id IS NOT NULL ON CONFLICT (origin) DO NOTHING",
        args![number],
    )
    .await
    .map(|_| ())
}

/// Returns those of `origins` whose episodes were deleted.
pub(crate) async fn find_forgotten(read: &mut Read, origins: &[String]) -> Result<BTreeSet<String>, StoreError> {
    if origins.is_empty() {
        return Ok(BTreeSet::new());
    }
    let mut args = Args::new();
    let placeholders = placeholders(&mut args, origins.iter().map(String::as_str));
    let sql = format!("SELECT origin FROM memory_forgotten WHERE origin IN ({placeholders})");
    read.fetch_all(sql, args).await?.iter().map(|row| row.get("origin")).collect()
}

/// Deletes up to `limit` rows of an agent; returns their number.
pub(crate) async fn delete_of_agent(tx: &mut Tx, agent: &AgentId, limit: u32) -> Result<u64, StoreError> {
    tx.execute(
        "DELETE FROM memory_forgotten WHERE origin IN \
         (SELECT origin FROM memory_forgotten WHERE agent_id = $1 LIMIT $2)",
        args![agent, limit],
    )
    .await
}
