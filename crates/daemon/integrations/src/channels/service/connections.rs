//! The connections to platforms as this daemon holds them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use agentd_base::Timestamp;
use agentd_chat_platforms::{Batch, Connection, Platform};
use agentd_core::lease::HeldRow;
use agentd_core::runtime::NextDue;
use tokio::sync::{Mutex, Notify};

use super::adapters::Channel;
use crate::channels::store::KeptConnection;

pub(super) const LEASE: Duration = Duration::from_secs(30);
pub(super) const RENEWED_AFTER: Duration = Duration::from_secs(10);

/// Every platform's, as this daemon holds it.
#[derive(Debug, Default)]
pub(super) struct Connections {
    pub(super) held: Mutex<BTreeMap<Platform, Held>>,
    pub(super) wake: Arc<Notify>,
    pub(super) next_due: NextDue,
}

/// What this daemon holds of a platform.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) channel: Arc<Channel>,
    /// The last one stays; those before it are about to be ended by the platform.
    pub(super) open: Vec<Open>,
    pub(super) kept: KeptConnection,
    /// The lease and when it ends; `None`: another daemon holds it.
    pub(super) lease: Option<(HeldRow, Timestamp)>,
    pub(super) retry_at: Timestamp,
    pub(super) failures: u32,
}

#[derive(Debug)]
pub(super) struct Open {
    pub(super) connection: Connection,
    pub(super) connected_at: Option<Timestamp>,
    /// Could not be stored.
    pub(super) waiting: Option<Batch>,
}

impl Held {
    pub(super) fn new(channel: Arc<Channel>, now: Timestamp) -> Self {
        let kept = KeptConnection::default();
        Self { channel, open: Vec::new(), kept, lease: None, retry_at: now, failures: 0 }
    }

    /// Goes by other settings from now on.
    pub(super) fn follow(&mut self, channel: Arc<Channel>, now: Timestamp) {
        if Arc::ptr_eq(&self.channel, &channel) {
            return;
        }
        if self.channel.connection_key != channel.connection_key {
            self.kept.resume = self.state().resume;
            self.open.clear();
        }
        // The owner may have put right what was wrong.
        (self.channel, self.retry_at, self.failures) = (channel, now, 0);
    }

    pub(super) fn is_connected(&self) -> bool {
        self.open.iter().any(|open| open.connected_at.is_some())
    }

    /// As it is to be kept.
    pub(super) fn state(&self) -> KeptConnection {
        let resume = match self.open.last() {
            Some(open) => open.connection.resume(),
            None => self.kept.resume.clone(),
        };
        KeptConnection { resume, is_connected: self.is_connected() }
    }

    /// When there is something to do though nothing comes.
    pub(super) fn due(&self) -> Timestamp {
        let renewal = self.lease.as_ref().map(|(_, until)| *until - (LEASE - RENEWED_AFTER));
        let retry = (self.open.is_empty()).then_some(self.retry_at);
        renewal.into_iter().chain(retry).min().unwrap_or(self.retry_at)
    }
}
