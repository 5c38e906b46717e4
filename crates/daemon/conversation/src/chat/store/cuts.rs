//! Truncation of messages: one row hides them immediately; they are deleted later in batches.

use agentd_base::Timestamp;
use agentd_engine::engine::SessionId;
use agentd_store::{Read, Row, StoreError, Tx, args};

use super::NOT_TRUNCATED;
use crate::chat::model::{ConversationId, MessageId};

/// Range of messages to delete: after `after`, up to and including `through`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MessageCut {
    pub(crate) conversation_id: ConversationId,
    pub(crate) after: u64,
    pub(crate) through: u64,
}

fn cut(row: &Row) -> Result<MessageCut, StoreError> {
    Ok(MessageCut {
        conversation_id: row.get("conversation_id")?,
        after: row.get("after_position")?,
        through: row.get("through_position")?,
    })
}

pub(crate) async fn find_position(
    read: &mut Read,
    id: &ConversationId,
    message: &MessageId,
) -> Result<Option<u64>, StoreError> {
    let sql = format!("SELECT position FROM messages WHERE id = $2 AND conversation_id = $1 AND {NOT_TRUNCATED}");
    read.fetch_optional(sql, args![id, message]).await?.map(|row| row.get("position")).transpose()
}

/// Returns the position of the newest message that is not among the last `keep`.
pub(crate) async fn find_last_beyond(
    read: &mut Read,
    id: &ConversationId,
    keep: u64,
) -> Result<Option<u64>, StoreError> {
    let sql = format!(
        "SELECT position FROM messages WHERE conversation_id = $1 AND {NOT_TRUNCATED} \
         ORDER BY position DESC LIMIT 1 OFFSET $2"
    );
    read.fetch_optional(sql, args![id, keep]).await?.map(|row| row.get("position")).transpose()
}

/// Hides messages and returns their number. The summary is deleted because it may include them.
pub(crate) async fn cut_messages(tx: &mut Tx, wanted: &MessageCut, now: Timestamp) -> Result<u64, StoreError> {
    let MessageCut { conversation_id: id, after, through } = wanted;
    let sql = format!(
        "SELECT COUNT(*) FROM messages WHERE conversation_id = $1 AND position > $2 AND position <= $3 AND {NOT_TRUNCATED}"
    );
    let removed: u64 = tx.fetch_one(sql, args![id, *after, *through]).await?.first()?;
    if removed == 0 {
        return Ok(0);
    }
    tx.execute(
        "INSERT INTO message_cuts (conversation_id, after_position, through_position) VALUES ($1, $2, $3) \
         ON CONFLICT DO NOTHING",
        args![id, *after, *through],
    )
    .await?;
    tx.execute(
        "UPDATE conversations SET message_count = message_count - $2, revision = revision + 1, updated_at = $3, \
         summary = NULL, summary_sources = NULL, summary_through = 0 WHERE id = $1",
        args![id, removed, now],
    )
    .await?;
    Ok(removed)
}

pub(crate) async fn list_cuts(read: &mut Read, limit: u32) -> Result<Vec<MessageCut>, StoreError> {
    let sql = "SELECT conversation_id, after_position, through_position FROM message_cuts \
               ORDER BY conversation_id, after_position, through_position LIMIT $1";
    read.fetch_all(sql, args![limit]).await?.iter().map(cut).collect()
}

/// Returns the oldest messages of a cut, with the session of each reply.
pub(crate) async fn list_cut_off(
    read: &mut Read,
    cut: &MessageCut,
    limit: u32,
) -> Result<Vec<(u64, Option<SessionId>)>, StoreError> {
    let rows = read
        .fetch_all(
            "SELECT position, CASE WHEN role = 'assistant' THEN session_id END AS session_id FROM messages \
             WHERE conversation_id = $1 AND position > $2 AND position <= $3 ORDER BY position LIMIT $4",
            args![&cut.conversation_id, cut.after, cut.through, limit],
        )
        .await?;
    rows.iter().map(|row| Ok((row.get("position")?, row.get("session_id")?))).collect()
}

/// Deletes the messages of a cut up to `position`.
pub(crate) async fn delete_cut_off(tx: &mut Tx, cut: &MessageCut, position: u64) -> Result<(), StoreError> {
    tx.execute(
        "DELETE FROM messages WHERE conversation_id = $1 AND position > $2 AND position <= $3",
        args![&cut.conversation_id, cut.after, position],
    )
    .await
    .map(|_| ())
}

/// Deletes a cut whose messages are deleted.
pub(crate) async fn delete_cut(tx: &mut Tx, cut: &MessageCut) -> Result<(), StoreError> {
    tx.execute(
        "DELETE FROM message_cuts WHERE conversation_id = $1 AND after_position = $2 AND through_position = $3",
        args![&cut.conversation_id, cut.after, cut.through],
    )
    .await
    .map(|_| ())
}
