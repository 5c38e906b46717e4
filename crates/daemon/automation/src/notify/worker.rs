//! Sends what is due, and forgets what has ended.

use std::convert::Infallible;
use std::time::Duration;

use agentd_core::runtime::{
    AppContext, HandlesItems, ItemFailure, PurgesData, Retention, WorkQueue, WorkerError, WorkerReport,
};
use agentd_store::{ItemStatus, Lease, StoreError, Tx};
use serde::Deserialize;

use super::model::{BACKOFF, DEFAULT_ATTEMPTS, KEPT, NotificationId, NotificationStatus, StoredNotification};
use super::service::{Notify, emit_ended};
use super::store;
use super::transport::{Delivered, DeliveryFailure, Outgoing, Retry};

/// Whatever a transport does, it is over by then.
const DELIVERY_LIMIT: Duration = Duration::from_secs(60);
/// The other side may not put us off for longer.
const LONGEST_DELAY: Duration = Duration::from_secs(6 * 60 * 60);

/// Sends what is due, a few messages at once.
#[derive(Debug, Clone)]
pub(super) struct DeliverNotifications(pub Notify);

#[derive(Deserialize)]
pub(super) struct Payload {
    notification_id: NotificationId,
}

impl HandlesItems for DeliverNotifications {
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
        let sent = self.hold(lease, async { Ok::<_, StoreError>(send(&self.0, &message).await) }).await?;
        if let Err(failure) = &sent {
            tracing::info!(id = %message.id, platform = message.platform, attempt = lease.attempt, error = %failure, "a message was not sent");
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
    let delivered = tokio::time::timeout(DELIVERY_LIMIT, transport.deliver(&outgoing)).await;
    delivered.unwrap_or_else(|_| {
        let message = format!("sending took longer than {} seconds", DELIVERY_LIMIT.as_secs());
        Err(DeliveryFailure::later(message))
    })
}

/// Writes down what came of an attempt: the queue's item, the row and the event in one transaction.
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
    let again = match failure.retry {
        Retry::Later => tx.fail(lease, &failure.message, &BACKOFF).await?,
        Retry::After(delay) => tx.fail_for(lease, &failure.message, delay.min(LONGEST_DELAY)).await?,
        Retry::Never => {
            tx.bury(lease, &failure.message).await?;
            None
        }
        Retry::Obsolete => {
            tx.complete(lease).await?;
            tx.remove_item(&lease.id).await?;
            return store::delete_notification(tx, &message.id).await;
        }
    };
    store::update_failed(tx, &message.id, lease.attempt, &failure.message, again).await?;
    if again.is_none() {
        emit_ended(tx, message, lease.attempt, Err(&failure.message)).await?;
    }
    Ok(())
}

const BATCH: u32 = 100;
/// Longer than a message can be on its way.
const STALE: Duration = Duration::from_secs(5 * 60);
const LAST_ATTEMPT_LOST: &str =
    "the daemon ended during the last attempt, so nobody knows whether it arrived; retry it if it did not";

/// Deletes what ended long ago, and settles messages whose last attempt ended with the daemon that made it.
impl PurgesData for Notify {
    const WORKER: &'static str = "notify.purge";
    const DESCRIPTION: &'static str = "Deletes old notifications.";
    const RETENTION: &'static [Retention] = &[Retention { what: "Notifications", kept: KEPT }];

    async fn purge_batch(&self) -> Result<WorkerReport, WorkerError> {
        let context = self.context();
        let now = context.clock.now();
        let mut settled = 0;
        let mut read = context.db.read().await?;
        for (id, item) in store::list_stale(&mut read, now - STALE, BATCH).await? {
            let status = read.find_item(&item).await?.map(|item| item.status);
            if !matches!(status, Some(ItemStatus::Pending | ItemStatus::Leased)) {
                context.db.write(async move |tx: &mut Tx| settle(tx, &id).await).await?;
                settled += 1;
            }
        }
        drop(read);
        let ended = store::list_ended(&mut context.db.read().await?, now - KEPT, BATCH).await?;
        let report = WorkerReport::batch(ended.len(), BATCH).and(WorkerReport::done(settled));
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

/// Brings a pending message and its item in the queue together again; the item decides.
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
        // Its place is gone, as after a restore of something older.
        _ => store::add_item(tx, id, DEFAULT_ATTEMPTS).await,
    }
}
