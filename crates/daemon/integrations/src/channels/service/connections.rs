//! State of this daemon's platform connections.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use agentd_base::Timestamp;
use agentd_chat_platforms::{Batch, Connection, Platform};
use agentd_core::lease::HeldRow;
use agentd_core::runtime::NextDue;
use tokio::sync::{Mutex, Notify};

use super::adapters::Channel;
use crate::channels::store::StoredConnection;

pub(super) const LEASE_DURATION: Duration = Duration::from_secs(30);
pub(super) const RENEWAL_INTERVAL: Duration = Duration::from_secs(10);

/// Connections of this daemon to all platforms.
#[derive(Debug, Default)]
pub(super) struct Connections {
    pub(super) held: Mutex<BTreeMap<Platform, PlatformConnection>>,
    pub(super) wake: Arc<Notify>,
    pub(super) next_due: NextDue,
}

/// Connection of this daemon to a platform.
#[derive(Debug)]
pub(super) struct PlatformConnection {
    pub(super) channel: Arc<Channel>,
    /// Open connections; the platform is about to close all but the last one.
    pub(super) open: Vec<OpenConnection>,
    pub(super) stored: StoredConnection,
    /// Lease and its expiry; `None` if another daemon holds it.
    pub(super) lease: Option<(HeldRow, Timestamp)>,
    pub(super) retry_at: Timestamp,
    pub(super) failures: u32,
}

#[derive(Debug)]
pub(super) struct OpenConnection {
    pub(super) connection: Connection,
    pub(super) connected_at: Option<Timestamp>,
    /// Batch that could not be stored.
    pub(super) waiting: Option<Batch>,
}

impl PlatformConnection {
    pub(super) fn new(channel: Arc<Channel>, now: Timestamp) -> Self {
        let stored = StoredConnection::default();
        Self { channel, open: Vec::new(), stored, lease: None, retry_at: now, failures: 0 }
    }

    /// Applies changed settings.
    pub(super) fn follow(&mut self, channel: Arc<Channel>, now: Timestamp) {
        if Arc::ptr_eq(&self.channel, &channel) {
            return;
        }
        if self.channel.connection_key != channel.connection_key {
            self.stored.resume = self.state().resume;
            self.open.clear();
        }
        // The owner may have fixed the problem.
        (self.channel, self.retry_at, self.failures) = (channel, now, 0);
    }

    pub(super) fn is_connected(&self) -> bool {
        self.open.iter().any(|open| open.connected_at.is_some())
    }

    /// Returns the state to be stored.
    pub(super) fn state(&self) -> StoredConnection {
        let resume = match self.open.last() {
            Some(open) => open.connection.resume(),
            None => self.stored.resume.clone(),
        };
        StoredConnection { resume, is_connected: self.is_connected() }
    }

    /// Returns the time of the next action if no event arrives.
    pub(super) fn due(&self) -> Timestamp {
        let renewal = self.lease.as_ref().map(|(_, until)| *until - (LEASE_DURATION - RENEWAL_INTERVAL));
        let retry = (self.open.is_empty()).then_some(self.retry_at);
        renewal.into_iter().chain(retry).min().unwrap_or(self.retry_at)
    }
}
