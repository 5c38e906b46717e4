//! Push transport. A message to all devices is split into one message per device.

use agentd_store::{Recorder, StoreError, Tx};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::model::{Content, DEFAULT_TTL, PushDetails, PushSubscriptionId, TEST_TTL};
use super::request::Receipt;
use super::{Device, Push, store};
use crate::notify::error::NotifyError;
use crate::notify::model::{MessageFormat, Notification, NotificationId, NotificationStatus, Target};
use crate::notify::store::{find_id_by_key, insert_notification, outcomes_by_key};
use crate::notify::transport::{Delivered, DeliveryFailure, Outgoing, Transport};

/// Returns the idempotency key of a device's copy of a message.
fn copy_key(message: &NotificationId, device: &PushSubscriptionId) -> String {
    format!("push:{message}:{device}")
}

impl Transport for Push {
    fn platform(&self) -> &'static str {
        Target::PUSH
    }

    fn deliver<'a>(&'a self, message: &'a Outgoing) -> BoxFuture<'a, Result<Delivered, DeliveryFailure>> {
        async move {
            let details = self.details(message);
            if details.expires_at.is_some_and(|end| end <= self.now()) {
                return Err(DeliveryFailure::permanent("the message expired before it was sent"));
            }
            if !self.is_pending(&details).await? {
                return Err(DeliveryFailure::obsolete("the request was answered before the message was sent"));
            }
            match message.channel.as_str() {
                "" => self.send_to_each(message, &details).await,
                id => {
                    self.check_withdrawn_message(&details).await?;
                    self.send_to(&PushSubscriptionId::from(id), message, &details).await
                }
            }
        }
        .boxed()
    }
}

impl Push {
    /// Sends a test message to a device immediately, and returns once its push service has accepted it.
    ///
    /// # Errors
    /// `DeviceNotFound`, or `NotPushed` with the error of the push service.
    pub async fn send_test(&self, id: &PushSubscriptionId, recorder: Recorder<()>) -> Result<(), NotifyError> {
        let device = self.device(id).await?;
        let is_german = self.0.settings.interface().language.starts_with("de");
        let (title, body) = match is_german {
            true => ("Push-Benachrichtigungen funktionieren", "Dies ist eine Testnachricht von agentd."),
            false => ("Push notifications work", "This is a test message from agentd."),
        };
        let details =
            PushDetails { url: "/settings/notifications".to_owned(), tag: "test".to_owned(), ..PushDetails::default() };
        let content = Content::new(title, body, &details);
        let receipt = self.post(&device, &content, TEST_TTL, &details).await;
        self.record_result(&device.id, &receipt).await?;
        receipt.map_err(|failure| NotifyError::NotPushed(failure.failure.message))?;
        self.0.context.db.write(async move |tx: &mut Tx| Ok::<_, StoreError>(recorder.record(tx, &()).await?)).await?;
        Ok(())
    }

    /// Records the result of a request. A device without a subscription at its push service is deleted.
    async fn record_result(&self, id: &PushSubscriptionId, receipt: &Receipt) -> Result<(), StoreError> {
        let id = id.clone();
        let error = receipt.as_ref().err().map(|failure| failure.failure.message.clone());
        let is_gone = receipt.as_ref().is_err_and(|failure| failure.is_gone);
        let write = async move |tx: &mut Tx| match is_gone {
            true => store::delete(tx, &id).await.map(|_| ()),
            false => store::record_outcome(tx, &id, error.as_deref()).await,
        };
        self.0.context.db.write(write).await
    }

    fn details(&self, message: &Outgoing) -> PushDetails {
        let mut details: PushDetails =
            message.details.clone().and_then(|details| serde_json::from_value(details).ok()).unwrap_or_default();
        if details.tag.is_empty() {
            details.tag = message.id.to_string();
        }
        details
    }

    async fn is_pending(&self, details: &PushDetails) -> Result<bool, DeliveryFailure> {
        match (&details.about, self.0.pending_check.get()) {
            (Some(about), Some(pending_check)) => {
                pending_check.is_pending(about).await.map_err(|error| DeliveryFailure::later(error.to_string()))
            }
            _ => Ok(true),
        }
    }

    /// Fails if the device did not receive the message to withdraw.
    async fn check_withdrawn_message(&self, details: &PushDetails) -> Result<(), DeliveryFailure> {
        let Some(key) = &details.takes_away else { return Ok(()) };
        let later = |error: StoreError| DeliveryFailure::later(error.to_string());
        let mut read = self.0.context.db.read().await.map_err(later)?;
        let found = outcomes_by_key(&mut read, std::slice::from_ref(key)).await.map_err(later)?;
        match found.get(key).map(|(status, _)| *status) {
            Some(NotificationStatus::Sent) => Ok(()),
            Some(NotificationStatus::Pending) => {
                Err(DeliveryFailure::later("the message to withdraw is still being delivered"))
            }
            Some(NotificationStatus::DeadLetter) | None => {
                Err(DeliveryFailure::obsolete("the device did not receive the message to withdraw"))
            }
        }
    }

    /// Enqueues a copy for each device.
    async fn send_to_each(&self, message: &Outgoing, details: &PushDetails) -> Result<Delivered, DeliveryFailure> {
        let (this, message) = (self.clone(), message.clone());
        let details = details.clone();
        let is_closing = details.takes_away.is_some();
        let send = async move |tx: &mut Tx| {
            let taken = match &details.takes_away {
                Some(key) => find_id_by_key(tx, key).await?,
                None => None,
            };
            if details.takes_away.is_some() && taken.is_none() {
                return Ok(0);
            }
            let devices = store::list(tx).await?;
            for device in &devices {
                let takes_away = taken.as_ref().map(|taken| copy_key(taken, &device.id));
                let details = PushDetails { takes_away, ..details.clone() };
                let mut copy = Notification::new(Target::Push(device.id.to_string()), &message.subject, &message.body)
                    .format(message.format)
                    .idempotency_key(copy_key(&message.id, &device.id))
                    .details(serde_json::to_value(details).unwrap_or_default());
                copy.agent.clone_from(&message.agent);
                let copied = insert_notification(tx, this.0.settings.vault(), &copy).await?;
                copied.ok_or(NotifyError::NotFound)?;
            }
            Ok::<_, NotifyError>(devices.len())
        };
        let sent = self.0.context.db.write(send).await;
        match sent.map_err(|error| DeliveryFailure::later(error.to_string()))? {
            0 if is_closing => Err(DeliveryFailure::obsolete("no device received the message to withdraw")),
            0 => Err(DeliveryFailure::permanent(
                "no push device is registered; open the web UI on a device and enable push notifications in its \
                 settings under Notifications",
            )),
            _ => Ok(Delivered::default()),
        }
    }

    async fn send_to(
        &self,
        id: &PushSubscriptionId,
        message: &Outgoing,
        details: &PushDetails,
    ) -> Result<Delivered, DeliveryFailure> {
        let receipt = match self.device(id).await {
            Ok(device) => self.send_to_device(&device, message, details).await,
            Err(NotifyError::DeviceNotFound) => {
                return Err(DeliveryFailure::permanent("the push device was removed"));
            }
            Err(NotifyError::NotPushed(error)) => Err(DeliveryFailure::permanent(error).into()),
            Err(error) => return Err(DeliveryFailure::later(Self::unreadable(&error))),
        };
        if let Err(error) = self.record_result(id, &receipt).await {
            tracing::warn!(%id, %error, "failed to record device push result");
        }
        receipt.map(|()| Delivered::default()).map_err(|failure| failure.failure)
    }

    async fn send_to_device(&self, device: &Device, message: &Outgoing, details: &PushDetails) -> Receipt {
        let service = device.endpoint.origin().ascii_serialization();
        if self.0.silent.contains(&service, self.now()) {
            let error = format!("{service} did not respond and is suspended for a short time");
            return Err(DeliveryFailure::later(error).into());
        }
        let body = match message.format {
            // HTML is not rendered in notifications.
            MessageFormat::Html => "",
            MessageFormat::Markdown | MessageFormat::Text | MessageFormat::Json => &message.body,
        };
        let content = Content::new(&message.subject, body, details);
        let ttl = details.expires_at.map_or(DEFAULT_TTL, |end| end.since(self.now()));
        self.post(device, &content, ttl, details).await
    }
}
