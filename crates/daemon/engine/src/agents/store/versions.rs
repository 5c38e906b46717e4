//! Rows of instruction versions.

use agentd_base::Timestamp;
use agentd_store::{Read, Row, StoreError, Tx, args};

use crate::agents::model::{AgentId, AgentVersion, MAX_VERSIONS, VersionSource};

fn version(row: &Row) -> Result<AgentVersion, StoreError> {
    Ok(AgentVersion {
        version: row.get("version")?,
        instructions: row.get("instructions")?,
        source: VersionSource::from_stored(&row.get::<String>("source")?),
        reason: row.get("reason")?,
        created_at: row.get("created_at")?,
    })
}

/// Inserts the next version; deletes the oldest beyond the limit.
pub(crate) async fn insert_version(
    tx: &mut Tx,
    agent: &AgentId,
    instructions: &str,
    source: VersionSource,
    reason: Option<&str>,
    now: Timestamp,
) -> Result<(), StoreError> {
    let row = tx
        .fetch_one("SELECT COALESCE(MAX(version), 0) AS version FROM agent_versions WHERE agent_id = $1", args![agent])
        .await?;
    let version = row.get::<u32>("version")?.saturating_add(1);
    tx.execute(
        "INSERT INTO agent_versions (agent_id, version, instructions, source, reason, created_at) \
         VALUES ($1, $2, $3, $4, $5, $6)",
        args![agent, version, instructions, source.as_str(), reason, now],
    )
    .await?;
    tx.execute(
        "DELETE FROM agent_versions WHERE agent_id = $1 AND version <= $2",
        args![agent, version.saturating_sub(MAX_VERSIONS)],
    )
    .await
    .map(|_| ())
}

/// Returns a page of versions, newest first, and the total number.
pub(crate) async fn list_versions(
    read: &mut Read,
    agent: &AgentId,
    limit: u32,
    offset: u64,
) -> Result<(Vec<AgentVersion>, u64), StoreError> {
    let sql = "SELECT version, instructions, source, reason, created_at FROM agent_versions WHERE agent_id = $1 \
               ORDER BY version DESC LIMIT $2 OFFSET $3";
    let rows = read.fetch_all(sql, args![agent, limit, offset]).await?;
    let total = read.fetch_one("SELECT COUNT(*) FROM agent_versions WHERE agent_id = $1", args![agent]).await?;
    Ok((rows.iter().map(version).collect::<Result<_, _>>()?, total.first()?))
}

pub(crate) async fn find_version(
    read: &mut Read,
    agent: &AgentId,
    number: u32,
) -> Result<Option<AgentVersion>, StoreError> {
    let sql = "SELECT version, instructions, source, reason, created_at FROM agent_versions \
               WHERE agent_id = $1 AND version = $2";
    read.fetch_optional(sql, args![agent, number]).await?.as_ref().map(version).transpose()
}

/// Deletes all versions of an agent; their number is limited.
pub(super) async fn delete_versions(tx: &mut Tx, agent: &AgentId) -> Result<(), StoreError> {
    tx.execute("DELETE FROM agent_versions WHERE agent_id = $1", args![agent]).await.map(|_| ())
}
