//! How the rows of a deleted conversation go, a batch a transaction.

use agentd_store::{StoreError, Tx};

use super::model::ConversationId;
use super::store;
use crate::engine::forget_sessions;

pub(super) const MESSAGES_A_BATCH: u32 = 100;
pub(super) const ROWS_A_BATCH: u32 = 500;

/// Deletes a batch of a conversation's rows, and the conversation with the last of them.
pub(super) async fn purge_conversation(tx: &mut Tx, id: &ConversationId) -> Result<(), StoreError> {
    let oldest = store::list_oldest(tx, id, MESSAGES_A_BATCH).await?;
    let sessions: Vec<_> = oldest.iter().filter_map(|(_, session)| session.clone()).collect();
    if !forget_sessions(tx, &sessions, ROWS_A_BATCH).await? {
        return Ok(());
    }
    match oldest.last() {
        Some((position, _)) => store::delete_through(tx, id, *position).await.map(|_| ()),
        None => store::delete_conversation(tx, id).await,
    }
}
