//! Durable delivery of notifications from the scheduler, alerts, hooks and agents to external recipients.
//!
//! | status | next |
//! |---|---|
//! | `pending` | sent when due; a failed attempt is retried with exponential backoff |
//! | `sent` | final, unless the platform later reports it as undelivered; deleted after 30 days |
//! | `dead_letter` | final until it is retried manually; deleted after 30 days |
//!
//! A message that becomes obsolete before it is sent, such as an answered question, is deleted immediately.
//!
//! Invariants
//! - A message is part of the change that causes it: [`Notify::enqueue`] runs in the caller's transaction. A committed
//!   message is sent, becomes a dead letter with a reason, or becomes obsolete.
//! - Sending is at least once. A crash between the last byte of a message and the commit of its success sends it twice.
//!   Both copies carry the same identity: an email its `Message-ID`, a webhook its `id`.
//! - A message whose platform is disabled, unknown or unavailable is retried. A permanent rejection by the recipient is
//!   not.
//! - Every attempt has a time limit, and only a few run concurrently.
//! - The owner enters the addresses, so private ones are permitted. Each connection is checked against the policy of
//!   the security settings.
//!
//! `push:` addresses every registered device. Such a message counts as sent once a copy for each device is queued; the
//! copies are sent, retried and dead-lettered individually. See [`push`].
//!
//! Events: `channel.message.sent` with `data {notification_id, platform, channel, subject, format, attempts,
//! reference}`, and `channel.message.failed` with `error` instead of `reference`, once, when a message becomes a dead
//! letter. A sent message that is later reported as undelivered emits both. `channel` is the address of an email, the
//! scheme and host of a URL (its path may contain a token), or the name used by the platform. `reference` is the
//! recipient's identifier of the message, if any.
//!
//! Out of scope: the content of messages, and the chat platforms (`channels` registers a [`Transport`] for each).

mod email;
mod error;
mod model;
mod push;
mod routes;
mod service;
mod store;
mod transport;
mod webhook;
mod worker;

use std::sync::Arc;

use agentd_core::parts::{Domain, DomainParts, ShutdownPhase, ShutdownStep};
use agentd_core::runtime::{Binding, MetricList, PurgeWorker, QueueWorker};
use agentd_core::settings::ValidateReference;

use routes::routes;
use worker::DeliverNotifications;

pub use email::EmailError;
pub use error::NotifyError;
pub use model::{
    MAX_BODY_BYTES, MessageFormat, Notification, NotificationId, NotificationStatus, StoredNotification, Target,
    TargetError,
};
pub use push::{NewSubscription, PendingCheck, Push, PushDetails, PushSubscription, PushSubscriptionId};
pub use service::{Notify, NotifyOptions};
pub use transport::{Delivered, DeliveryFailure, Outgoing, Retry, Transport};

impl Domain for Notify {
    fn parts(&self) -> DomainParts {
        DomainParts {
            routes: routes().with_state(self.clone()),
            workers: vec![
                Box::new(QueueWorker(DeliverNotifications(self.clone()))),
                Box::new(PurgeWorker(self.clone())),
            ],
            metrics: MetricList::default(),
            bindings: vec![Binding::new::<dyn ValidateReference>(Arc::new(self.clone()))],
            shutdown: vec![ShutdownStep::new(ShutdownPhase::Work, self, async |notify, grace| {
                notify.drain(grace).await
            })],
        }
    }
}
