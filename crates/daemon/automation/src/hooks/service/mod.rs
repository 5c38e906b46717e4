//! Service of the hooks domain: shared state, the outbox signal and counters.

mod analytics;
mod change;
mod deliveries;
mod work;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use agentd_conversation::memory::Memory;
use agentd_core::parts::Detached;
use agentd_core::runtime::{AppContext, NextDue};
use agentd_core::settings::Settings;
use agentd_engine::agents::Agents;
use agentd_engine::code_runner::CodeRunner;
use agentd_engine::engine::Engine;
use agentd_net::{GuardedClient, NetError, Trust};
use agentd_store::{Db, Read, Seq, StoreError};
use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use tokio::sync::Notify as Wake;
use url::Url;

pub use analytics::{Analytics, Period, Totals};
pub use deliveries::DeliveryCounts;
pub(super) use work::insert_work;

use super::cache::HookCache;
use super::error::{HookError, error_chain};
use super::limits::ConcurrencyLimits;
use super::store::queue::QueueKind;
use super::store::{self, Version};
use crate::notify::Notify;

/// Services used by hooks, and the backlog limit.
#[derive(Debug, Clone)]
pub struct HookDependencies {
    pub settings: Settings,
    pub agents: Agents,
    pub engine: Engine,
    pub memory: Memory,
    pub notify: Notify,
    pub runner: CodeRunner,
    /// Maximum number of unfinished deliveries and executions before the outbox reader pauses.
    pub waiting_limit: u64,
}

/// Name of the outbox cursor of hooks.
pub(super) const CONSUMER: &str = "hooks";

/// Counters of delivery outcomes in this daemon, and the state of the outbox reader.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) succeeded: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) dead: AtomicU64,
    /// Whether the reader is paused because the backlog is full.
    pub(super) is_paused: AtomicBool,
    /// Number of stalled hooks whose new work is dead-lettered.
    pub(super) stalled_hooks: AtomicU64,
}

/// Delivery outcomes in this daemon since it started.
#[derive(Debug, Clone, Copy)]
pub struct DeliveryOutcomes {
    pub success: u64,
    /// Attempts that will be retried.
    pub failed: u64,
    pub dead_letter: u64,
}

/// Position up to which the reader skipped events without listeners, and the database it refers to.
#[derive(Debug, Clone)]
pub(super) struct ReaderPosition {
    pub(super) database: String,
    pub(super) seq: Seq,
}

struct Inner {
    context: AppContext,
    dependencies: HookDependencies,
    owner: GuardedClient,
    steered: GuardedClient,
    cache: ArcSwapOption<HookCache>,
    limits: ConcurrencyLimits,
    read_wake: Arc<Wake>,
    deliver_wake: Arc<Wake>,
    execute_wake: Arc<Wake>,
    skipped_to: Mutex<Option<ReaderPosition>>,
    /// Last known due time of the next item of each queue.
    next_due: [NextDue; 2],
    counters: Counters,
}

/// Service for hooks, their executions and deliveries. Cheap to clone.
#[derive(Clone)]
pub struct Hooks(Arc<Inner>);

impl std::fmt::Debug for Hooks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hooks").field("limits", &self.0.limits).finish_non_exhaustive()
    }
}

impl Hooks {
    /// Creates the service and forwards the outbox signal to the reader.
    pub fn new(context: &AppContext, dependencies: HookDependencies) -> Detached<Self> {
        let policy = dependencies.settings.policy();
        let hooks = Self(Arc::new(Inner {
            context: context.clone(),
            owner: GuardedClient::new(policy.clone(), Trust::Owner),
            steered: GuardedClient::new(policy, Trust::Untrusted),
            dependencies,
            cache: ArcSwapOption::empty(),
            limits: ConcurrencyLimits::default(),
            read_wake: Arc::default(),
            deliver_wake: Arc::default(),
            execute_wake: Arc::default(),
            skipped_to: Mutex::default(),
            next_due: Default::default(),
            counters: Counters::default(),
        }));
        tokio::spawn(wake_on_events(context.clone(), hooks.read_wake()));
        Detached::new(hooks)
    }

    /// Returns the hooks as seen by a transaction or connection.
    pub(super) async fn cache(&self, read: &mut Read) -> Result<Arc<HookCache>, HookError> {
        let version = store::find_version(read).await?;
        self.cache_at(read, version).await
    }

    pub(super) async fn cache_at(&self, read: &mut Read, version: Version) -> Result<Arc<HookCache>, HookError> {
        if let Some(cache) = self.0.cache.load_full().filter(|cache| cache.version == version) {
            return Ok(cache);
        }
        let cache = Arc::new(HookCache::load(read, self.0.dependencies.settings.vault(), version).await?);
        self.0.cache.store(Some(Arc::clone(&cache)));
        Ok(cache)
    }

    /// Drops the cache after a failed transaction, which may have loaded uncommitted hooks.
    pub(super) fn invalidate_cache(&self) {
        self.0.cache.store(None);
    }

    /// Returns the HTTP client for hook targets, as permitted by the current security settings.
    pub(super) fn client(&self) -> &GuardedClient {
        if self.0.dependencies.settings.security().private_hook_targets { &self.0.owner } else { &self.0.steered }
    }

    /// Checks without a network request whether a URL is permitted. The error is the reason.
    pub(super) fn check_url(&self, url: &Url) -> Result<(), String> {
        self.client().check_url(url).map_err(|error| self.explain(&error, url))
    }

    /// Formats a client error and names the setting that caused the refusal, if any.
    pub(super) fn explain(&self, error: &NetError, url: &Url) -> String {
        let is_private = matches!(error, NetError::Refused { .. })
            && !self.0.dependencies.settings.security().private_hook_targets
            && self.0.owner.check_url(url).is_ok();
        let note = if is_private { " (security.private_hook_targets is off)" } else { "" };
        format!("{}{note}", error_chain(error))
    }

    pub(super) fn context(&self) -> &AppContext {
        &self.0.context
    }

    pub(super) fn db(&self) -> &Db {
        &self.0.context.db
    }

    pub(super) fn dependencies(&self) -> &HookDependencies {
        &self.0.dependencies
    }

    pub(super) fn limits(&self) -> &ConcurrencyLimits {
        &self.0.limits
    }

    pub(super) fn counters(&self) -> &Counters {
        &self.0.counters
    }

    pub(super) fn skipped_to(&self) -> &Mutex<Option<ReaderPosition>> {
        &self.0.skipped_to
    }

    pub(super) fn read_wake(&self) -> Arc<Wake> {
        Arc::clone(&self.0.read_wake)
    }

    pub(super) fn wake_of(&self, queue: QueueKind) -> Arc<Wake> {
        match queue {
            QueueKind::Deliveries => Arc::clone(&self.0.deliver_wake),
            QueueKind::Executions => Arc::clone(&self.0.execute_wake),
        }
    }

    /// Returns when the next item of `queue` is due, provided that no task is running.
    pub(super) fn next_due(&self, queue: QueueKind) -> &NextDue {
        let [deliveries, executions] = &self.0.next_due;
        match queue {
            QueueKind::Deliveries => deliveries,
            QueueKind::Executions => executions,
        }
    }

    /// Wakes the delivery and execution workers.
    pub(super) fn wake_queues(&self) {
        self.wake_of(QueueKind::Deliveries).notify_one();
        self.wake_of(QueueKind::Executions).notify_one();
    }

    /// Waits up to `timeout` until no task is running. Interrupted work runs again after its lease expires.
    pub async fn drain(&self, timeout: Duration) {
        if !self.0.limits.drain(timeout).await {
            tracing::warn!("hook drain timed out; interrupted work will run again");
        }
    }

    /// Returns the delivery outcomes in this daemon since it started.
    #[must_use]
    pub fn delivery_outcomes(&self) -> DeliveryOutcomes {
        let counters = &self.0.counters;
        DeliveryOutcomes {
            success: counters.succeeded.load(Ordering::Relaxed),
            failed: counters.failed.load(Ordering::Relaxed),
            dead_letter: counters.dead.load(Ordering::Relaxed),
        }
    }

    /// Whether the outbox reader is paused because the backlog is full.
    #[must_use]
    pub fn is_reader_paused(&self) -> bool {
        self.0.counters.is_paused.load(Ordering::Relaxed)
    }

    /// Returns the number of stalled hooks whose new work is dead-lettered.
    #[must_use]
    pub fn stalled_hooks(&self) -> u64 {
        self.0.counters.stalled_hooks.load(Ordering::Relaxed)
    }

    /// Returns the number of open circuits.
    ///
    /// # Errors
    /// The query failed.
    pub async fn open_circuits(&self) -> Result<u64, StoreError> {
        store::queue::count_open_circuits(&mut self.db().read().await?).await
    }

    /// Returns the outbox position after which the reader continues.
    pub(super) async fn reader_position(&self, read: &mut Read, database: &str) -> Result<Seq, StoreError> {
        let cursor = read.find_cursor(CONSUMER).await?.unwrap_or(Seq::START);
        let skipped_to = self.0.skipped_to.lock().clone().filter(|skipped_to| skipped_to.database == database);
        Ok(skipped_to.map_or(cursor, |skipped_to| skipped_to.seq.max(cursor)))
    }

    /// Returns the age of the oldest unprocessed event.
    ///
    /// # Errors
    /// A query failed.
    pub async fn reader_lag(&self) -> Result<Duration, StoreError> {
        let mut read = self.db().read().await?;
        let database = store::find_version(&mut read).await?.database;
        let after = self.reader_position(&mut read, &database).await?;
        let oldest = read.events_after(after, 1).await?;
        let now = self.context().clock.now();
        Ok(oldest.first().map(|event| now.since(event.created_at)).unwrap_or_default())
    }
}

/// Forwards the outbox signal to the reader until the daemon drains.
async fn wake_on_events(context: AppContext, wake: Arc<Wake>) {
    let mut events = context.db.watch_outbox();
    loop {
        tokio::select! {
            () = context.draining.cancelled() => return,
            changed = events.changed() => if changed.is_err() { return },
        }
        wake.notify_one();
    }
}
