//! Sends what is due, and forgets what has ended.

use std::sync::Arc;
use std::time::Duration;

use agentd_base::Timestamp;
use agentd_store::{ItemStatus, Lease, StoreError, Tx};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::Deserialize;

use super::model::{BACKOFF, KEPT, NotificationId, NotificationStatus, StoredNotification};
use super::service::{Notify, QUEUE, add_lost_item, emit_ended};
use super::store;
use super::transport::{Delivered, DeliveryFailure, Outgoing, Retry};
use crate::runtime::{Claims, Worker, WorkerError, WorkerReport, keep_lease};

/// Renewed while a message is on its way, so that a daemon that died holds nothing for long.
const LEASE: Duration = Duration::from_secs(30);
const HEARTBEAT: Duration = Duration::from_secs(10);
/// Whatever a transport does, it is over by then.
const DELIVERY_LIMIT: Duration = Duration::from_secs(60);
/// So that the daemon can come to rest while a message is on its way.
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// The other side may not put us off for longer.
const LONGEST_DELAY: Duration = Duration::from_secs(6 * 60 * 60);

/// Claims what is due and sends it, a few at once.
#[derive(Debug)]
pub(super) struct DeliverNotifications(pub Notify);

#[derive(Deserialize)]
struct Payload {
    notification_id: NotificationId,
}

impl Worker for DeliverNotifications {
    fn name(&self) -> &'static str {
        "notify.deliver"
    }

    fn interval(&self) -> Duration {
        Duration::from_secs(5)
    }

    fn idle_until(&self) -> Option<Timestamp> {
        Some(self.0.next_due().at())
    }

    fn wake(&self) -> Option<Arc<tokio::sync::Notify>> {
        Some(self.0.wake())
    }

    fn run_once(&self) -> BoxFuture<'_, Result<WorkerReport, WorkerError>> {
        self.run().boxed()
    }
}

impl DeliverNotifications {
    async fn run(&self) -> Result<WorkerReport, WorkerError> {
        let claims = Claims {
            context: self.0.context(),
            queue: QUEUE,
            permits: self.0.permits(),
            next_due: self.0.next_due(),
            lease: LEASE,
            wake: None,
            longest_wait: LONGEST_WAIT,
        };
        let notify = &self.0;
        claims
            .begin(|lease| {
                let notify = notify.clone();
                async move { attempt(&notify, lease).await }
            })
            .await
    }
}

async fn attempt(notify: &Notify, lease: Lease) {
    let item = lease.id.clone();
    match send_and_record(notify, lease).await {
        Ok(()) => {}
        Err(StoreError::LostLease { .. }) => {
            tracing::warn!(%item, "another replica has taken a message over that was being sent here");
        }
        Err(error) => {
            tracing::warn!(%item, %error, "how a message was sent could not be recorded; it will be tried again");
        }
    }
}

async fn send_and_record(notify: &Notify, lease: Lease) -> Result<(), StoreError> {
    let context = notify.context();
    let payload: Payload = lease.payload()?;
    let found = store::find_notification(&mut context.db.read().await?, &payload.notification_id).await?;
    let Some(message) = found.filter(|message| message.status == NotificationStatus::Pending) else {
        return context.db.write(async move |tx: &mut Tx| tx.complete(&lease).await).await;
    };
    let sent = tokio::select! {
        sent = send(notify, &message) => sent,
        lost = keep_lease(&context.db, &lease, LEASE, HEARTBEAT) => return Err(lost),
    };
    if let Err(failure) = &sent {
        tracing::info!(id = %message.id, platform = message.platform, attempt = lease.attempt, error = %failure, "a message could not be sent");
    }
    context.db.write(async move |tx: &mut Tx| record(tx, &lease, &message, &sent).await).await
}

async fn send(notify: &Notify, message: &StoredNotification) -> Result<Delivered, DeliveryFailure> {
    let transport = notify.transports().find(&message.platform)?;
    let outgoing = Outgoing {
        id: message.id.clone(),
        channel: notify.opened_channel(message).await?,
        is_of_hook: message.is_of_hook,
        subject: message.subject.clone(),
        body: message.body.clone(),
        format: message.format,
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
    };
    store::update_failed(tx, &message.id, lease.attempt, &failure.message, again).await?;
    if again.is_none() {
        emit_ended(tx, message, lease.attempt, Err(&failure.message)).await?;
    }
    Ok(())
}

/// Forgets what ended long ago, and finds messages whose last attempt ended with the daemon that
/// made it.
#[derive(Debug)]
pub(super) struct PurgeNotifications(pub Notify);

const BATCH: u32 = 100;
/// Longer than a message can be on its way.
const STALE: Duration = Duration::from_secs(5 * 60);
const LAST_ATTEMPT_LOST: &str =
    "the daemon ended during the last attempt, so nobody knows whether it arrived; retry it if it did not";

impl Worker for PurgeNotifications {
    fn name(&self) -> &'static str {
        "notify.purge"
    }

    fn interval(&self) -> Duration {
        Duration::from_secs(60)
    }

    fn run_once(&self) -> BoxFuture<'_, Result<WorkerReport, WorkerError>> {
        self.run().boxed()
    }
}

impl PurgeNotifications {
    async fn run(&self) -> Result<WorkerReport, WorkerError> {
        let context = self.0.context();
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
        _ => add_lost_item(tx, id).await,
    }
}
