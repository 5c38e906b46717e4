//! Deletes the rows of conversations that were deleted, a batch a transaction.

use std::sync::Arc;
use std::time::Duration;

use agentd_store::{StoreError, Tx};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::Notify;

use super::model::ConversationId;
use super::service::Chat;
use super::store;
use crate::engine::{find_running_in_conversation, forget_sessions};
use crate::ground::{Worker, WorkerError};

const MESSAGES_A_BATCH: u32 = 100;
const ROWS_A_BATCH: u32 = 500;
const CONVERSATIONS_A_BATCH: u32 = 20;

/// The worker behind the deletion of conversations. It needs no lease: what it deletes was deleted
/// already, and deleting it twice changes nothing.
#[derive(Debug)]
pub struct PurgeConversations(pub Chat);

impl Worker for PurgeConversations {
    fn name(&self) -> &'static str {
        "chat.purge"
    }

    fn interval(&self) -> Duration {
        Duration::from_secs(30)
    }

    fn wake(&self) -> Option<Arc<Notify>> {
        Some(self.0.purge_wake())
    }

    fn run_once(&self) -> BoxFuture<'_, Result<bool, WorkerError>> {
        self.run().boxed()
    }
}

impl PurgeConversations {
    async fn run(&self) -> Result<bool, WorkerError> {
        let db = &self.0.ground().db;
        let hidden = store::list_hidden(&mut db.read().await?, CONVERSATIONS_A_BATCH).await?;
        let mut has_purged = false;
        for id in hidden {
            has_purged |= db
                .write(async move |tx: &mut Tx| {
                    // Its reply was told to end; its last words come first.
                    if find_running_in_conversation(tx, id.as_str()).await?.is_some() {
                        return Ok(false);
                    }
                    purge_conversation(tx, &id).await?;
                    Ok::<_, StoreError>(true)
                })
                .await?;
        }
        Ok(has_purged)
    }
}

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
