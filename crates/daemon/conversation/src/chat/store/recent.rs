//! Queries for recent messages.

use agentd_base::Timestamp;
use agentd_engine::agents::AgentId;
use agentd_store::{Args, Read, StoreError, args};

use super::{
    MAX_CHARACTERS, MESSAGE_COLUMNS, NOT_TRUNCATED, conversation, conversation_columns, is_visible, message,
    parse_column, within_budget,
};
use crate::chat::model::{Conversation, ConversationId, Message, Role};

/// Beginning of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MessageExcerpt {
    pub(crate) role: Role,
    pub(crate) text: String,
    pub(crate) at: Timestamp,
    /// Whether an unknown sender wrote it, it answers one, or it follows untrusted text.
    pub(crate) is_untrusted: bool,
}

/// Returns an agent's conversations changed after `since`, the latest first.
pub(crate) async fn list_changed_since(
    read: &mut Read,
    agent: &AgentId,
    since: Timestamp,
    limit: u32,
) -> Result<Vec<ConversationId>, StoreError> {
    let sql = format!(
        "SELECT id FROM conversations WHERE agent_id = $1 AND updated_at > $2 AND {} \
         ORDER BY updated_at DESC, id DESC LIMIT $3",
        is_visible()
    );
    read.fetch_all(sql, args![agent, since, limit]).await?.iter().map(|row| row.get("id")).collect()
}

/// Returns the newest messages of owner and agent in a conversation, newest first, each truncated to `characters`.
pub(crate) async fn list_excerpts_since(
    read: &mut Read,
    id: &ConversationId,
    since: Timestamp,
    limit: u32,
    characters: u32,
) -> Result<Vec<MessageExcerpt>, StoreError> {
    // Quotes inside texts are escaped, so this only matches the field of a call.
    let has_untrusted_result = "rounds LIKE '%\"untrusted_source\":\"%'";
    let sql = format!(
        "SELECT role, SUBSTR(content, 1, CAST($4 AS INTEGER)) AS text, created_at, \
         CASE WHEN {has_untrusted_result} THEN 1 ELSE is_untrusted END AS is_untrusted FROM messages \
         WHERE conversation_id = $1 AND created_at > $2 AND role <> 'system' AND status = 'complete' AND content <> '' AND {NOT_TRUNCATED} \
         ORDER BY position DESC LIMIT $3"
    );
    let rows = read.fetch_all(sql, args![id, since, limit, characters]).await?;
    rows.iter()
        .map(|row| {
            Ok(MessageExcerpt {
                role: parse_column(row, "role", Role::from_stored)?,
                text: row.get("text")?,
                at: row.get("created_at")?,
                is_untrusted: row.get("is_untrusted")?,
            })
        })
        .collect()
}

/// Returns conversations changed at `since` or later, ordered by change time and id.
pub(crate) async fn list_all_changed_since(
    read: &mut Read,
    since: Timestamp,
    after: &str,
    limit: u32,
) -> Result<Vec<Conversation>, StoreError> {
    let sql = format!(
        "SELECT {} FROM conversations WHERE updated_at >= $1 AND (updated_at > $1 OR id > $2) AND {} \
         ORDER BY updated_at, id LIMIT $3",
        conversation_columns(),
        is_visible()
    );
    read.fetch_all(sql, args![since, after, limit]).await?.iter().map(conversation).collect()
}

/// Returns messages of owner and agent after a position, in order, up to the first question with a running reply, and
/// whether no more follow. A page of very long messages is shorter but never empty.
pub(crate) async fn list_finished_after(
    read: &mut Read,
    id: &ConversationId,
    after: u64,
    limit: u32,
) -> Result<(Vec<Message>, bool), StoreError> {
    let is_settled = format!(
        "conversation_id = $1 AND role <> 'system' \
         AND position < COALESCE((SELECT MIN(running.position) - 1 FROM messages AS running \
         WHERE running.conversation_id = $1 AND running.status = 'running'), 9223372036854775807) AND {NOT_TRUNCATED}"
    );
    let page = within_budget(
        &format!(
            "SELECT {MESSAGE_COLUMNS} FROM messages WHERE position > $2 AND {is_settled} ORDER BY position LIMIT $4"
        ),
        "ASC",
    );
    let sql = format!(
        "SELECT settled.*, (SELECT MAX(position) FROM messages WHERE {is_settled}) AS newest \
         FROM ({page}) AS settled ORDER BY settled.position"
    );
    let rows = read.fetch_all(sql, args![id, after, MAX_CHARACTERS, limit]).await?;
    let is_last = match rows.last() {
        Some(last) => last.get::<u64>("position")? >= last.get::<u64>("newest")?,
        None => true,
    };
    Ok((rows.iter().map(message).collect::<Result<_, _>>()?, is_last))
}

/// Returns those of `ids` that exist.
pub(crate) async fn list_existing(read: &mut Read, ids: &[String]) -> Result<Vec<String>, StoreError> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let mut args = Args::new();
    let placeholders: Vec<String> = ids.iter().map(|id| format!("${}", args.push(id.as_str()))).collect();
    let sql = format!("SELECT id FROM conversations WHERE id IN ({}) AND {}", placeholders.join(", "), is_visible());
    read.fetch_all(sql, args).await?.iter().map(|row| row.get("id")).collect()
}
