//! Reads events in their order and writes down what each calls for.
//!
//! One cursor serves all hooks. Rows and cursor move in one transaction, in which nobody can change a hook. Events
//! that no hook listens to are passed in memory, and the cursor follows now and then: reading them again
//! finds that nobody listens.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use agentd_base::Timestamp;
use agentd_core::runtime::{NextDue, Worker, WorkerError, WorkerReport};
use agentd_store::{Durability, Event, Seq, StoreError, Tx, args};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::INTERVAL;
use super::capacity::{Capacity, CapacityMonitor, GIVEN_UP};
use crate::hooks::cache::{HookCache, LoadedHook};
use crate::hooks::error::HookError;
use crate::hooks::model::{HookDeliveryId, MAX_DEPTH, event_body};
use crate::hooks::service::{CONSUMER, Hooks, Passed, insert_work};
use crate::hooks::store;
use crate::hooks::store::deliveries::{self, NewWork};
use crate::hooks::store::executions;
use crate::hooks::store::queue::QueueKind;

/// What a hook sends is known by this header.
const DELIVERY_HEADER: &str = "x-svc-delivery";
const EVENTS_A_BATCH: u32 = 500;
/// The cursor follows events that nobody listens to after so long at most.
const CURSOR_FOLLOWS: Duration = Duration::from_secs(5);

/// Matches events with hooks.
#[derive(Debug)]
pub(crate) struct ReadEvents {
    hooks: Hooks,
    monitor: CapacityMonitor,
    cursor_moved: Mutex<Option<Instant>>,
}

impl ReadEvents {
    #[must_use]
    pub(crate) fn new(hooks: Hooks) -> Self {
        let monitor = CapacityMonitor::new(hooks.context().clock.now());
        Self { hooks, monitor, cursor_moved: Mutex::default() }
    }
}

impl Worker for ReadEvents {
    fn name(&self) -> &'static str {
        "hooks.read"
    }

    fn description(&self) -> &'static str {
        "Reads new events and queues the work of the hooks that listen to them."
    }

    fn interval(&self) -> Duration {
        INTERVAL
    }

    fn idle_until(&self) -> Option<Timestamp> {
        // Events are written, and what is full is emptied by writing.
        Some(NextDue::NEVER)
    }

    fn wake(&self) -> Option<Arc<Notify>> {
        Some(self.hooks.read_wake())
    }

    fn run_once(&self) -> BoxFuture<'_, Result<WorkerReport, WorkerError>> {
        async { Ok(self.run().await.inspect_err(|_| self.hooks.invalidate_cache())?) }.boxed()
    }
}

/// Events that were read, and from where.
#[derive(Debug)]
struct Page {
    database: String,
    after: Seq,
    events: Vec<Event>,
}

impl Page {
    fn is_full(&self) -> bool {
        self.events.len() >= EVENTS_A_BATCH as usize
    }
}

/// What a batch came to.
#[derive(Debug, Clone, Copy, Default)]
struct Batch {
    queued: usize,
    inline: usize,
    given_up: usize,
    has_more: bool,
}

impl ReadEvents {
    async fn run(&self) -> Result<WorkerReport, HookError> {
        let capacity = self.monitor.capacity(&self.hooks).await?;
        if capacity.rows == 0 {
            return Ok(WorkerReport::IDLE);
        }
        let (cache, page) = {
            let mut read = self.hooks.db().read_snapshot().await?;
            let cache = self.hooks.cache(&mut read).await?;
            let database = cache.version.database.clone();
            let after = self.hooks.reader_position(&mut read, &database).await?;
            let events = read.events_after(after, EVENTS_A_BATCH).await?;
            (cache, Page { database, after, events })
        };
        let Some(last) = page.events.last().map(|event| event.seq) else { return Ok(WorkerReport::IDLE) };
        let items = page.events.len();
        let is_heard = |event: &Event| wanted(&cache, event).is_some();
        if !page.events.iter().any(is_heard) {
            let is_full = page.is_full();
            self.pass(&page.database, last, is_full).await?;
            return Ok(WorkerReport { items: items as u64, has_more: is_full });
        }
        let here = self.hooks.clone();
        let take = async move |tx: &mut Tx| take_batch(&here, tx, &page, &capacity).await;
        let batch = self.hooks.db().write_locking(Durability::Full, take).await?;
        self.monitor.add(batch.queued + batch.inline);
        self.hooks.counters().dead.fetch_add(u64::try_from(batch.given_up).unwrap_or_default(), Ordering::Relaxed);
        for (added, queue) in [(batch.queued, QueueKind::Deliveries), (batch.inline, QueueKind::Executions)] {
            if added > 0 {
                self.hooks.wake_of(queue).notify_one();
            }
        }
        Ok(WorkerReport { items: items as u64, has_more: batch.has_more })
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
fn wanted<'k>(cache: &'k HookCache, event: &Event) -> Option<(Value, Vec<&'k Arc<LoadedHook>>)> {
    let listening = cache.listening(&event.event_type);
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

/// Writes down what the events of a page call for, as far as there is capacity.
async fn take_batch(hooks: &Hooks, tx: &mut Tx, page: &Page, capacity: &Capacity) -> Result<Batch, HookError> {
    // One replica at a time; another one would only find all done.
    let lock = tx.dialect().exclusive_lock();
    tx.fetch_optional(format!("SELECT consumer FROM cursors WHERE consumer = $1 {lock}"), args![CONSUMER]).await?;
    let version = store::hold_version(tx).await?;
    let cache = hooks.cache_at(tx, version).await?;
    let database = cache.version.database.clone();
    let after = hooks.reader_position(tx, &database).await?;
    let read_here;
    // What was read from this position on is still what follows it, unless somebody has moved on.
    let page = if (after, &database) == (page.after, &page.database) {
        page
    } else {
        read_here = Page { database, after, events: tx.events_after(after, EVENTS_A_BATCH).await? };
        &read_here
    };
    let mut batch = Batch { has_more: page.is_full(), ..Batch::default() };
    let (mut matched, mut rows, mut reached) = (Vec::new(), 0, None);
    for event in &page.events {
        if rows >= capacity.rows {
            batch.has_more = true;
            break;
        }
        reached = Some(event.seq);
        let Some((body, listening)) = wanted(&cache, event) else { continue };
        rows += listening.len();
        matched.push((event, body.to_string(), listening));
    }
    let depths = depths_of(tx, matched.iter().map(|(event, _, _)| *event)).await?;
    let (ids, mut queued) = (&hooks.context().ids, Vec::new());
    for ((event, payload, listening), depth) in matched.iter().zip(depths) {
        for hook in listening {
            let work = NewWork {
                hook_id: &hook.hook.id,
                event_id: event.id.as_str(),
                event_type: &event.event_type,
                payload,
                depth,
                trace: event.trace,
                given_up: capacity.behind.contains(&hook.hook.id).then_some(GIVEN_UP),
            };
            if hook.hook.is_queued() && depth <= MAX_DEPTH {
                queued.push((HookDeliveryId::generate(ids), work));
            } else if insert_work(tx, ids, &hook.hook, &work).await? {
                batch.inline += 1;
            }
        }
    }
    let added = deliveries::insert_deliveries(tx, &queued).await?;
    batch.queued += added.waiting;
    batch.given_up += added.given_up;
    if let Some(seq) = reached {
        tx.advance_cursor(CONSUMER, seq).await?;
    }
    Ok(batch)
}

/// How many hooks led to each of these events, one after the other: what a hook causes is known by the id that its
/// events carry, and what it sends to a webhook of this daemon by the id in its headers.
async fn depths_of<'e>(tx: &mut Tx, events: impl Iterator<Item = &'e Event> + Clone) -> Result<Vec<u32>, StoreError> {
    const CAUSED: [&str; 3] = ["session_id", "notification_id", "episode_id"];
    let sent = |event: &'e Event| {
        let is_received = event.event_type == "webhook.received";
        is_received.then(|| event.data["headers"][DELIVERY_HEADER].as_str()).flatten()
    };
    let caused = |event: &'e Event| {
        let by_name = CAUSED.into_iter().filter_map(|name| event.data[name].as_str());
        by_name.chain(sent(event)).filter(|id| !id.is_empty())
    };
    let ids: Vec<&str> = events.clone().flat_map(caused).collect();
    let mut found = executions::find_depths(tx, &ids).await?;
    let sent: Vec<&str> = events.clone().filter_map(sent).collect();
    found.extend(executions::find_own_depths(tx, &sent).await?);
    let depth = |event| caused(event).filter_map(|id| found.get(id)).max().map_or(0, |depth| depth + 1);
    Ok(events.map(depth).collect())
}
