//! Deletes the rows of conversations that were deleted and of messages that were cut off, a batch a
//! transaction.

use std::sync::Arc;
use std::time::Duration;

use agentd_core::runtime::{PurgesData, WorkerError, WorkerReport};
use agentd_engine::engine::{find_running_in_conversation, forget_sessions};
use agentd_store::{StoreError, Tx};
use tokio::sync::Notify;

use super::service::Chat;
use super::store::{self, MESSAGES_A_BATCH, MessageCut, ROWS_A_BATCH, purge_conversation};

const CONVERSATIONS_A_BATCH: u32 = 20;

/// The worker behind the deletion of conversations. It needs no lease: what it deletes was deleted
/// already, and deleting it twice changes nothing.
#[derive(Debug)]
pub(super) struct PurgeConversations(pub Chat);

impl PurgesData for PurgeConversations {
    const WORKER: &'static str = "chat.purge";
    const DESCRIPTION: &'static str = "Deletes the messages of deleted conversations.";
    const INTERVAL: Duration = Duration::from_secs(30);

    fn wake(&self) -> Option<Arc<Notify>> {
        Some(self.0.purge_wake())
    }

    async fn purge_batch(&self) -> Result<WorkerReport, WorkerError> {
        let purged = self.purge_hidden().await? + self.purge_cuts().await?;
        Ok(WorkerReport::more(purged))
    }
}

impl PurgeConversations {
    /// Looks past those whose reply has not ended yet: they must not hold up the others.
    async fn purge_hidden(&self) -> Result<u64, WorkerError> {
        let db = &self.0.context().db;
        let mut last = None;
        let mut purged = 0;
        while purged == 0 {
            let mut ready = Vec::new();
            let mut read = db.read().await?;
            let hidden = store::list_hidden(&mut read, last.as_ref(), CONVERSATIONS_A_BATCH).await?;
            let Some(newest) = hidden.last() else { break };
            last = Some(newest.clone());
            for (_, id) in hidden {
                // It was told to end; its last words come first.
                if find_running_in_conversation(&mut read, id.as_str()).await?.is_none() {
                    ready.push(id);
                }
            }
            drop(read);
            for id in ready {
                // No reply begins in a conversation that is hidden.
                db.write(async move |tx: &mut Tx| purge_conversation(tx, &id).await).await?;
                purged += 1;
            }
        }
        Ok(purged)
    }

    async fn purge_cuts(&self) -> Result<u64, WorkerError> {
        let db = &self.0.context().db;
        let cuts = store::list_cuts(&mut db.read().await?, CONVERSATIONS_A_BATCH).await?;
        let purged = cuts.len() as u64;
        for cut in cuts {
            db.write(async move |tx: &mut Tx| purge_cut(tx, &cut).await).await?;
        }
        Ok(purged)
    }
}

/// Deletes a batch of the messages of a cut and the logs of the replies among them, and the cut with
/// the last of them.
async fn purge_cut(tx: &mut Tx, cut: &MessageCut) -> Result<(), StoreError> {
    let oldest = store::list_cut_off(tx, cut, MESSAGES_A_BATCH).await?;
    let sessions: Vec<_> = oldest.iter().filter_map(|(_, session)| session.clone()).collect();
    if !forget_sessions(tx, &sessions, ROWS_A_BATCH).await? {
        return Ok(());
    }
    match oldest.last() {
        Some((position, _)) => store::delete_cut_off(tx, cut, *position).await,
        None => store::delete_cut(tx, cut).await,
    }
}
