//! Deletion of conversations in batches.

use agentd_base::Timestamp;
use agentd_engine::agents::AgentId;
use agentd_engine::engine::{SessionId, forget_sessions};
use agentd_engine::projects::ProjectId;
use agentd_store::{Read, StoreError, Tx, args};

use super::super::model::ConversationId;
use super::is_visible;

pub(crate) const MESSAGE_BATCH_SIZE: u32 = 100;
pub(crate) const ROW_BATCH_SIZE: u32 = 500;

/// Hides a conversation; returns whether it existed.
pub(crate) async fn hide_conversation(tx: &mut Tx, id: &ConversationId, now: Timestamp) -> Result<bool, StoreError> {
    let hidden = tx
        .execute(format!("UPDATE conversations SET deleted_at = $2 WHERE id = $1 AND {}", is_visible()), args![id, now])
        .await?;
    Ok(hidden == 1)
}

/// Returns deleted conversations that still have rows, in order of deletion, after `after`.
pub(crate) async fn list_hidden(
    read: &mut Read,
    after: Option<&(Timestamp, ConversationId)>,
    limit: u32,
) -> Result<Vec<(Timestamp, ConversationId)>, StoreError> {
    let sql = "SELECT deleted_at, id FROM conversations WHERE deleted_at >= $1 AND (deleted_at > $1 OR id > $2) \
               ORDER BY deleted_at, id LIMIT $3";
    let (at, id) = after.map_or((Timestamp::from_micros(0), ""), |(at, id)| (*at, id.as_str()));
    let rows = read.fetch_all(sql, args![at, id, limit]).await?;
    rows.iter().map(|row| Ok((row.get("deleted_at")?, row.get("id")?))).collect()
}

pub(crate) async fn list_of_agent(
    read: &mut Read,
    agent: &AgentId,
    limit: u32,
) -> Result<Vec<ConversationId>, StoreError> {
    let rows = read.fetch_all("SELECT id FROM conversations WHERE agent_id = $1 LIMIT $2", args![agent, limit]).await?;
    rows.iter().map(|row| row.get("id")).collect()
}

/// Returns the oldest messages of a conversation with their sessions.
pub(crate) async fn list_oldest(
    read: &mut Read,
    id: &ConversationId,
    limit: u32,
) -> Result<Vec<(u64, Option<SessionId>)>, StoreError> {
    let rows = read
        .fetch_all(
            "SELECT position, session_id FROM messages WHERE conversation_id = $1 ORDER BY position LIMIT $2",
            args![id, limit],
        )
        .await?;
    rows.iter().map(|row| Ok((row.get("position")?, row.get("session_id")?))).collect()
}

/// Removes a deleted project from up to `limit` conversations; returns their number.
pub(crate) async fn release_project(tx: &mut Tx, project: &ProjectId, limit: u32) -> Result<u64, StoreError> {
    tx.execute(
        "UPDATE conversations SET project_id = NULL WHERE id IN \
         (SELECT id FROM conversations WHERE project_id = $1 LIMIT $2)",
        args![project, limit],
    )
    .await
}

pub(crate) async fn delete_conversation(tx: &mut Tx, id: &ConversationId) -> Result<(), StoreError> {
    tx.execute("DELETE FROM message_cuts WHERE conversation_id = $1", args![id]).await?;
    tx.execute("DELETE FROM conversations WHERE id = $1", args![id]).await.map(|_| ())
}

pub(crate) async fn delete_through(tx: &mut Tx, id: &ConversationId, position: u64) -> Result<u64, StoreError> {
    tx.execute("DELETE FROM messages WHERE conversation_id = $1 AND position <= $2", args![id, position]).await
}

/// Deletes a batch of a conversation's rows. The last batch includes the conversation itself.
pub(crate) async fn purge_conversation(tx: &mut Tx, id: &ConversationId) -> Result<(), StoreError> {
    let oldest = list_oldest(tx, id, MESSAGE_BATCH_SIZE).await?;
    let sessions: Vec<_> = oldest.iter().filter_map(|(_, session)| session.clone()).collect();
    if !forget_sessions(tx, &sessions, ROW_BATCH_SIZE).await? {
        return Ok(());
    }
    match oldest.last() {
        Some((position, _)) => delete_through(tx, id, *position).await.map(|_| ()),
        None => delete_conversation(tx, id).await,
    }
}
