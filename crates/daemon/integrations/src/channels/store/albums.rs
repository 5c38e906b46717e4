//! Parts of albums, until they are joined.

use agentd_store::{Read, StoreError, Tx, args};

use super::{COLUMNS, json, message, thread};
use crate::channels::model::{ChannelMessage, ChannelMessageId, MAX_ALBUM_PARTS};

/// The parts that wait, the first one first.
pub(crate) async fn list_album(read: &mut Read, part: &ChannelMessage) -> Result<Vec<ChannelMessage>, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM channel_messages WHERE platform = $1 AND chat_id = $2 AND thread = $3 AND sender_id = $4 \
         AND album = $5 AND status = 'pending' ORDER BY id LIMIT {MAX_ALBUM_PARTS}"
    );
    let (chat, album) = (&part.chat, part.album.as_deref());
    let rows = read.fetch_all(sql, args![part.platform.id(), &chat.id, thread(chat), &part.sender.id, album]).await?;
    rows.iter().map(message).collect()
}

/// Stores what was joined. Whether the message still waited as a part of an album.
pub(crate) async fn update_joined(tx: &mut Tx, joined: &ChannelMessage) -> Result<bool, StoreError> {
    let sql = "UPDATE channel_messages SET content = $2, context = $3, attachments = $4, reply_to = $5, album = NULL, \
               is_addressed = 1 WHERE id = $1 AND status = 'pending' AND album IS NOT NULL";
    let (files, reply_to) = (json(&joined.attachments), json(&joined.reply_to));
    Ok(tx.execute(sql, args![&joined.id, &joined.content, &joined.context, files, reply_to]).await? == 1)
}

/// Ends a part that another message took over. Whether it still waited.
pub(crate) async fn complete_part(tx: &mut Tx, id: &ChannelMessageId) -> Result<bool, StoreError> {
    let now = tx.clock().now();
    let sql = "UPDATE channel_messages SET status = 'answered', album = NULL, completed_at = $2 WHERE id = $1 AND \
               status = 'pending' AND album IS NOT NULL";
    Ok(tx.execute(sql, args![id, now]).await? == 1)
}

/// Deletes a part of an album that is not meant for the agent.
pub(crate) async fn delete_part(tx: &mut Tx, id: &ChannelMessageId) -> Result<(), StoreError> {
    let sql = "DELETE FROM channel_messages WHERE id = $1 AND status = 'pending' AND album IS NOT NULL";
    tx.execute(sql, args![id]).await.map(|_| ())
}
