//! Enqueueing, listing and retrying notifications.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use agentd_base::{FieldProblem, Page};
use agentd_core::parts::Detached;
use agentd_core::runtime::{AppContext, Slots, WorkQueue};
use agentd_core::settings::{CHANNEL_PLATFORMS, ProactiveSettings, Section, Settings, ValidateReference, is_mailbox};
use agentd_core::vault::{Vault, names_in_url, open_url};
use agentd_store::{NewEvent, Read, Recorder, StoreError, Tx};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};

use super::email::{Email, EmailOptions};
use super::error::NotifyError;
use super::model::{
    DEFAULT_ATTEMPTS, MAX_BODY_BYTES, Notification, NotificationId, NotificationStatus, StoredNotification, Target,
    redact_channel,
};
use super::push::Push;
use super::store;
use super::transport::{DeliveryFailure, Transport, Transports};
use super::webhook::Webhook;

/// Maximum number of concurrent deliveries.
const MAX_CONCURRENT_DELIVERIES: usize = 4;

/// Timeout of a test mail, for which the client waits.
const TEST_TIMEOUT: Duration = Duration::from_secs(20);

/// Options of the notification service.
#[derive(Debug, Clone)]
pub struct NotifyOptions {
    /// Additional trusted root certificates (DER) for mail servers.
    pub extra_tls_roots: Vec<Vec<u8>>,
    /// Timeout of one email, from name resolution to the last reply. Also an upper bound for push messages.
    pub email_time_limit: Duration,
    /// Base URL of the daemon, `https://` or `http://`.
    pub base_url: String,
}

struct Inner {
    context: AppContext,
    vault: Vault,
    settings: Settings,
    email: Arc<Email>,
    push: Push,
    transports: Transports,
    queue: WorkQueue,
}

/// Durable sending. Cheap to clone.
#[derive(Clone)]
pub struct Notify(Arc<Inner>);

impl std::fmt::Debug for Notify {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Notify").field("queue", &self.0.queue).finish_non_exhaustive()
    }
}

impl Notify {
    /// Creates the service with the transports `email`, `webhook` and `push`. Transports registered in the slot take
    /// precedence.
    pub fn new(context: &AppContext, settings: Settings, options: NotifyOptions, slots: &mut Slots) -> Detached<Self> {
        let (webhook, vault) = (Webhook::new(settings.clone(), context.clock.clone()), settings.vault().clone());
        let push = Push::new(context, settings.clone(), options.base_url, options.email_time_limit);
        let options = EmailOptions { extra_tls_roots: options.extra_tls_roots, time_limit: options.email_time_limit };
        let email = Arc::new(Email::new(settings.clone(), context.clock.clone(), options));
        let own: Vec<Arc<dyn Transport>> = vec![Arc::clone(&email) as _, Arc::new(webhook), Arc::new(push.clone())];
        Detached::new(Self(Arc::new(Inner {
            context: context.clone(),
            vault,
            settings,
            email,
            push,
            transports: Transports { own, others: slots.create() },
            queue: WorkQueue::new(context, store::QUEUE, MAX_CONCURRENT_DELIVERIES),
        })))
    }

    /// Whether the platform is known, configured or not.
    #[must_use]
    pub fn knows_platform(&self, platform: &str) -> bool {
        CHANNEL_PLATFORMS.contains(&platform) || self.0.transports.find(platform).is_ok()
    }

    /// Returns why the target cannot be used with the current settings. For validation before a target is stored;
    /// messages to a stored target wait for its platform.
    #[must_use]
    pub fn target_problem(&self, target: &Target) -> Option<String> {
        let Target::Channel { platform, .. } = target else { return None };
        let is_set_up = || match CHANNEL_PLATFORMS.contains(&platform.as_str()) {
            true => self.0.settings.is_platform_on(platform),
            false => self.0.transports.find(platform).is_ok(),
        };
        target.fault().or_else(|| {
            (!is_set_up()).then(|| {
                format!(
                    "names the platform `{platform}`, which is not configured; configure and enable it with PUT \
                     /api/channels/settings, or use email:<address> or webhook:<url>"
                )
            })
        })
    }

    /// Returns the service of push devices.
    #[must_use]
    pub fn push(&self) -> &Push {
        &self.0.push
    }

    pub(super) fn context(&self) -> &AppContext {
        &self.0.context
    }

    pub(super) fn transports(&self) -> &Transports {
        &self.0.transports
    }

    pub(super) fn queue(&self) -> &WorkQueue {
        &self.0.queue
    }

    /// Enqueues a message, which is sent after `tx` commits. If a message with the same idempotency key exists, its id
    /// is returned.
    ///
    /// # Errors
    /// `BodyTooLarge`, before any write, or a store error.
    pub async fn enqueue(&self, tx: &mut Tx, new: &Notification) -> Result<NotificationId, NotifyError> {
        if new.body.len() > MAX_BODY_BYTES {
            return Err(NotifyError::BodyTooLarge { bytes: new.body.len() });
        }
        store::insert_notification(tx, &self.0.vault, new).await?.ok_or(NotifyError::NotFound)
    }

    /// Returns the channel of a message with the credentials in its URL.
    pub(super) async fn opened_channel(&self, message: &StoredNotification) -> Result<String, DeliveryFailure> {
        if names_in_url(&message.channel).is_empty() {
            return Ok(message.channel.clone());
        }
        let scope = store::secret_scope(&message.id);
        let mut read = self.0.context.db.read().await.map_err(|error| DeliveryFailure::later(error.to_string()))?;
        let opened = open_url(&mut read, &self.0.vault, &scope, &message.channel).await;
        let opened = opened.map_err(|error| DeliveryFailure::later(error.to_string()))?;
        opened.map_err(DeliveryFailure::permanent)
    }

    /// Returns a page of notifications, newest first, and their total number.
    ///
    /// # Errors
    /// A store error.
    pub async fn list(
        &self,
        status: Option<NotificationStatus>,
        platform: Option<&str>,
        page: Page,
    ) -> Result<(Vec<StoredNotification>, u64), NotifyError> {
        Ok(store::list_notifications(&mut self.0.context.db.read().await?, status, platform, page).await?)
    }

    /// Returns a notification.
    ///
    /// # Errors
    /// `NotFound`, or a store error.
    pub async fn get(&self, id: &NotificationId) -> Result<StoredNotification, NotifyError> {
        let found = store::find_notification(&mut self.0.context.db.read().await?, id).await?;
        found.ok_or(NotifyError::NotFound)
    }

    /// Returns the status and last error of messages by idempotency key. Deleted messages are omitted.
    ///
    /// # Errors
    /// A store error.
    pub async fn outcomes(
        &self,
        read: &mut Read,
        keys: &[String],
    ) -> Result<BTreeMap<String, (NotificationStatus, Option<String>)>, NotifyError> {
        Ok(store::outcomes_by_key(read, keys).await?)
    }

    /// Dead-letters a sent message that its platform later reports as undelivered. `reference` is the platform's
    /// identifier of the message. Returns whether a sent message was found.
    ///
    /// # Errors
    /// A store error.
    pub async fn note_undelivered(
        &self,
        tx: &mut Tx,
        platform: &str,
        reference: &str,
        error: &str,
    ) -> Result<bool, StoreError> {
        let Some(message) = store::find_sent(tx, platform, reference).await? else { return Ok(false) };
        let is_first = store::update_undelivered(tx, &message.id, error).await?;
        if is_first {
            emit_ended(tx, &message, message.attempt_count, Err(error)).await?;
        }
        Ok(is_first)
    }

    /// Requeues a dead letter and resets its attempt count.
    ///
    /// # Errors
    /// `NotFound`, `NotDead` in any other state, or a store error.
    pub async fn retry(
        &self,
        id: NotificationId,
        recorder: Recorder<StoredNotification>,
    ) -> Result<StoredNotification, NotifyError> {
        let work = async move |tx: &mut Tx| {
            let found = store::find_notification(tx, &id).await?.ok_or(NotifyError::NotFound)?;
            if found.status != NotificationStatus::DeadLetter {
                return Err(NotifyError::NotDead { status: found.status.as_str() });
            }
            let item = store::find_item_id(tx, &id).await?.ok_or(NotifyError::NotFound)?;
            if !tx.retry_dead_letter(&item).await? {
                store::add_item(tx, &id, DEFAULT_ATTEMPTS).await?;
            }
            store::update_retried(tx, &id).await?;
            let retried = store::find_notification(tx, &id).await?.ok_or(NotifyError::NotFound)?;
            recorder.record(tx, &retried).await?;
            Ok(retried)
        };
        self.0.context.db.write(work).await
    }

    /// Sends a test mail immediately with the current settings, by default to the owner. Returns once the server has
    /// accepted it.
    ///
    /// # Errors
    /// `Invalid` address, or an `EmailError`.
    pub async fn send_test_email(&self, to: Option<&str>, recorder: Recorder<()>) -> Result<(), NotifyError> {
        let owner = self.0.email.owner();
        let to = to.unwrap_or(&owner);
        if !is_mailbox(to) {
            let message = match to {
                "" => "is required, because the profile has no email",
                _ => "must be an address such as name@example.org",
            };
            let message = message.to_owned();
            return Err(NotifyError::Invalid(vec![FieldProblem { field: "to".to_owned(), message }]));
        }
        self.0.email.send_test(to, &self.0.context.ids, TEST_TIMEOUT).await?;
        self.0.context.db.write(async move |tx: &mut Tx| Ok::<_, StoreError>(recorder.record(tx, &()).await?)).await?;
        Ok(())
    }

    /// Waits up to `timeout` until no delivery is running. Interrupted deliveries are repeated after their lease
    /// expires.
    pub async fn drain(&self, timeout: Duration) {
        self.0.queue.drain(timeout).await;
    }
}

impl ValidateReference for Notify {
    fn named_by(&self) -> (&'static str, &'static str) {
        (ProactiveSettings::NAME, "delivery")
    }

    fn problem<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Option<String>> {
        // The settings themselves reject a text that is not a target.
        let fault = name.parse().ok().and_then(|target| self.target_problem(&target));
        std::future::ready(fault).boxed()
    }
}

/// Returns the event data of a message without its outcome.
fn event_data(message: &StoredNotification, attempts: u32) -> Value {
    json!({
        "notification_id": message.id,
        "platform": message.platform,
        "channel": redact_channel(&message.platform, &message.channel),
        "subject": message.subject,
        "format": message.format,
        "attempts": attempts,
    })
}

/// Emits the event about the outcome of a message.
pub(super) async fn emit_ended(
    tx: &mut Tx,
    message: &StoredNotification,
    attempts: u32,
    outcome: Result<Option<&str>, &str>,
) -> Result<(), StoreError> {
    let mut data = event_data(message, attempts);
    let event_type = match outcome {
        Ok(reference) => {
            data["reference"] = json!(reference);
            "channel.message.sent"
        }
        Err(error) => {
            data["error"] = json!(error);
            "channel.message.failed"
        }
    };
    let mut event = NewEvent::new(event_type, data);
    event.agent.clone_from(&message.agent);
    tx.emit(event).await?;
    Ok(())
}
