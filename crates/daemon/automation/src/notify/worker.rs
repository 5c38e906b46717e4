//! Delivery and purge workers of notifications.

use std::convert::Infallible;
use std::time::Duration;

use agentd_core::runtime::{
    AppContext, ItemFailure, ItemHandler, PurgeTask, Retention, WorkQueue, WorkerError, WorkerReport,
};
use agentd_store::{ItemStatus, Lease, StoreError, Tx};
use serde::Deserialize;

use super::model::{
    BACKOFF, DEFAULT_ATTEMPTS, NotificationId, NotificationStatus, RETENTION_PERIOD, StoredNotification,
};
use super::service::{Notify, emit_ended};
use super::store;
use super::transport::{Delivered, DeliveryFailure, Outgoing, Retry};

/// Timeout of a delivery by any transport.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(60);
/// Upper bound of a retry delay requested by the recipient.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(6 * 60 * 60);

/// Sends due messages, a few concurrently.
#[derive(Debug, Clone)]
pub(super) struct DeliverNotifications(pub Notify);

#[derive(Deserialize)]
pub(super) struct Payload {
    notification_id: NotificationId,
}

impl ItemHandler for DeliverNotifications {
    type Item = Payload;
    type End = Infallible;
    const WORKER: &'static str = "notify.deliver";
    const DESCRIPTION: &'static str = "Sends queued notifications.";
    const LEASE: Duration = Duration::from_secs(30);

    fn context(&self) -> &AppContext {
        self.0.context()
    }

    fn queue(&self) -> &WorkQueue {
        self.0.queue()
    }

    async fn handle(&self, lease: &Lease, item: &Payload) -> Result<(), ItemFailure<Infallible>> {
        let db = &self.0.context().db;
        let found = store::find_notification(&mut db.read().await?, &item.notification_id).await?;
        let Some(message) = found.filter(|message| message.status == NotificationStatus::Pending) else {
            return self.complete(lease).await;
        };
        let sent = self.run_until_lost(lease, async { Ok::<_, StoreError>(send(&self.0, &message).await) }).await?;
        if let Err(failure) = &sent {
            tracing::info!(id = %message.id, platform = message.platform, attempt = lease.attempt, error = %failure, "notification delivery failed");
        }
        let lease = lease.clone();
        Ok(db.write(async move |tx: &mut Tx| record(tx, &lease, &message, &sent).await).await?)
    }

    async fn record_failure(
        &self,
        tx: &mut Tx,
        lease: &Lease,
        _item: &Payload,
        failure: &ItemFailure<Infallible>,
    ) -> Result<(), StoreError> {
        failure.retry(tx, lease, &BACKOFF).await
    }
}

async fn send(notify: &Notify, message: &StoredNotification) -> Result<Delivered, DeliveryFailure> {
    let transport = notify.transports().find(&message.platform)?;
    let outgoing = Outgoing {
        id: message.id.clone(),
        channel: notify.opened_channel(message).await?,
        is_of_hook: message.is_of_hook,
        agent: message.agent.clone(),
        subject: message.subject.clone(),
        body: message.body.clone(),
        format: message.format,
        details: message.details.clone(),
        created_at: message.created_at,
    };
    let delivered = tokio::time::timeout(DELIVERY_TIMEOUT, transport.deliver(&outgoing)).await;
    delivered.unwrap_or_else(|_| {
        let message = format!("sending took longer than {} seconds", DELIVERY_TIMEOUT.as_secs());
        Err(DeliveryFailure::later(message))
    })
}

/// Records the outcome of an attempt: the queue item, the row and the event in one transaction.
async fn record(
    tx: &mut Tx,
    lease: &Lease,
    message: &StoredNotification,
    sent: &Result<Delivered, DeliveryFailure>,
) -> Result<(), StoreError> {
    let failure = match sent {
        Ok(delivered) => {
            tx.complete(lease).await?;
            let reference = delivered.reference.as_deref();
            store::update_sent(tx, &message.id, lease.attempt, reference).await?;
            return emit_ended(tx, message, lease.attempt, Ok(reference)).await;
        }
        Err(failure) => failure,
    };
    let next_attempt_at = match failure.retry {
        Retry::Later => tx.fail(lease, &failure.message, &BACKOFF).await?,
        Retry::After(delay) => tx.fail_for(lease, &failure.message, delay.min(MAX_RETRY_DELAY)).await?,
        Retry::Never => {
            tx.dead_letter(lease, &failure.message).await?;
            None
        }
        Retry::Obsolete => {
            tx.complete(lease).await?;
            tx.remove_item(&lease.id).await?;
            return store::delete_notification(tx, &message.id).await;
        }
    };
    store::update_failed(tx, &message.id, lease.attempt, &failure.message, next_attempt_at).await?;
    if next_attempt_at.is_none() {
        emit_ended(tx, message, lease.attempt, Err(&failure.message)).await?;
    }
    Ok(())
}

const BATCH_SIZE: u32 = 100;
/// Age after which a pending message without an update is checked. Exceeds the duration of a delivery.
const STALE_AFTER: Duration = Duration::from_secs(5 * 60);
const LAST_ATTEMPT_LOST: &str =
    "the daemon ended during the last attempt, so the message may or may not have arrived; retry it if it did not";

/// Deletes expired messages, and settles messages whose last attempt was interrupted by the end of its daemon.
impl PurgeTask for Notify {
    const WORKER: &'static str = "notify.purge";
    const DESCRIPTION: &'static str = "Deletes old notifications.";
    const RETENTION: &'static [Retention] = &[Retention { what: "Notifications", kept: RETENTION_PERIOD }];

    async fn purge_batch(&self) -> Result<WorkerReport, WorkerError> {
        let context = self.context();
        let now = context.clock.now();
        let mut settled = 0;
        let mut read = context.db.read().await?;
        for (id, item) in store::list_stale(&mut read, now - STALE_AFTER, BATCH_SIZE).await? {
            let status = read.find_item(&item).await?.map(|item| item.status);
            if !matches!(status, Some(ItemStatus::Pending | ItemStatus::Leased)) {
                context.db.write(async move |tx: &mut Tx| settle(tx, &id).await).await?;
                settled += 1;
            }
        }
        drop(read);
        let ended = store::list_ended(&mut context.db.read().await?, now - RETENTION_PERIOD, BATCH_SIZE).await?;
        let report = WorkerReport::batch(ended.len(), BATCH_SIZE).and(WorkerReport::done(settled));
        if !ended.is_empty() {
            let forget = async move |tx: &mut Tx| {
                for (id, item) in &ended {
                    tx.remove_item(item).await?;
                    store::delete_notification(tx, id).await?;
                }
                Ok::<_, StoreError>(())
            };
            context.db.write(forget).await?;
        }
        Ok(report)
    }
}

/// Reconciles a pending message with its queue item, which is authoritative.
async fn settle(tx: &mut Tx, id: &NotificationId) -> Result<(), StoreError> {
    let Some(message) = store::find_notification(tx, id).await? else { return Ok(()) };
    let Some(item) = store::find_item_id(tx, id).await? else { return Ok(()) };
    if message.status != NotificationStatus::Pending {
        return Ok(());
    }
    match tx.find_item(&item).await? {
        Some(item) if item.status == ItemStatus::DeadLetter => {
            store::update_failed(tx, id, item.attempt, LAST_ATTEMPT_LOST, None).await?;
            emit_ended(tx, &message, item.attempt, Err(LAST_ATTEMPT_LOST)).await
        }
        Some(item) if item.status != ItemStatus::Done => Ok(()),
        // The queue item is missing, as after the restore of an older backup.
        _ => store::add_item(tx, id, DEFAULT_ATTEMPTS).await,
    }
}
