//! Deletes the rows of deleted conversations and truncated messages, one batch per transaction.

use std::sync::Arc;
use std::time::Duration;

use agentd_core::runtime::{PurgeTask, WorkerError, WorkerReport};
use agentd_engine::engine::{find_running_in_conversation, forget_sessions};
use agentd_store::{StoreError, Tx};
use tokio::sync::Notify;

use super::service::Chat;
use super::store::{self, MESSAGE_BATCH_SIZE, MessageCut, ROW_BATCH_SIZE, purge_conversation};

const CONVERSATION_BATCH_SIZE: u32 = 20;

/// Worker that purges deleted conversations. It needs no lease: the rows are already deleted logically, and purging is
/// idempotent.
#[derive(Debug)]
pub(super) struct PurgeConversations(pub Chat);

impl PurgeTask for PurgeConversations {
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
    /// Skips conversations whose reply has not ended yet, so that they do not block the others.
    async fn purge_hidden(&self) -> Result<u64, WorkerError> {
        let db = &self.0.context().db;
        let mut last = None;
        let mut purged = 0;
        while purged == 0 {
            let mut ready = Vec::new();
            let mut read = db.read().await?;
            let hidden = store::list_hidden(&mut read, last.as_ref(), CONVERSATION_BATCH_SIZE).await?;
            let Some(newest) = hidden.last() else { break };
            last = Some(newest.clone());
            for (_, id) in hidden {
                // The reply was cancelled and still has to store its end.
                if find_running_in_conversation(&mut read, id.as_str()).await?.is_none() {
                    ready.push(id);
                }
            }
            drop(read);
            for id in ready {
                // No reply can start in a hidden conversation.
                db.write(async move |tx: &mut Tx| purge_conversation(tx, &id).await).await?;
                purged += 1;
            }
        }
        Ok(purged)
    }

    async fn purge_cuts(&self) -> Result<u64, WorkerError> {
        let db = &self.0.context().db;
        let cuts = store::list_cuts(&mut db.read().await?, CONVERSATION_BATCH_SIZE).await?;
        let purged = cuts.len() as u64;
        for cut in cuts {
            db.write(async move |tx: &mut Tx| purge_cut(tx, &cut).await).await?;
        }
        Ok(purged)
    }
}

/// Deletes a batch of truncated messages and the logs of their replies. The cut itself is deleted with the last batch.
async fn purge_cut(tx: &mut Tx, cut: &MessageCut) -> Result<(), StoreError> {
    let oldest = store::list_cut_off(tx, cut, MESSAGE_BATCH_SIZE).await?;
    let sessions: Vec<_> = oldest.iter().filter_map(|(_, session)| session.clone()).collect();
    if !forget_sessions(tx, &sessions, ROW_BATCH_SIZE).await? {
        return Ok(());
    }
    match oldest.last() {
        Some((position, _)) => store::delete_cut_off(tx, cut, *position).await,
        None => store::delete_cut(tx, cut).await,
    }
}
