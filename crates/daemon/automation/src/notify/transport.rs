//! The transport interface and the registry of transports.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use agentd_base::Timestamp;
use agentd_core::runtime::Slot;
use futures_util::future::BoxFuture;
use serde_json::Value;

use super::model::{MessageFormat, NotificationId};

/// A message for one platform.
#[derive(Debug, Clone)]
pub struct Outgoing {
    /// Identical in every attempt.
    pub id: NotificationId,
    /// Part of the target after the colon.
    pub channel: String,
    /// Whether a hook sends the message, so that `security.private_hook_targets` applies.
    pub is_of_hook: bool,
    /// See [`Notification::agent`](super::Notification).
    pub agent: Option<String>,
    /// Single line; may be empty.
    pub subject: String,
    pub body: String,
    pub format: MessageFormat,
    /// See [`Notification::details`](super::Notification).
    pub details: Option<Value>,
    pub created_at: Timestamp,
}

/// Result of a successful delivery.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Delivered {
    /// Identifier of the message at the recipient.
    pub reference: Option<String>,
}

/// Retry decision for a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// Retry after the default backoff.
    Later,
    /// Retry after the delay requested by the recipient.
    After(Duration),
    /// No retry: the failure is permanent.
    Never,
    /// The message is obsolete and is deleted. Not a failure.
    Obsolete,
}

/// Failure of an attempt. The message is shown to the owner and contains no secrets.
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
    pub fn permanent(message: impl Into<String>) -> Self {
        Self { message: message.into(), retry: Retry::Never }
    }

    #[must_use]
    pub fn obsolete(message: impl Into<String>) -> Self {
        Self { message: message.into(), retry: Retry::Obsolete }
    }
}

/// Sends messages to one platform. An implementation must return success only after the recipient has accepted the
/// message, and must be cancellation safe.
pub trait Transport: Send + Sync + 'static {
    /// Returns the platform name, the part of its targets before the colon.
    fn platform(&self) -> &'static str;

    /// Sends one message.
    fn deliver<'a>(&'a self, message: &'a Outgoing) -> BoxFuture<'a, Result<Delivered, DeliveryFailure>>;
}

/// Registry of transports.
pub(super) struct Transports {
    pub(super) own: Vec<Arc<dyn Transport>>,
    /// Transports of other domains. The last one registered for a platform is used.
    pub(super) others: Slot<dyn Transport>,
}

impl Transports {
    pub(super) fn find(&self, platform: &str) -> Result<Arc<dyn Transport>, DeliveryFailure> {
        let known = || self.own.iter().chain(self.others.all());
        known().rfind(|transport| transport.platform() == platform).cloned().ok_or_else(|| {
            let names: BTreeSet<&str> = known().map(|transport| transport.platform()).collect();
            let names = names.into_iter().collect::<Vec<_>>().join(", ");
            DeliveryFailure::later(format!(
                "cannot send to `{platform}`: the platform is not available; available are {names}"
            ))
        })
    }
}
