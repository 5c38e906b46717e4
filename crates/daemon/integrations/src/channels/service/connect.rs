//! Connections to platforms that the daemon opens itself.
//!
//! Invariants
//! - A message is taken from the platform only after it was stored, so a daemon that is killed in between gets it again,
//!   and knows it by its id. What cannot be stored now waits, and the platform waits with it.
//! - Of several daemons one holds the connection to a platform, under a lease. Where it was is kept beside the lease, so
//!   whoever takes it over goes on from there.
//! - Nothing here waits for a platform: connections are tasks of their own, and a round only looks what they brought.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use agentd_base::{Backoff, Timestamp};
use agentd_chat_platforms::{ConnectionEvent, Ended, Opening, Platform, SendError};
use agentd_core::runtime::WorkerReport;
use agentd_store::{StoreError, Tx};
use tokio::sync::Notify;

use super::connections::{Held, LEASE, Open, RENEWED_AFTER};
use super::{Channel, Channels};
use crate::channels::error::ChannelError;
use crate::channels::model::ChannelMode;
use crate::channels::store;

/// Batches of one connection in one round.
const MOST_BATCHES: usize = 64;
/// The first time a connection that stood is opened again at once.
const BACKOFF: Backoff =
    Backoff { base: Duration::from_secs(2), multiplier: 2.0, cap: Duration::from_secs(120), jitter: 0.2 };
/// A connection that stood for so long did not fail.
const STOOD: Duration = Duration::from_secs(60);
/// Somebody has to do something on the platform's pages; with other settings it is tried at once.
const AFTER_REFUSAL: Duration = Duration::from_secs(300);

impl Channels {
    pub(crate) fn connections_due(&self) -> Timestamp {
        self.0.connections.next_due.at()
    }

    pub(crate) fn connection_wake(&self) -> Arc<Notify> {
        Arc::clone(&self.0.connections.wake)
    }

    /// Opens what is to be open, takes what came, and keeps the leases.
    ///
    /// # Errors
    /// The store's refusal, or too much waits: after every platform had its turn. What came is tried again then.
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
        connections.next_due.note(held.values().map(Held::due).min());
        match failure {
            Some(error) => Err(error),
            None => Ok(WorkerReport { items, has_more: items > 0 }),
        }
    }

    /// Answers how many messages came.
    async fn keep_connection(
        &self,
        platform: Platform,
        all: &mut BTreeMap<Platform, Held>,
    ) -> Result<u64, ChannelError> {
        let now = self.0.context.clock.now();
        let channel = self.channel(platform).await?.filter(|channel| channel.is_connecting());
        let Some(channel) = channel else {
            if let Some(held) = all.remove(&platform) {
                self.release(held).await;
            }
            return Ok(0);
        };
        let held = all.entry(platform).or_insert_with(|| Held::new(Arc::clone(&channel), now));
        held.follow(channel, now);
        if !self.keep_lease(held, now).await? {
            return Ok(0);
        }
        if held.open.is_empty() && held.retry_at <= now {
            self.open(held);
        }
        let mut items = 0;
        let mut place = 0;
        while place < held.open.len() {
            let count = held.open.len();
            items += self.take_from(held, place).await?;
            // One that ended made room for the next.
            place += usize::from(held.open.len() >= count);
        }
        // Shown to whoever asks, and to other daemons.
        if held.kept.is_connected != held.is_connected() {
            self.keep_lease(held, now).await?;
        }
        Ok(items)
    }

    /// Whether the connection is this daemon's.
    async fn keep_lease(&self, held: &mut Held, now: Timestamp) -> Result<bool, ChannelError> {
        let state = held.state();
        let lease = held.lease.clone().filter(|(_, until)| *until > now);
        if let Some((_, until)) = &lease
            && held.kept.is_connected == state.is_connected
            && now + (LEASE - RENEWED_AFTER) < *until
        {
            return Ok(true);
        }
        let lease = lease.map(|(lease, _)| lease);
        let (platform, owner, known) = (held.channel.platform, Arc::clone(&self.0.context.instance), lease.clone());
        let claim = async move |tx: &mut Tx| {
            let claimed = store::claim_connection(tx, platform, &owner, known.as_ref(), LEASE).await?;
            if let Some((lease, kept)) = &claimed
                && known.as_ref() == Some(lease)
                && *kept != state
            {
                store::put_connection(tx, platform, &state).await?;
                return Ok(Some((lease.clone(), state.clone())));
            }
            Ok::<_, StoreError>(claimed)
        };
        let claimed = self.0.context.db.write_relaxed(claim).await?;
        if claimed.as_ref().map(|(lease, _)| lease) != lease.as_ref() {
            // Another daemon holds it, or did so meanwhile.
            held.open.clear();
        }
        let Some((claimed, kept)) = claimed else {
            held.lease = None;
            // Asked again then: the other one may have gone without a word.
            held.retry_at = now + RENEWED_AFTER;
            return Ok(false);
        };
        if lease.is_none() {
            held.retry_at = held.retry_at.min(now);
        }
        held.lease = Some((claimed, now + LEASE));
        held.kept = kept;
        Ok(true)
    }

    fn open(&self, held: &mut Held) {
        let opening = Opening {
            resume: held.state().resume,
            unit: self.0.context.entropy.unit(),
            wake: Arc::clone(&self.0.connections.wake),
        };
        if let Some(connection) = Arc::clone(&held.channel.adapter).connect(opening) {
            held.open.push(Open { connection, connected_at: None, waiting: None });
        }
    }

    async fn take_from(&self, held: &mut Held, place: usize) -> Result<u64, ChannelError> {
        let mut items = 0;
        for _ in 0..MOST_BATCHES {
            let Some(open) = held.open.get_mut(place) else { break };
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
                    self.note_outcome(&channel, None).await;
                }
                Some(ConnectionEvent::Leaving) if place + 1 == held.open.len() => self.open(held),
                Some(ConnectionEvent::Leaving) => {}
                Some(ConnectionEvent::Ended(ended)) => {
                    self.note_end(held, place, ended).await;
                    break;
                }
            }
        }
        Ok(items)
    }

    async fn note_end(&self, held: &mut Held, place: usize, ended: Ended) {
        let now = self.0.context.clock.now();
        let is_last = place + 1 == held.open.len();
        let gone = held.open.remove(place);
        if !is_last {
            return;
        }
        held.kept.resume = gone.connection.resume();
        if gone.connected_at.is_some_and(|since| now.since(since) >= STOOD) {
            held.failures = 0;
        }
        let delay = match (&ended.error, held.failures) {
            (Some(SendError::Credentials(_) | SendError::NotSetUp(_)), _) => AFTER_REFUSAL,
            (_, 0) => Duration::ZERO,
            (_, failures) => BACKOFF.delay(failures, self.0.context.entropy.unit()),
        };
        held.failures = held.failures.saturating_add(1);
        held.retry_at = now + delay.max(ended.wait.unwrap_or_default());
        // Without waiting there is nothing that anybody would have to look at.
        if let Some(error) = ended.error {
            tracing::info!(platform = held.channel.platform.id(), %error, "a connection to a chat platform ended");
            let channel = Arc::clone(&held.channel);
            self.note_outcome(&channel, Some(error.to_string())).await;
        }
        self.0.connections.wake.notify_one();
    }

    /// Ends every connection, so that other daemons may open them, and waits until nothing waits for a permit here any
    /// more, `limit` at most.
    pub async fn drain(&self, limit: Duration) {
        let all = std::mem::take(&mut *self.0.connections.held.lock().await);
        for held in all.into_values() {
            self.release(held).await;
        }
        self.0.queue.drain(limit).await;
    }

    async fn release(&self, mut held: Held) {
        let (resume, platform) = (held.state().resume, held.channel.platform);
        held.open.clear();
        let Some((lease, _)) = held.lease else { return };
        let release = async move |tx: &mut Tx| store::release_connection(tx, platform, &lease, resume.clone()).await;
        if let Err(error) = self.0.context.db.write_relaxed(release).await {
            tracing::debug!(%error, "a connection to a chat platform is taken over when its lease ends");
        }
    }
}

impl Channel {
    /// Whether the daemon connects to the platform itself.
    fn is_connecting(&self) -> bool {
        self.rules.mode == ChannelMode::Connect
    }
}
