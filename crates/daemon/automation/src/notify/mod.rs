//! Durable sending: what the scheduler, alerts, hooks and agents have to say to somebody outside.
//!
//! | status | what happens next |
//! |---|---|
//! | `pending` | it is sent when it is due; a failed attempt is repeated after a growing delay |
//! | `sent` | nothing, unless its platform says later that it did not arrive; it is forgotten after 30 days |
//! | `dead_letter` | nothing until it is retried by hand; it is forgotten after 30 days |
//!
//! One that nobody needs any more before it could be sent, such as a question that was answered, is forgotten at once.
//!
//! Invariants
//! - A message is part of the change that causes it: [`Notify::enqueue`] works in the caller's
//!   transaction. From its commit on it is sent, ends as a visible dead letter with a reason, or is needed no more.
//! - Sending is at least once. There is one window in which it may be twice: after the last byte
//!   of a message went out and before its success is committed. Both copies then carry the same
//!   identity: an e-mail its `Message-ID`, a webhook its `id`.
//! - What cannot be delivered now, because its platform is off, unknown or away, is tried again;
//!   what the other side refused for good is not.
//! - No attempt outlives its time limit, and at most a few run at once.
//! - Addresses are typed in by the owner, so they may be private ones, and each connection is
//!   checked against the policy of the security settings.
//!
//! `push:` goes to every device that is to be woken: it is sent once a message to each is in the queue, and those are
//! sent, tried again and given up one by one. See [`push`].
//!
//! Events: `channel.message.sent` with `data {notification_id, platform, channel, subject, format,
//! attempts, reference}` and `channel.message.failed` with `reference` replaced by `error`, once,
//! when a message becomes a dead letter; of a message that was sent and did not arrive, both. `channel` is the address of an e-mail, the scheme and
//! host of a webhook or of any other url (its path may hold a token), else what the platform calls it. `reference` is
//! what the other side knows the message by, where there is such a thing.
//!
//! Deliberately absent: what messages say, and the platforms (`channels` registers a
//! [`Transport`] for each of its own).

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
use agentd_core::settings::FindsNamed;

use routes::routes;
use worker::DeliverNotifications;

pub use email::EmailError;
pub use error::NotifyError;
pub use model::{
    BODY_LIMIT, MessageFormat, Notification, NotificationId, NotificationStatus, StoredNotification, Target,
    TargetError,
};
pub use push::{NewSubscription, Push, PushDetails, PushSubscription, PushSubscriptionId, StillWaits};
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
            bindings: vec![Binding::new::<dyn FindsNamed>(Arc::new(self.clone()))],
            shutdown: vec![ShutdownStep::new(ShutdownPhase::Work, self, async |notify, grace| {
                notify.drain(grace).await
            })],
        }
    }
}
