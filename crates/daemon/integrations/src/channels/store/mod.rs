//! Rows of messages and of conversations in chats.

mod approvals;
mod pairings;
mod restored;
mod states;

use agentd_base::Timestamp;
use agentd_chat_platforms::{Chat, IncomingMessage, Platform, Sender};
use agentd_conversation::chat::StartedReply;
use agentd_engine::agents::AgentId;
use agentd_engine::engine::SessionId;
use agentd_store::{Read, Row, StoreError, Tx, ValueError, args};

use super::model::{ChannelMessage, ChannelMessageId, FinalStatus, MAX_ALBUM_PARTS};

pub(super) use approvals::{
    delete_owner, find_approval, find_approval_by_code, find_owner, insert_approval, purge_approvals, put_owner,
    update_approval_message,
};
pub(super) use pairings::{
    count_pairings, delete_expired_pairings, delete_oldest_pairing, delete_pairing, delete_sender, find_pairing,
    find_sender, has_senders, insert_pairing, insert_sender, list_pairings, list_senders, update_refused,
};
pub use restored::ValidateChannels;
pub(super) use states::{
    StoredConnection, claim_connection, list_connected, list_states, put_connection, record_error,
    record_pairing_limit, record_received, release_connection,
};

/// Maximum number of running turns per read.
const MAX_RUNNING: u32 = 1_000;

const COLUMNS: &str = "id, platform, external_id, sender_id, sender_name, is_trusted, chat_id, thread, is_group, \
                       content, context, attachments, album, is_addressed, reply_to, received_at";

fn platform(row: &Row) -> Result<Platform, StoreError> {
    let id: String = row.get("platform")?;
    let unknown = || StoreError::Column {
        column: "platform".to_owned(),
        source: ValueError::Other { reason: format!("`{}` is not known", display_text(&id)) },
    };
    Platform::from_id(&id).ok_or_else(unknown)
}

/// Escapes and truncates an arbitrary text for display.
fn display_text(text: &str) -> String {
    text.chars().take(80).collect::<String>().escape_debug().to_string()
}

fn message(row: &Row) -> Result<ChannelMessage, StoreError> {
    let thread: String = row.get("thread")?;
    Ok(ChannelMessage {
        id: row.get("id")?,
        platform: platform(row)?,
        external_id: row.get("external_id")?,
        sender: Sender { id: row.get("sender_id")?, name: row.get("sender_name")? },
        is_trusted: row.get("is_trusted")?,
        chat: Chat {
            id: row.get("chat_id")?,
            thread: (!thread.is_empty()).then_some(thread),
            is_group: row.get("is_group")?,
        },
        content: row.get("content")?,
        context: row.get("context")?,
        attachments: row.json("attachments")?,
        album: row.get("album")?,
        is_addressed: row.get("is_addressed")?,
        reply_to: row.json("reply_to")?,
        received_at: row.get("received_at")?,
    })
}

fn thread(chat: &Chat) -> &str {
    chat.thread.as_deref().unwrap_or_default()
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// Inserts a message; returns `false` for a repeated delivery. `is_addressed` can be false for parts of an album.
pub(super) async fn insert_message(
    tx: &mut Tx,
    id: &ChannelMessageId,
    platform: Platform,
    message: &IncomingMessage,
    is_trusted: bool,
    is_addressed: bool,
) -> Result<bool, StoreError> {
    let now = tx.clock().now();
    let added = tx
        .execute(
            "INSERT INTO channel_messages (id, platform, external_id, sender_id, sender_name, is_trusted, chat_id, \
             thread, is_group, content, context, attachments, album, is_addressed, reply_to, status, received_at) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, 'pending', $16) \
             ON CONFLICT (platform, external_id) DO NOTHING",
            args![
                id,
                platform.id(),
                &message.id,
                &message.sender.id,
                &message.sender.name,
                is_trusted,
                &message.chat.id,
                thread(&message.chat),
                message.chat.is_group,
                &message.text,
                &message.context,
                json(&message.attachments),
                &message.album,
                is_addressed,
                json(&message.reply_to),
                now
            ],
        )
        .await?;
    Ok(added == 1)
}

/// Returns a message that waits for its turn.
pub(super) async fn find_pending(read: &mut Read, id: &ChannelMessageId) -> Result<Option<ChannelMessage>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM channel_messages WHERE id = $1 AND status = 'pending'");
    read.fetch_optional(sql, args![id]).await?.as_ref().map(message).transpose()
}

/// Returns whether an earlier message of the same chat is unanswered.
pub(super) async fn has_earlier(read: &mut Read, message: &ChannelMessage) -> Result<bool, StoreError> {
    let sql = "SELECT 1 FROM channel_messages WHERE platform = $1 AND chat_id = $2 AND thread = $3 AND id < $4 AND \
               status IN ('pending', 'running') LIMIT 1";
    let values = args![message.platform.id(), &message.chat.id, thread(&message.chat), &message.id];
    Ok(read.fetch_optional(sql, values).await?.is_some())
}

/// Returns whether an untrusted sender has written in the same chat, according to the retained messages.
pub(super) async fn has_untrusted(read: &mut Read, message: &ChannelMessage) -> Result<bool, StoreError> {
    let sql = "SELECT 1 FROM channel_messages WHERE platform = $1 AND chat_id = $2 AND thread = $3 AND is_trusted = 0 \
               LIMIT 1";
    let values = args![message.platform.id(), &message.chat.id, thread(&message.chat)];
    Ok(read.fetch_optional(sql, values).await?.is_some())
}

/// Marks a message as running; returns whether it was pending.
pub(super) async fn update_started(
    tx: &mut Tx,
    id: &ChannelMessageId,
    agent: &AgentId,
    reply: &StartedReply,
) -> Result<bool, StoreError> {
    let sql = "UPDATE channel_messages SET status = 'running', agent_id = $2, conversation_id = $3, session_id = $4, \
               message_id = $5, error = NULL WHERE id = $1 AND status = 'pending'";
    let values = args![id, agent, reply.conversation.as_str(), reply.session.as_str(), reply.message.as_str()];
    Ok(tx.execute(sql, values).await? == 1)
}

pub(super) async fn update_ended(
    tx: &mut Tx,
    id: &ChannelMessageId,
    status: FinalStatus,
    error: Option<&str>,
) -> Result<(), StoreError> {
    let now = tx.clock().now();
    let sql = "UPDATE channel_messages SET status = $2, error = $3, completed_at = $4 WHERE id = $1";
    tx.execute(sql, args![id, status.as_str(), error, now]).await.map(|_| ())
}

/// Returns the pending parts of an album in order.
pub(super) async fn list_album(read: &mut Read, part: &ChannelMessage) -> Result<Vec<ChannelMessage>, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM channel_messages WHERE platform = $1 AND chat_id = $2 AND thread = $3 AND sender_id = $4 \
         AND album = $5 AND status = 'pending' ORDER BY id LIMIT {MAX_ALBUM_PARTS}"
    );
    let (chat, album) = (&part.chat, part.album.as_deref());
    let rows = read.fetch_all(sql, args![part.platform.id(), &chat.id, thread(chat), &part.sender.id, album]).await?;
    rows.iter().map(message).collect()
}

/// Stores a joined message; returns whether it was still a pending part of an album.
pub(super) async fn update_joined(tx: &mut Tx, joined: &ChannelMessage) -> Result<bool, StoreError> {
    let sql = "UPDATE channel_messages SET content = $2, context = $3, attachments = $4, reply_to = $5, album = NULL, \
               is_addressed = 1 WHERE id = $1 AND status = 'pending' AND album IS NOT NULL";
    let (files, reply_to) = (json(&joined.attachments), json(&joined.reply_to));
    Ok(tx.execute(sql, args![&joined.id, &joined.content, &joined.context, files, reply_to]).await? == 1)
}

/// Completes a part that another message took over; returns whether it was pending.
pub(super) async fn complete_part(tx: &mut Tx, id: &ChannelMessageId) -> Result<bool, StoreError> {
    let now = tx.clock().now();
    let sql = "UPDATE channel_messages SET status = 'answered', album = NULL, completed_at = $2 WHERE id = $1 AND \
               status = 'pending' AND album IS NOT NULL";
    Ok(tx.execute(sql, args![id, now]).await? == 1)
}

/// Deletes a part of an album that is not addressed to the agent.
pub(super) async fn delete_part(tx: &mut Tx, id: &ChannelMessageId) -> Result<(), StoreError> {
    let sql = "DELETE FROM channel_messages WHERE id = $1 AND status = 'pending' AND album IS NOT NULL";
    tx.execute(sql, args![id]).await.map(|_| ())
}

/// Returns the message whose turn this session is, while it runs.
pub(super) async fn find_running(read: &mut Read, session: &str) -> Result<Option<ChannelMessage>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM channel_messages WHERE session_id = $1 AND status = 'running'");
    read.fetch_optional(sql, args![session]).await?.as_ref().map(message).transpose()
}

/// Returns messages with running turns and their sessions; limited to the oldest ones.
pub(super) async fn list_running(read: &mut Read) -> Result<Vec<(ChannelMessage, SessionId)>, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS}, session_id FROM channel_messages WHERE status IN ('pending', 'running') AND \
         status = 'running' ORDER BY id LIMIT {MAX_RUNNING}"
    );
    let rows = read.fetch_all(sql, args![]).await?;
    rows.iter().map(|row| Ok((message(row)?, row.get("session_id")?))).collect()
}

/// Returns whether any turn is running.
pub(super) async fn has_running(read: &mut Read) -> Result<bool, StoreError> {
    let sql = "SELECT 1 FROM channel_messages WHERE status IN ('pending', 'running') AND status = 'running' LIMIT 1";
    Ok(read.fetch_optional(sql, args![]).await?.is_some())
}

pub(super) async fn find_conversation(
    read: &mut Read,
    platform: Platform,
    chat: &Chat,
) -> Result<Option<String>, StoreError> {
    let sql = "SELECT conversation_id FROM channel_conversations WHERE platform = $1 AND chat_id = $2 AND thread = $3";
    let row = read.fetch_optional(sql, args![platform.id(), &chat.id, thread(chat)]).await?;
    row.map(|row| row.get("conversation_id")).transpose()
}

pub(super) async fn put_conversation(
    tx: &mut Tx,
    message: &ChannelMessage,
    conversation: &str,
) -> Result<(), StoreError> {
    let now = tx.clock().now();
    let sql = "INSERT INTO channel_conversations (platform, chat_id, thread, conversation_id, updated_at) \
               VALUES ($1, $2, $3, $4, $5) ON CONFLICT (platform, chat_id, thread) \
               DO UPDATE SET conversation_id = excluded.conversation_id, updated_at = excluded.updated_at";
    let chat = &message.chat;
    tx.execute(sql, args![message.platform.id(), &chat.id, thread(chat), conversation, now]).await.map(|_| ())
}

pub(super) async fn delete_conversation(tx: &mut Tx, platform: Platform, chat: &Chat) -> Result<(), StoreError> {
    let sql = "DELETE FROM channel_conversations WHERE platform = $1 AND chat_id = $2 AND thread = $3";
    tx.execute(sql, args![platform.id(), &chat.id, thread(chat)]).await.map(|_| ())
}

/// Returns whether any messages, codes or conversations can be purged.
pub(super) async fn has_expired(read: &mut Read, messages_before: Timestamp) -> Result<bool, StoreError> {
    let now = read.clock().now();
    let sql = "SELECT 1 AS one WHERE EXISTS (SELECT 1 FROM channel_pairings WHERE expires_at <= $1) OR EXISTS (SELECT 1 \
               FROM channel_messages WHERE received_at < $2 AND status NOT IN ('pending', 'running')) OR EXISTS (SELECT \
               1 FROM channel_conversations AS chat WHERE NOT EXISTS (SELECT 1 FROM conversations WHERE id = \
               chat.conversation_id AND deleted_at IS NULL)) OR EXISTS (SELECT 1 FROM channel_approvals WHERE \
               approval_id NOT IN (SELECT id FROM approvals))";
    Ok(read.fetch_optional(sql, args![now, messages_before]).await?.is_some())
}

/// Deletes finished messages received before a time; returns their number.
pub(super) async fn purge_messages(tx: &mut Tx, before: Timestamp, limit: u32) -> Result<u64, StoreError> {
    let sql = "DELETE FROM channel_messages WHERE id IN (SELECT id FROM channel_messages WHERE received_at < $1 AND \
               status NOT IN ('pending', 'running') ORDER BY received_at LIMIT $2)";
    tx.execute(sql, args![before, limit]).await
}

/// Deletes messages of an agent; returns their number.
pub(super) async fn purge_of_agent(tx: &mut Tx, agent: &AgentId, limit: u32) -> Result<u64, StoreError> {
    let sql = "DELETE FROM channel_messages WHERE id IN (SELECT id FROM channel_messages WHERE agent_id = $1 LIMIT $2)";
    tx.execute(sql, args![agent, limit]).await
}

/// Deletes chats whose conversations no longer exist.
pub(super) async fn purge_conversations(tx: &mut Tx, limit: u32) -> Result<u64, StoreError> {
    let sql = "DELETE FROM channel_conversations WHERE conversation_id IN (SELECT conversation_id FROM \
               channel_conversations WHERE conversation_id NOT IN (SELECT id FROM conversations WHERE deleted_at IS \
               NULL) LIMIT $1)";
    tx.execute(sql, args![limit]).await
}
