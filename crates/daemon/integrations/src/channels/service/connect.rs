//! Connections to platforms that the daemon opens itself.
//!
//! Invariants
//! - A message is acknowledged only after it was stored. A daemon that is killed in between receives it again and
//!   recognizes its id. While a message cannot be stored, the platform's stream is paused.
//! - One daemon holds the connection to a platform under a lease. The resume position is stored with the lease, so a
//!   successor continues from there.
//! - Nothing here waits for a platform: connections are separate tasks, and each pass only collects their events.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use agentd_base::{Backoff, Timestamp};
use agentd_chat_platforms::{ConnectOptions, ConnectionEvent, Ended, Platform, SendError};
use agentd_core::runtime::WorkerReport;
use agentd_store::{StoreError, Tx};
use tokio::sync::Notify;

use super::connections::{LEASE_DURATION, OpenConnection, PlatformConnection, RENEWAL_INTERVAL};
use super::{Channel, Channels};
use crate::channels::error::ChannelError;
use crate::channels::model::ChannelMode;
use crate::channels::store;

/// Maximum number of batches of a connection per pass.
const MAX_BATCHES: usize = 64;
/// The first retry after a stable connection is immediate.
const BACKOFF: Backoff =
    Backoff { base: Duration::from_secs(2), multiplier: 2.0, cap: Duration::from_secs(120), jitter: 0.2 };
/// Minimum duration of a connection that counts as stable.
const STABLE_AFTER: Duration = Duration::from_secs(60);
/// Delay after rejected credentials, which the owner must fix; changed settings are tried immediately.
const REJECTED_RETRY_DELAY: Duration = Duration::from_secs(300);

impl Channels {
    pub(crate) fn connections_due(&self) -> Timestamp {
        self.0.connections.next_due.at()
    }

    pub(crate) fn connection_wake(&self) -> Arc<Notify> {
        Arc::clone(&self.0.connections.wake)
    }

    /// Opens connections, stores received messages, and renews leases.
    ///
    /// # Errors
    /// The database fails or the backlog is full. All platforms are processed first; unstored messages are retried in
    /// the next pass.
    pub(crate) async fn keep_connections(&self) -> Result<WorkerReport, ChannelError> {
        let connections = &self.0.connections;
        let mut held = connections.held.lock().await;
        let (mut items, mut failure) = (0, None);
        for platform in Platform::ALL {
            match self.keep_connection(platform, &mut held).await {
                Ok(taken) => items += taken,
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        connections.next_due.note(held.values().map(PlatformConnection::due).min());
        match failure {
            Some(error) => Err(error),
            None => Ok(WorkerReport { items, has_more: items > 0 }),
        }
    }

    /// Returns the number of received messages.
    async fn keep_connection(
        &self,
        platform: Platform,
        all: &mut BTreeMap<Platform, PlatformConnection>,
    ) -> Result<u64, ChannelError> {
        let now = self.0.context.clock.now();
        let channel = self.channel(platform).await?.filter(|channel| channel.is_connecting());
        let Some(channel) = channel else {
            if let Some(held) = all.remove(&platform) {
                self.release(held).await;
            }
            return Ok(0);
        };
        let held = all.entry(platform).or_insert_with(|| PlatformConnection::new(Arc::clone(&channel), now));
        held.follow(channel, now);
        if !self.keep_lease(held, now).await? {
            return Ok(0);
        }
        if held.open.is_empty() && held.retry_at <= now {
            self.open(held);
        }
        let mut items = 0;
        let mut index = 0;
        while index < held.open.len() {
            let count = held.open.len();
            items += self.process_events(held, index).await?;
            // Removing an ended connection shifts the next one to this index.
            index += usize::from(held.open.len() >= count);
        }
        // Published for the status API and other daemons.
        if held.stored.is_connected != held.is_connected() {
            self.keep_lease(held, now).await?;
        }
        Ok(items)
    }

    /// Acquires or renews the lease; returns whether this daemon holds it.
    async fn keep_lease(&self, held: &mut PlatformConnection, now: Timestamp) -> Result<bool, ChannelError> {
        let state = held.state();
        let lease = held.lease.clone().filter(|(_, until)| *until > now);
        if let Some((_, until)) = &lease
            && held.stored.is_connected == state.is_connected
            && now + (LEASE_DURATION - RENEWAL_INTERVAL) < *until
        {
            return Ok(true);
        }
        let lease = lease.map(|(lease, _)| lease);
        let (platform, owner, known) = (held.channel.platform, Arc::clone(&self.0.context.instance), lease.clone());
        let claim = async move |tx: &mut Tx| {
            let claimed = store::claim_connection(tx, platform, &owner, known.as_ref(), LEASE_DURATION).await?;
            if let Some((lease, stored)) = &claimed
                && known.as_ref() == Some(lease)
                && *stored != state
            {
                store::put_connection(tx, platform, &state).await?;
                return Ok(Some((lease.clone(), state.clone())));
            }
            Ok::<_, StoreError>(claimed)
        };
        let claimed = self.0.context.db.write_relaxed(claim).await?;
        if claimed.as_ref().map(|(lease, _)| lease) != lease.as_ref() {
            // Another daemon holds or held the lease.
            held.open.clear();
        }
        let Some((claimed, stored)) = claimed else {
            held.lease = None;
            // Retried later, because the other daemon may have died.
            held.retry_at = now + RENEWAL_INTERVAL;
            return Ok(false);
        };
        if lease.is_none() {
            held.retry_at = held.retry_at.min(now);
        }
        held.lease = Some((claimed, now + LEASE_DURATION));
        held.stored = stored;
        Ok(true)
    }

    fn open(&self, held: &mut PlatformConnection) {
        let options = ConnectOptions {
            resume: held.state().resume,
            unit: self.0.context.entropy.unit(),
            wake: Arc::clone(&self.0.connections.wake),
        };
        if let Some(connection) = Arc::clone(&held.channel.adapter).connect(options) {
            held.open.push(OpenConnection { connection, connected_at: None, waiting: None });
        }
    }

    async fn process_events(&self, held: &mut PlatformConnection, index: usize) -> Result<u64, ChannelError> {
        let mut items = 0;
        for _ in 0..MAX_BATCHES {
            let Some(open) = held.open.get_mut(index) else { break };
            let event = open.waiting.take().map(ConnectionEvent::Batch).or_else(|| open.connection.try_next());
            match event {
                None => break,
                Some(ConnectionEvent::Batch(batch)) => {
                    if let Err(error) = self.take(&held.channel, batch.incoming.clone()).await {
                        open.waiting = Some(batch);
                        return Err(error);
                    }
                    open.connection.acknowledge(&batch);
                    items += batch.incoming.len() as u64;
                }
                Some(ConnectionEvent::Connected) => {
                    open.connected_at = Some(self.0.context.clock.now());
                    let channel = Arc::clone(&held.channel);
                    self.record_outcome(&channel, None).await;
                }
                Some(ConnectionEvent::Leaving) if index + 1 == held.open.len() => self.open(held),
                Some(ConnectionEvent::Leaving) => {}
                Some(ConnectionEvent::Ended(ended)) => {
                    self.handle_end(held, index, ended).await;
                    break;
                }
            }
        }
        Ok(items)
    }

    async fn handle_end(&self, held: &mut PlatformConnection, index: usize, ended: Ended) {
        let now = self.0.context.clock.now();
        let is_last = index + 1 == held.open.len();
        let ended_connection = held.open.remove(index);
        if !is_last {
            return;
        }
        held.stored.resume = ended_connection.connection.resume();
        if ended_connection.connected_at.is_some_and(|since| now.since(since) >= STABLE_AFTER) {
            held.failures = 0;
        }
        let delay = match (&ended.error, held.failures) {
            (Some(SendError::Credentials(_) | SendError::NotSetUp(_)), _) => REJECTED_RETRY_DELAY,
            (_, 0) => Duration::ZERO,
            (_, failures) => BACKOFF.delay(failures, self.0.context.entropy.unit()),
        };
        held.failures = held.failures.saturating_add(1);
        held.retry_at = now + delay.max(ended.wait.unwrap_or_default());
        // A connection that ended without an error needs no attention.
        if let Some(error) = ended.error {
            tracing::info!(platform = held.channel.platform.id(), %error, "chat platform connection ended");
            let channel = Arc::clone(&held.channel);
            self.record_outcome(&channel, Some(error.to_string())).await;
        }
        self.0.connections.wake.notify_one();
    }

    /// Closes all connections so that other daemons can open them, and waits up to `limit` for messages that wait for a
    /// permit.
    pub async fn drain(&self, limit: Duration) {
        let all = std::mem::take(&mut *self.0.connections.held.lock().await);
        for held in all.into_values() {
            self.release(held).await;
        }
        self.0.queue.drain(limit).await;
    }

    async fn release(&self, mut held: PlatformConnection) {
        let (resume, platform) = (held.state().resume, held.channel.platform);
        held.open.clear();
        let Some((lease, _)) = held.lease else { return };
        let release = async move |tx: &mut Tx| store::release_connection(tx, platform, &lease, resume.clone()).await;
        if let Err(error) = self.0.context.db.write_relaxed(release).await {
            tracing::debug!(%error, "failed to release chat platform connection; its lease will expire");
        }
    }
}

impl Channel {
    /// Returns whether the daemon connects to the platform itself.
    fn is_connecting(&self) -> bool {
        self.rules.mode == ChannelMode::Connect
    }
}
