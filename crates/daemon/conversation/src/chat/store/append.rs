//! Messages at the end of a conversation.

use agentd_base::Timestamp;
use agentd_core::rollups::{self, Counter};
use agentd_store::{StoreError, Tx, args};

use super::super::model::{ConversationId, Message};
use super::is_visible;

/// Makes room for messages behind those that `revision` stands for; answers whether it still does.
pub(crate) async fn reserve_messages(
    tx: &mut Tx,
    id: &ConversationId,
    revision: u64,
    count: u64,
    title: &str,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let reserved = tx
        .execute(
            format!(
                "UPDATE conversations SET revision = revision + $3, message_count = message_count + $3, \
                 updated_at = $4, title = CASE WHEN title_source = 'default' THEN $5 ELSE title END, \
                 title_source = CASE WHEN title_source = 'default' THEN 'rule' ELSE title_source END \
                 WHERE id = $1 AND revision = $2 AND {}",
                is_visible()
            ),
            args![id, revision, count, now, title],
        )
        .await?;
    Ok(reserved == 1)
}

/// Makes room for one message, whatever stands there; answers its position, or `None` when the
/// conversation is not there.
pub(crate) async fn reserve_next(
    tx: &mut Tx,
    id: &ConversationId,
    title: Option<&str>,
    now: Timestamp,
) -> Result<Option<u64>, StoreError> {
    let row = tx
        .fetch_optional(
            format!(
                "UPDATE conversations SET revision = revision + 1, message_count = message_count + 1, \
                 updated_at = $2, title = CASE WHEN title_source = 'default' AND $4 = 1 THEN $3 ELSE title END, \
                 title_source = CASE WHEN title_source = 'default' AND $4 = 1 THEN 'rule' ELSE title_source END \
                 WHERE id = $1 AND {} RETURNING revision",
                is_visible()
            ),
            args![id, now, title.unwrap_or_default(), title.is_some()],
        )
        .await?;
    row.map(|row| row.get("revision")).transpose()
}

pub(crate) async fn insert_message(tx: &mut Tx, message: &Message) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO messages (id, conversation_id, position, role, content, status, session_id, created_at, \
         is_untrusted) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        args![
            &message.id,
            &message.conversation_id,
            message.position,
            message.role.as_str(),
            &message.content,
            message.status.as_str(),
            &message.session_id,
            message.created_at,
            message.is_untrusted
        ],
    )
    .await?;
    rollups::count(tx, &[(Counter::Messages, "", 1)]).await
}

/// A question and the reply that is to come, in one statement.
pub(crate) async fn insert_exchange(tx: &mut Tx, question: &Message, reply: &Message) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO messages (id, conversation_id, position, role, content, status, session_id, created_at, \
         is_untrusted) VALUES ($1, $2, $3, 'user', $4, 'complete', $5, $6, $10), \
         ($7, $2, $8, 'assistant', '', 'running', $9, $6, $11)",
        args![
            &question.id,
            &question.conversation_id,
            question.position,
            &question.content,
            &question.session_id,
            question.created_at,
            &reply.id,
            reply.position,
            &reply.session_id,
            question.is_untrusted,
            reply.is_untrusted
        ],
    )
    .await?;
    rollups::count(tx, &[(Counter::Messages, "", 2)]).await
}
