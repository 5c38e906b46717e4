//! Progress of the memory jobs in each conversation.

use std::collections::HashMap;

use agentd_engine::agents::AgentId;
use agentd_store::{Args, Read, StoreError, Tx, args};

use super::placeholders;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ConversationProgress {
    /// Position of the last processed message.
    pub through: u64,
    /// Revision of the conversation when its last message was processed.
    pub revision: u64,
    /// Revision of the conversation when it was summarized.
    pub insight_revision: u64,
}

/// Returns the progress of the given conversations; conversations without progress are omitted.
pub(crate) async fn find_progress(
    read: &mut Read,
    ids: &[&str],
) -> Result<HashMap<String, ConversationProgress>, StoreError> {
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let mut args = Args::new();
    let placeholders = placeholders(&mut args, ids.iter().copied());
    let sql = format!(
        "SELECT conversation_id, through, revision, insight_revision FROM memory_talks \
         WHERE conversation_id IN ({placeholders})"
    );
    let rows = read.fetch_all(sql, args).await?;
    rows.iter()
        .map(|row| {
            let progress = ConversationProgress {
                through: row.get("through")?,
                revision: row.get("revision")?,
                insight_revision: row.get("insight_revision")?,
            };
            Ok((row.get("conversation_id")?, progress))
        })
        .collect()
}

/// Advances a conversation from `before` to `after`; returns `false` if another run advanced it first.
pub(crate) async fn advance(
    tx: &mut Tx,
    conversation: &str,
    agent: &AgentId,
    before: ConversationProgress,
    after: ConversationProgress,
) -> Result<bool, StoreError> {
    let updated_rows = tx
        .execute(
            "INSERT INTO memory_talks (conversation_id, agent_id, through, revision, insight_revision) \
             VALUES ($1, $2, $3, $4, $5) ON CONFLICT (conversation_id) DO UPDATE \
             SET through = excluded.through, revision = excluded.revision, \
             insight_revision = excluded.insight_revision \
             WHERE memory_talks.through = $6 AND memory_talks.revision = $7 AND memory_talks.insight_revision = $8",
            args![
                conversation,
                agent,
                after.through,
                after.revision,
                after.insight_revision,
                before.through,
                before.revision,
                before.insight_revision
            ],
        )
        .await?;
    Ok(updated_rows == 1)
}

/// Deletes the progress of up to `limit` conversations of an agent; returns their number.
pub(crate) async fn delete_of_agent(tx: &mut Tx, agent: &AgentId, limit: u32) -> Result<u64, StoreError> {
    tx.execute(
        "DELETE FROM memory_talks WHERE conversation_id IN \
         (SELECT conversation_id FROM memory_talks WHERE agent_id = $1 LIMIT $2)",
        args![agent, limit],
    )
    .await
}

/// Returns ids of conversations with progress, in ascending order.
pub(crate) async fn list_conversations(read: &mut Read, after: &str, limit: u32) -> Result<Vec<String>, StoreError> {
    let sql = "SELECT conversation_id FROM memory_talks WHERE conversation_id > $1 ORDER BY conversation_id LIMIT $2";
    read.fetch_all(sql, args![after, limit]).await?.iter().map(|row| row.get("conversation_id")).collect()
}

pub(crate) async fn delete_conversations(tx: &mut Tx, ids: &[String]) -> Result<(), StoreError> {
    if ids.is_empty() {
        return Ok(());
    }
    let mut args = Args::new();
    let placeholders = placeholders(&mut args, ids.iter().map(String::as_str));
    tx.execute(format!("DELETE FROM memory_talks WHERE conversation_id IN ({placeholders})"), args).await.map(|_| ())
}
