//! What a platform must be able to do, and those that can do it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use agentd_base::Timestamp;
use agentd_core::runtime::Slot;
use futures_util::future::BoxFuture;
use serde_json::Value;

use super::model::{MessageFormat, NotificationId};

/// A message on its way to one platform.
#[derive(Debug, Clone)]
pub struct Outgoing {
    /// The same in every attempt.
    pub id: NotificationId,
    /// What stands behind the colon of the target.
    pub channel: String,
    /// Whether a hook sends it: `security.private_hook_targets` holds for where it goes.
    pub is_of_hook: bool,
    /// As [`Notification::agent`](super::Notification).
    pub agent: Option<String>,
    /// One line; may be empty.
    pub subject: String,
    pub body: String,
    pub format: MessageFormat,
    /// As [`Notification::details`](super::Notification).
    pub details: Option<Value>,
    pub created_at: Timestamp,
}

/// The other side has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Delivered {
    /// What the other side knows it by.
    pub reference: Option<String>,
}

/// Whether a failed attempt is repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// After the usual delay.
    Later,
    /// The other side said when.
    After(Duration),
    /// It was refused for good.
    Never,
    /// Nobody needs it any more: it is forgotten, which is no failure.
    Obsolete,
}

/// Why an attempt failed: a sentence for the owner, without anything secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct DeliveryFailure {
    pub message: String,
    pub retry: Retry,
}

impl DeliveryFailure {
    #[must_use]
    pub fn later(message: impl Into<String>) -> Self {
        Self { message: message.into(), retry: Retry::Later }
    }

    #[must_use]
    pub fn for_good(message: impl Into<String>) -> Self {
        Self { message: message.into(), retry: Retry::Never }
    }

    #[must_use]
    pub fn obsolete(message: impl Into<String>) -> Self {
        Self { message: message.into(), retry: Retry::Obsolete }
    }
}

/// Sends messages to one platform. It must not answer success before the other side has the message,
/// and be ready to be dropped anywhere.
pub trait Transport: Send + Sync + 'static {
    /// What stands before the colon of its targets.
    fn platform(&self) -> &'static str;

    /// Sends one message.
    fn deliver<'a>(&'a self, message: &'a Outgoing) -> BoxFuture<'a, Result<Delivered, DeliveryFailure>>;
}

/// The transports by their platforms.
pub(super) struct Transports {
    pub(super) own: Vec<Arc<dyn Transport>>,
    /// Those of other domains. Of two for a platform the last one counts.
    pub(super) others: Slot<dyn Transport>,
}

impl Transports {
    pub(super) fn find(&self, platform: &str) -> Result<Arc<dyn Transport>, DeliveryFailure> {
        let known = || self.own.iter().chain(self.others.all());
        known().rfind(|transport| transport.platform() == platform).cloned().ok_or_else(|| {
            let names: BTreeSet<&str> = known().map(|transport| transport.platform()).collect();
            let names = names.into_iter().collect::<Vec<_>>().join(", ");
            DeliveryFailure::later(format!("there is no way to send to `{platform}`; there is: {names}"))
        })
    }
}
