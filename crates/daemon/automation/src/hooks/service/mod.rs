//! What can be done with hooks.

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

/// The other services that hooks use, and a limit.
#[derive(Debug, Clone)]
pub struct HookDependencies {
    pub settings: Settings,
    pub agents: Agents,
    pub engine: Engine,
    pub memory: Memory,
    pub notify: Notify,
    pub runner: CodeRunner,
    /// As soon as so much waits, events are left in the outbox.
    pub waiting_limit: u64,
}

/// Whose position in the outbox the reader moves.
pub(super) const CONSUMER: &str = "hooks";

/// How often each delivery of this daemon ended how, and how the reader of events stands.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) succeeded: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) dead: AtomicU64,
    /// Whether the reader waits until less is waiting.
    pub(super) is_paused: AtomicBool,
    /// Hooks for which so much waits that what further comes for them is given up.
    pub(super) hooks_behind: AtomicU64,
}

/// How deliveries ended here, since the daemon started.
#[derive(Debug, Clone, Copy)]
pub struct DeliveryEnds {
    pub success: u64,
    /// Attempts that are repeated.
    pub failed: u64,
    pub dead_letter: u64,
}

/// How far the reader had come when it last read, and in which database.
#[derive(Debug, Clone)]
pub(super) struct Passed {
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
    passed: Mutex<Option<Passed>>,
    /// When the next thing of each queue is due, as was last seen.
    next_due: [NextDue; 2],
    counters: Counters,
}

/// Cheap to clone.
#[derive(Clone)]
pub struct Hooks(Arc<Inner>);

impl std::fmt::Debug for Hooks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hooks").field("limits", &self.0.limits).finish_non_exhaustive()
    }
}

impl Hooks {
    /// Starts listening for the outbox's signal; what happens then is the workers'.
    pub fn new(context: &AppContext, dependencies: HookDependencies) -> Detached<Self> {
        let policy = dependencies.settings.policy();
        let hooks = Self(Arc::new(Inner {
            context: context.clone(),
            owner: GuardedClient::new(policy.clone(), Trust::Owner),
            steered: GuardedClient::new(policy, Trust::Steered),
            dependencies,
            cache: ArcSwapOption::empty(),
            limits: ConcurrencyLimits::default(),
            read_wake: Arc::default(),
            deliver_wake: Arc::default(),
            execute_wake: Arc::default(),
            passed: Mutex::default(),
            next_due: Default::default(),
            counters: Counters::default(),
        }));
        tokio::spawn(wake_on_events(context.clone(), hooks.read_wake()));
        Detached::new(hooks)
    }

    /// The hooks as a transaction or connection sees them.
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

    /// After a transaction failed that may have seen what was never committed.
    pub(super) fn invalidate_cache(&self) {
        self.0.cache.store(None);
    }

    /// The client for what a hook's owner typed in, as the settings allow it now.
    pub(super) fn client(&self) -> &GuardedClient {
        if self.0.dependencies.settings.security().private_hook_targets { &self.0.owner } else { &self.0.steered }
    }

    /// Why nothing may be sent to a url, as far as that shows without asking anybody.
    pub(super) fn check_url(&self, url: &Url) -> Result<(), String> {
        self.client().check_url(url).map_err(|error| self.explain(&error, url))
    }

    /// What the client says of a url, and which setting of hooks it comes from.
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

    pub(super) fn passed(&self) -> &Mutex<Option<Passed>> {
        &self.0.passed
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

    /// When something of `queue` is next due, if nothing is under way.
    pub(super) fn next_due(&self, queue: QueueKind) -> &NextDue {
        let [deliveries, executions] = &self.0.next_due;
        match queue {
            QueueKind::Deliveries => deliveries,
            QueueKind::Executions => executions,
        }
    }

    /// Wakes what delivers and what executes.
    pub(super) fn wake_queues(&self) {
        self.wake_of(QueueKind::Deliveries).notify_one();
        self.wake_of(QueueKind::Executions).notify_one();
    }

    /// Waits until nothing is under way any more, at most for `limit`. What is cut off then is done
    /// again after its lease.
    pub async fn drain(&self, limit: Duration) {
        if !self.0.limits.drain(limit).await {
            tracing::warn!("some hooks were still at work and are cut off; they will do it again");
        }
    }

    /// How deliveries ended here, since the daemon started.
    #[must_use]
    pub fn delivery_ends(&self) -> DeliveryEnds {
        let counters = &self.0.counters;
        DeliveryEnds {
            success: counters.succeeded.load(Ordering::Relaxed),
            failed: counters.failed.load(Ordering::Relaxed),
            dead_letter: counters.dead.load(Ordering::Relaxed),
        }
    }

    /// Whether so much waits to be delivered that events are left in the outbox.
    #[must_use]
    pub fn is_reader_paused(&self) -> bool {
        self.0.counters.is_paused.load(Ordering::Relaxed)
    }

    /// Hooks for which so much waits without getting on that what further comes for them is given up.
    #[must_use]
    pub fn hooks_behind(&self) -> u64 {
        self.0.counters.hooks_behind.load(Ordering::Relaxed)
    }

    /// Receivers that nothing is sent to because they failed.
    ///
    /// # Errors
    /// What the database refuses.
    pub async fn open_circuits(&self) -> Result<u64, StoreError> {
        store::queue::count_open_circuits(&mut self.db().read().await?).await
    }

    /// The position after which events are to be read.
    pub(super) async fn reader_position(&self, read: &mut Read, database: &str) -> Result<Seq, StoreError> {
        let cursor = read.find_cursor(CONSUMER).await?.unwrap_or(Seq::START);
        let passed = self.0.passed.lock().clone().filter(|passed| passed.database == database);
        Ok(passed.map_or(cursor, |passed| passed.seq.max(cursor)))
    }

    /// How old the oldest event is that was not matched yet.
    ///
    /// # Errors
    /// What the database refuses.
    pub async fn reader_lag(&self) -> Result<Duration, StoreError> {
        let mut read = self.db().read().await?;
        let database = store::find_version(&mut read).await?.database;
        let after = self.reader_position(&mut read, &database).await?;
        let oldest = read.events_after(after, 1).await?;
        let now = self.context().clock.now();
        Ok(oldest.first().map(|event| now.since(event.created_at)).unwrap_or_default())
    }
}

/// Passes the outbox's signal on to the reader until the daemon drains.
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
