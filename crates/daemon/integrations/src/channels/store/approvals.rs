//! Rows of owners, and of approvals that were requested in chats.

use agentd_chat_platforms::{Chat, Platform};
use agentd_engine::engine::ApprovalId;
use agentd_store::{Read, Row, StoreError, Tx, args};

use super::{platform, thread};
use crate::channels::model::{ApprovalCode, ChatApproval};

const COLUMNS: &str = "approval_id, platform, chat_id, thread, code, can_approve, message_id";

fn chat_approval(row: &Row) -> Result<ChatApproval, StoreError> {
    let thread: String = row.get("thread")?;
    Ok(ChatApproval {
        approval_id: row.get("approval_id")?,
        platform: platform(row)?,
        chat_id: row.get("chat_id")?,
        thread: (!thread.is_empty()).then_some(thread),
        code: ApprovalCode(row.get("code")?),
        can_approve: row.get("can_approve")?,
        message_id: row.get("message_id")?,
    })
}

/// Inserts an approval; returns `false` if it was already requested in a chat.
pub(crate) async fn insert_approval(tx: &mut Tx, approval: &ChatApproval) -> Result<bool, StoreError> {
    let sql = "INSERT INTO channel_approvals (approval_id, platform, chat_id, thread, code, can_approve) \
               VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (approval_id) DO NOTHING";
    let ChatApproval { approval_id, platform, chat_id, thread, code, can_approve, .. } = approval;
    let thread = thread.as_deref().unwrap_or_default();
    let values = args![approval_id, platform.id(), chat_id, thread, code.0, *can_approve];
    Ok(tx.execute(sql, values).await? == 1)
}

pub(crate) async fn find_approval(read: &mut Read, id: &ApprovalId) -> Result<Option<ChatApproval>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM channel_approvals WHERE approval_id = $1");
    read.fetch_optional(sql, args![id]).await?.as_ref().map(chat_approval).transpose()
}

/// Returns the approval with this code in a conversation.
pub(crate) async fn find_approval_by_code(
    read: &mut Read,
    of: Platform,
    chat: &Chat,
    code: ApprovalCode,
) -> Result<Option<ChatApproval>, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM channel_approvals WHERE platform = $1 AND chat_id = $2 AND thread = $3 AND code = $4"
    );
    let row = read.fetch_optional(sql, args![of.id(), &chat.id, thread(chat), code.0]).await?;
    row.as_ref().map(chat_approval).transpose()
}

/// Records the message with the buttons.
pub(crate) async fn update_approval_message(tx: &mut Tx, id: &str, message_id: &str) -> Result<(), StoreError> {
    let sql = "UPDATE channel_approvals SET message_id = $2 WHERE approval_id = $1";
    tx.execute(sql, args![id, message_id]).await.map(|_| ())
}

/// Deletes rows whose approvals no longer exist; returns their number.
pub(crate) async fn purge_approvals(tx: &mut Tx, limit: u32) -> Result<u64, StoreError> {
    let sql = "DELETE FROM channel_approvals WHERE approval_id IN (SELECT approval_id FROM channel_approvals WHERE \
               approval_id NOT IN (SELECT id FROM approvals) LIMIT $1)";
    tx.execute(sql, args![limit]).await
}

/// Returns the sender who was made owner, even if the sender may no longer write.
pub(crate) async fn find_owner(read: &mut Read, of: Platform) -> Result<Option<String>, StoreError> {
    let sql = "SELECT sender_id FROM channel_owners WHERE platform = $1";
    read.fetch_optional(sql, args![of.id()]).await?.map(|row| row.first()).transpose()
}

pub(crate) async fn put_owner(tx: &mut Tx, of: Platform, sender: &str) -> Result<(), StoreError> {
    let sql = "INSERT INTO channel_owners (platform, sender_id) VALUES ($1, $2) \
               ON CONFLICT (platform) DO UPDATE SET sender_id = excluded.sender_id";
    tx.execute(sql, args![of.id(), sender]).await.map(|_| ())
}

pub(crate) async fn delete_owner(tx: &mut Tx, of: Platform) -> Result<(), StoreError> {
    tx.execute("DELETE FROM channel_owners WHERE platform = $1", args![of.id()]).await.map(|_| ())
}
