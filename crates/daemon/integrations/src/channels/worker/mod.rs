//! Workers of channels.

mod start;

use std::sync::Arc;
use std::time::Duration;

use agentd_base::Timestamp;
use agentd_core::runtime::{NextDue, PurgeTask, Retention, Worker, WorkerError, WorkerReport};
use agentd_store::{ItemStatus, StoreError, Tx};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::Notify;

use super::model::{MESSAGE_RETENTION, QUEUE};
use super::service::Channels;
use super::store;

pub(super) use start::StartTurns;

const ROW_BATCH_SIZE: u32 = 500;

/// Requests the approvals that turns of channels wait for, as messages in their chats.
#[derive(Debug)]
pub(super) struct RequestApprovals(pub Channels);

impl Worker for RequestApprovals {
    fn name(&self) -> &'static str {
        "channels.approvals"
    }

    fn description(&self) -> &'static str {
        "Asks for approvals in chats."
    }

    fn interval(&self) -> Duration {
        Duration::from_secs(2)
    }

    /// Only a write makes an approval due.
    fn idle_until(&self) -> Option<Timestamp> {
        Some(NextDue::NEVER)
    }

    fn run_once(&self) -> BoxFuture<'_, Result<WorkerReport, WorkerError>> {
        async { Ok(WorkerReport::done(self.0.request_approvals().await?)) }.boxed()
    }
}

/// Keeps the connections that the daemon opens to platforms, for daemons that cannot be reached from outside. One
/// daemon at a time holds the lease of each platform's connection.
#[derive(Debug)]
pub(super) struct KeepConnections(pub Channels);

impl Worker for KeepConnections {
    fn name(&self) -> &'static str {
        "channels.connect"
    }

    fn description(&self) -> &'static str {
        "Keeps connections to chat platforms open."
    }

    /// The delay after which settings changed by another daemon are seen.
    fn interval(&self) -> Duration {
        Duration::from_secs(2)
    }

    fn idle_until(&self) -> Option<Timestamp> {
        Some(self.0.connections_due())
    }

    fn wake(&self) -> Option<Arc<Notify>> {
        Some(self.0.connection_wake())
    }

    fn run_once(&self) -> BoxFuture<'_, Result<WorkerReport, WorkerError>> {
        async { Ok(self.0.keep_connections().await?) }.boxed()
    }
}

/// Reports in the chat that a long turn is still running.
#[derive(Debug)]
pub(super) struct ReportProgress(pub Channels);

impl Worker for ReportProgress {
    fn name(&self) -> &'static str {
        "channels.progress"
    }

    fn description(&self) -> &'static str {
        "Shows progress in chats."
    }

    fn interval(&self) -> Duration {
        Duration::from_secs(5)
    }

    fn idle_until(&self) -> Option<Timestamp> {
        Some(self.0.progress_due().at())
    }

    fn run_once(&self) -> BoxFuture<'_, Result<WorkerReport, WorkerError>> {
        async {
            let (reports, next_due) = self.0.report_progress().await?;
            self.0.progress_due().note(next_due);
            Ok(WorkerReport::done(reports))
        }
        .boxed()
    }
}

/// Purges expired messages, ended pairing codes and completed queue items, one batch of each kind per call. It needs no
/// lease because deletion is idempotent.
impl PurgeTask for Channels {
    const WORKER: &'static str = "channels.purge";
    const DESCRIPTION: &'static str = "Deletes old messages of chat platforms.";
    const RETENTION: &'static [Retention] =
        &[Retention { what: "Messages of chat platforms", kept: MESSAGE_RETENTION }];
    const INTERVAL: Duration = Duration::from_secs(600);

    async fn purge_batch(&self) -> Result<WorkerReport, WorkerError> {
        let context = self.context();
        let now = context.clock.now();
        let mut read = context.db.read().await?;
        let is_due =
            store::has_expired(&mut read, now - MESSAGE_RETENTION).await? || read.queue_stats(QUEUE).await?.done > 0;
        drop(read);
        if !is_due {
            return Ok(WorkerReport::IDLE);
        }
        let purge = async move |tx: &mut Tx| {
            store::delete_expired_pairings(tx, now).await?;
            let messages = store::purge_messages(tx, now - MESSAGE_RETENTION, ROW_BATCH_SIZE).await?;
            let conversations = store::purge_conversations(tx, ROW_BATCH_SIZE).await?;
            let approvals = store::purge_approvals(tx, ROW_BATCH_SIZE).await?;
            let items = tx.purge_queue(QUEUE, ItemStatus::Done, now, ROW_BATCH_SIZE).await?;
            Ok::<_, StoreError>(messages.max(conversations).max(approvals).max(items))
        };
        Ok(WorkerReport::batch(context.db.write_relaxed(purge).await?, ROW_BATCH_SIZE))
    }
}
