//! Reads events in their order and writes down what each calls for.
//!
//! One cursor serves all hooks. Rows and cursor move in one transaction, in which nobody can change a hook. Events
//! that no hook listens to are passed in memory, and the cursor follows now and then: reading them again
//! finds that nobody listens.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use agentd_base::Timestamp;
use agentd_store::{Durability, Event, Read, Seq, StoreError, Tx, args};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::INTERVAL;
use crate::ground::{Worker, WorkerError};
use crate::hooks::error::HookError;
use crate::hooks::known::{Known, LoadedHook};
use crate::hooks::model::{DeliveryId, ExecutionId, MAX_DEPTH, event_body};
use crate::hooks::service::{Hooks, Passed};
use crate::hooks::store;
use crate::hooks::store::deliveries::{self, NewWork};
use crate::hooks::store::executions;
use crate::hooks::store::queue;

const CONSUMER: &str = "hooks";
const EVENTS_A_BATCH: u32 = 500;
/// A transaction ends with the event that brings it to so many rows.
const ROWS_A_BATCH: usize = 500;
/// What waits is counted again after so long at most.
const COUNTED_FOR: Duration = Duration::from_secs(1);
/// The cursor follows events that nobody listens to after so long at most.
const CURSOR_FOLLOWS: Duration = Duration::from_secs(5);

/// Matches events with hooks.
#[derive(Debug)]
pub struct ReadEvents {
    hooks: Hooks,
    waiting: Mutex<Waiting>,
    cursor_moved: Mutex<Option<Instant>>,
}

/// How much waits, as it was last counted.
#[derive(Debug, Default)]
struct Waiting {
    counted_at: Option<Instant>,
    is_full: bool,
    added: u64,
    /// Deliveries that had ended by then.
    ended: u64,
}

impl ReadEvents {
    #[must_use]
    pub fn new(hooks: Hooks) -> Self {
        Self { hooks, waiting: Mutex::default(), cursor_moved: Mutex::default() }
    }
}

impl Worker for ReadEvents {
    fn name(&self) -> &'static str {
        "hooks.read"
    }

    fn interval(&self) -> Duration {
        INTERVAL
    }

    fn idle_until(&self) -> Option<Timestamp> {
        // Events are written, and what is full is emptied by writing.
        Some(Timestamp::from_micros(i64::MAX))
    }

    fn wake(&self) -> Option<Arc<Notify>> {
        Some(self.hooks.read_wake())
    }

    fn run_once(&self) -> BoxFuture<'_, Result<bool, WorkerError>> {
        async { Ok(self.run().await.inspect_err(|_| self.hooks.forget_known())?) }.boxed()
    }
}

/// What a batch came to.
#[derive(Debug, Clone, Copy, Default)]
struct Batch {
    rows: usize,
    is_full: bool,
}

impl ReadEvents {
    async fn run(&self) -> Result<bool, HookError> {
        let is_full = self.is_full().await?;
        self.hooks.counters().is_paused.store(is_full, Ordering::Relaxed);
        if is_full {
            return Ok(false);
        }
        let (known, events) = {
            let mut read = self.hooks.db().read_snapshot().await?;
            let after = self.hooks.reader_place(&mut read).await?;
            let known = self.hooks.known(&mut read).await?;
            (known, read.events_after(after, EVENTS_A_BATCH).await?)
        };
        let Some(last) = events.last() else { return Ok(false) };
        let is_full = events.len() >= EVENTS_A_BATCH as usize;
        let is_heard = |event: &Event| wanted(&known, event).is_some();
        if !events.iter().any(is_heard) {
            self.pass(&known.version.database, last.seq, is_full).await?;
            return Ok(is_full);
        }
        let here = self.hooks.clone();
        let take = async move |tx: &mut Tx| here.take_batch(tx).await;
        let batch = self.hooks.db().write_locking(Durability::Full, take).await?;
        if batch.rows > 0 {
            self.waiting.lock().added += u64::try_from(batch.rows).unwrap_or(u64::MAX);
            self.hooks.wake_lanes();
        }
        Ok(batch.is_full)
    }

    /// Whether so much waits that events stay where they are. Counting costs, so it is done when it
    /// may have changed.
    async fn is_full(&self) -> Result<bool, HookError> {
        let limit = self.hooks.means().waiting_limit;
        let ended = {
            let ends = self.hooks.delivery_ends();
            ends.success + ends.dead_letter
        };
        {
            let waiting = self.waiting.lock();
            let is_recent = waiting.counted_at.is_some_and(|at| at.elapsed() < COUNTED_FOR);
            let has_changed = match waiting.is_full {
                true => ended != waiting.ended,
                false => waiting.added > limit / 20,
            };
            if is_recent && !has_changed {
                return Ok(waiting.is_full);
            }
        }
        let counted = queue::count_waiting(&mut self.hooks.db().read().await?, limit).await?;
        let is_full = counted >= limit;
        let mut waiting = self.waiting.lock();
        if is_full && !waiting.is_full {
            tracing::warn!(limit, "so much waits for hooks that further events are left in the outbox for now");
        }
        *waiting = Waiting { counted_at: Some(Instant::now()), is_full, added: 0, ended };
        Ok(is_full)
    }

    /// Notes that nobody listens to what comes before.
    async fn pass(&self, database: &str, seq: Seq, must_move: bool) -> Result<(), HookError> {
        *self.hooks.passed().lock() = Some(Passed { database: database.to_owned(), seq });
        let is_recent = self.cursor_moved.lock().is_some_and(|at| at.elapsed() < CURSOR_FOLLOWS);
        if is_recent && !must_move {
            return Ok(());
        }
        *self.cursor_moved.lock() = Some(Instant::now());
        let follow = async move |tx: &mut Tx| tx.advance_cursor(CONSUMER, seq).await;
        Ok(self.hooks.db().write_locking(Durability::Relaxed, follow).await?)
    }
}

/// An event as hooks get it, and those that are to do something about it.
fn wanted<'k>(known: &'k Known, event: &Event) -> Option<(Value, Vec<&'k Arc<LoadedHook>>)> {
    let listening = known.listening(&event.event_type);
    if !listening.iter().any(|hook| hook.hook.hears(event.seq, event.agent.as_deref())) {
        return None;
    }
    let body = event_body(event.id.as_str(), &event.event_type, event.created_at, &event.data);
    let hears = |hook: &&Arc<LoadedHook>| {
        hook.hook.hears(event.seq, event.agent.as_deref())
            && hook.hook.filter.as_ref().is_none_or(|filter| filter.passes(&body))
    };
    let hooks: Vec<_> = listening.iter().filter(hears).collect();
    (!hooks.is_empty()).then_some((body, hooks))
}

impl Hooks {
    /// Behind which events are to be read.
    pub(in crate::hooks) async fn reader_place(&self, read: &mut Read) -> Result<Seq, StoreError> {
        let database = store::find_version(read).await?.database;
        let cursor = read.find_cursor(CONSUMER).await?.unwrap_or(Seq::START);
        let passed = self.passed().lock().clone().filter(|passed| passed.database == database);
        Ok(passed.map_or(cursor, |passed| passed.seq.max(cursor)))
    }

    async fn take_batch(&self, tx: &mut Tx) -> Result<Batch, HookError> {
        // One replica at a time; another one would only find all done.
        let lock = tx.dialect().exclusive_lock();
        tx.fetch_optional(format!("SELECT consumer FROM cursors WHERE consumer = $1 {lock}"), args![CONSUMER]).await?;
        let version = store::hold_version(tx).await?;
        let known = self.known_at(tx, version).await?;
        let after = self.reader_place(tx).await?;
        let events = tx.events_after(after, EVENTS_A_BATCH).await?;
        let mut batch = Batch { rows: 0, is_full: events.len() >= EVENTS_A_BATCH as usize };
        let mut reached = None;
        for event in &events {
            if batch.rows >= ROWS_A_BATCH {
                batch.is_full = true;
                break;
            }
            reached = Some(event.seq);
            let Some((body, hooks)) = wanted(&known, event) else { continue };
            let (payload, depth) = (body.to_string(), depth_of(tx, &event.data).await?);
            for hook in hooks {
                let work = NewWork {
                    hook_id: &hook.hook.id,
                    event_id: event.id.as_str(),
                    event_type: &event.event_type,
                    payload: &payload,
                    depth,
                };
                batch.rows += usize::from(self.insert_work(tx, hook, &work).await?);
            }
        }
        if let Some(seq) = reached {
            tx.advance_cursor(CONSUMER, seq).await?;
        }
        Ok(batch)
    }

    /// Writes down that a hook is to do something about an event; whether it was not written down before.
    pub(in crate::hooks) async fn insert_work(
        &self,
        tx: &mut Tx,
        hook: &LoadedHook,
        work: &NewWork<'_>,
    ) -> Result<bool, StoreError> {
        let ids = &self.ground().ids;
        if work.depth > MAX_DEPTH {
            let reason = format!(
                "hooks that led to each other's events end after {MAX_DEPTH}: this event came of a chain of {}",
                work.depth
            );
            executions::insert_skipped(tx, &ExecutionId::generate(ids), work, &reason).await
        } else if hook.hook.is_queued() {
            deliveries::insert_delivery(tx, &DeliveryId::generate(ids), work).await
        } else {
            executions::insert_execution(tx, &ExecutionId::generate(ids), work).await
        }
    }
}

/// How many hooks led to an event, one after the other: what a hook causes is known by the id that its
/// events carry.
async fn depth_of(tx: &mut Tx, data: &Value) -> Result<u32, StoreError> {
    let caused = ["session_id", "notification_id", "episode_id"].map(|name| data[name].as_str().unwrap_or_default());
    if caused.iter().all(|id| id.is_empty()) {
        return Ok(0);
    }
    Ok(executions::find_depth(tx, caused).await?.map_or(0, |depth| depth + 1))
}
