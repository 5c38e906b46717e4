//! Event reader: reads events in order and inserts the work of matching hooks.
//!
//! One cursor serves all hooks. Rows and cursor are written in one transaction that locks the hooks against changes.
//! Events without listeners are skipped in memory, and the cursor follows at intervals. Reading such events again is
//! harmless, because they still match no hook.

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

use super::POLL_INTERVAL;
use super::capacity::{BACKLOG_FULL, Capacity, CapacityMonitor};
use crate::hooks::cache::{HookCache, LoadedHook};
use crate::hooks::error::HookError;
use crate::hooks::model::{HookDeliveryId, MAX_DEPTH, event_body};
use crate::hooks::service::{CONSUMER, Hooks, ReaderPosition, insert_work};
use crate::hooks::store;
use crate::hooks::store::deliveries::{self, NewWork};
use crate::hooks::store::executions;
use crate::hooks::store::queue::QueueKind;

/// Header that identifies requests sent by a hook.
const DELIVERY_HEADER: &str = "x-svc-delivery";
const EVENTS_PER_BATCH: u32 = 500;
/// Maximum delay before the cursor is advanced past events without listeners.
const CURSOR_FLUSH_INTERVAL: Duration = Duration::from_secs(5);

/// Worker that matches events with hooks.
#[derive(Debug)]
pub(crate) struct ReadEvents {
    hooks: Hooks,
    monitor: CapacityMonitor,
    cursor_flushed_at: Mutex<Option<Instant>>,
}

impl ReadEvents {
    #[must_use]
    pub(crate) fn new(hooks: Hooks) -> Self {
        let monitor = CapacityMonitor::new(hooks.context().clock.now());
        Self { hooks, monitor, cursor_flushed_at: Mutex::default() }
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
        POLL_INTERVAL
    }

    fn idle_until(&self) -> Option<Timestamp> {
        // Only a write can create an event or shrink a full backlog, and each write wakes the worker.
        Some(NextDue::NEVER)
    }

    fn wake(&self) -> Option<Arc<Notify>> {
        Some(self.hooks.read_wake())
    }

    fn run_once(&self) -> BoxFuture<'_, Result<WorkerReport, WorkerError>> {
        async { Ok(self.run().await.inspect_err(|_| self.hooks.invalidate_cache())?) }.boxed()
    }
}

/// A page of events, and the position after which it was read.
#[derive(Debug)]
struct Page {
    database: String,
    after: Seq,
    events: Vec<Event>,
}

impl Page {
    fn is_full(&self) -> bool {
        self.events.len() >= EVENTS_PER_BATCH as usize
    }
}

/// Totals of one batch.
#[derive(Debug, Clone, Copy, Default)]
struct Batch {
    queued: usize,
    inline: usize,
    rejected: usize,
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
            let events = read.events_after(after, EVENTS_PER_BATCH).await?;
            (cache, Page { database, after, events })
        };
        let Some(last) = page.events.last().map(|event| event.seq) else { return Ok(WorkerReport::IDLE) };
        let items = page.events.len();
        let is_matched = |event: &Event| match_event(&cache, event).is_some();
        if !page.events.iter().any(is_matched) {
            let is_full = page.is_full();
            self.skip_to(&page.database, last, is_full).await?;
            return Ok(WorkerReport { items: items as u64, has_more: is_full });
        }
        let here = self.hooks.clone();
        let take = async move |tx: &mut Tx| process_batch(&here, tx, &page, &capacity).await;
        let batch = self.hooks.db().write_locking(Durability::Full, take).await?;
        self.monitor.add(batch.queued + batch.inline);
        self.hooks.counters().dead.fetch_add(u64::try_from(batch.rejected).unwrap_or_default(), Ordering::Relaxed);
        for (added, queue) in [(batch.queued, QueueKind::Deliveries), (batch.inline, QueueKind::Executions)] {
            if added > 0 {
                self.hooks.wake_of(queue).notify_one();
            }
        }
        Ok(WorkerReport { items: items as u64, has_more: batch.has_more })
    }

    /// Records that no hook listens to the events up to `seq`.
    async fn skip_to(&self, database: &str, seq: Seq, must_move: bool) -> Result<(), HookError> {
        *self.hooks.skipped_to().lock() = Some(ReaderPosition { database: database.to_owned(), seq });
        let is_recent = self.cursor_flushed_at.lock().is_some_and(|at| at.elapsed() < CURSOR_FLUSH_INTERVAL);
        if is_recent && !must_move {
            return Ok(());
        }
        *self.cursor_flushed_at.lock() = Some(Instant::now());
        let follow = async move |tx: &mut Tx| tx.advance_cursor(CONSUMER, seq).await;
        Ok(self.hooks.db().write_locking(Durability::Relaxed, follow).await?)
    }
}

/// Returns the event body and the hooks whose scope and filter match, or `None` if no hook matches.
fn match_event<'k>(cache: &'k HookCache, event: &Event) -> Option<(Value, Vec<&'k Arc<LoadedHook>>)> {
    let matching = cache.listeners(&event.event_type);
    if !matching.iter().any(|hook| hook.hook.receives(event.seq, event.agent.as_deref())) {
        return None;
    }
    let body = event_body(event.id.as_str(), &event.event_type, event.created_at, &event.data);
    let receives = |hook: &&Arc<LoadedHook>| {
        hook.hook.receives(event.seq, event.agent.as_deref())
            && hook.hook.filter.as_ref().is_none_or(|filter| filter.passes(&body))
    };
    let hooks: Vec<_> = matching.iter().filter(receives).collect();
    (!hooks.is_empty()).then_some((body, hooks))
}

/// Inserts the work for the events of a page, within the capacity.
async fn process_batch(hooks: &Hooks, tx: &mut Tx, page: &Page, capacity: &Capacity) -> Result<Batch, HookError> {
    // Serializes the replicas; a second one would only find the events processed.
    let lock = tx.dialect().exclusive_lock();
    tx.fetch_optional(format!("SELECT consumer FROM cursors WHERE consumer = $1 {lock}"), args![CONSUMER]).await?;
    let version = store::lock_version(tx).await?;
    let cache = hooks.cache_at(tx, version).await?;
    let database = cache.version.database.clone();
    let after = hooks.reader_position(tx, &database).await?;
    let read_here;
    // The page is still current unless another replica has advanced the cursor.
    let page = if (after, &database) == (page.after, &page.database) {
        page
    } else {
        read_here = Page { database, after, events: tx.events_after(after, EVENTS_PER_BATCH).await? };
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
        let Some((body, matching)) = match_event(&cache, event) else { continue };
        rows += matching.len();
        matched.push((event, body.to_string(), matching));
    }
    let depths = chain_depths(tx, matched.iter().map(|(event, _, _)| *event)).await?;
    let (ids, mut queued) = (&hooks.context().ids, Vec::new());
    for ((event, payload, matching), depth) in matched.iter().zip(depths) {
        for hook in matching {
            let work = NewWork {
                hook_id: &hook.hook.id,
                event_id: event.id.as_str(),
                event_type: &event.event_type,
                payload,
                depth,
                trace: event.trace,
                rejected: capacity.stalled.contains(&hook.hook.id).then_some(BACKLOG_FULL),
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
    batch.rejected += added.rejected;
    if let Some(seq) = reached {
        tx.advance_cursor(CONSUMER, seq).await?;
    }
    Ok(batch)
}

/// Returns the length of the hook chain behind each event. Events caused by a hook carry the id of its result. Requests
/// that a hook sent to a webhook of this daemon carry the delivery id in a header.
async fn chain_depths<'e>(
    tx: &mut Tx,
    events: impl Iterator<Item = &'e Event> + Clone,
) -> Result<Vec<u32>, StoreError> {
    const CAUSE_ID_FIELDS: [&str; 3] = ["session_id", "notification_id", "episode_id"];
    let sent = |event: &'e Event| {
        let is_received = event.event_type == "webhook.received";
        is_received.then(|| event.data["headers"][DELIVERY_HEADER].as_str()).flatten()
    };
    let caused = |event: &'e Event| {
        let by_name = CAUSE_ID_FIELDS.into_iter().filter_map(|name| event.data[name].as_str());
        by_name.chain(sent(event)).filter(|id| !id.is_empty())
    };
    let ids: Vec<&str> = events.clone().flat_map(caused).collect();
    let mut found = executions::find_depths(tx, &ids).await?;
    let sent: Vec<&str> = events.clone().filter_map(sent).collect();
    found.extend(executions::find_own_depths(tx, &sent).await?);
    let depth = |event| caused(event).filter_map(|id| found.get(id)).max().map_or(0, |depth| depth + 1);
    Ok(events.map(depth).collect())
}
