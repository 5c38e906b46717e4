//! Which logs of replies may still be seen: those of living agents, and of messages that are there.

use agentd_store::{Read, StoreError, args};

use super::{IS_KEPT, is_visible};
use crate::agents::{AgentId, is_living};

pub(in crate::chat) async fn is_agent_living(read: &mut Read, id: &AgentId) -> Result<bool, StoreError> {
    let sql = format!("SELECT 1 AS one WHERE {}", is_living("$1"));
    Ok(read.fetch_optional(sql, args![id]).await?.is_some())
}

/// Whether the message of a reply can be seen: neither it nor its conversation nor its agent was
/// deleted.
pub(in crate::chat) async fn is_message_visible(
    read: &mut Read,
    conversation_id: &str,
    message_id: &str,
) -> Result<bool, StoreError> {
    let sql = format!(
        "SELECT 1 AS one FROM messages WHERE id = $2 AND conversation_id = $1 AND {IS_KEPT} \
         AND EXISTS (SELECT 1 FROM conversations WHERE conversations.id = $1 AND {})",
        is_visible()
    );
    Ok(read.fetch_optional(sql, args![conversation_id, message_id]).await?.is_some())
}
