//! Event stream. Stored events come from the outbox, so a client can resume after an interruption on any daemon. One
//! task reads the outbox for all clients while there are any.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use agentd_base::{DomainError, ErrorKind};
use agentd_store::{Event, Seq, StoreError};
use futures_util::{Stream, stream};
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::broadcast;
use tokio::task::JoinHandle;

use super::model::TypeFilter;
use crate::parts::Detached;
use crate::runtime::{AppContext, FeedItem};

const READ_BATCH_SIZE: u32 = 256;
/// Maximum number of missed events to replay; beyond it the client gets `reset`.
const MAX_REPLAYED_EVENTS: usize = 10_000;
/// Poll interval of the outbox, because a notification from another daemon may be lost.
const POLL_INTERVAL: Duration = Duration::from_secs(5);
/// Maximum number of open streams.
const MAX_STREAMS: usize = 512;
/// Maximum number of open streams per credential. All tabs of a browser share one stream.
const MAX_STREAMS_PER_CREDENTIAL: usize = 64;
const READY: &str = "ready";
const RESET: &str = "reset";

#[derive(Debug, thiserror::Error)]
pub enum EventsError {
    #[error("Too many open event streams; close some, or retry shortly")]
    TooManyStreams,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl DomainError for EventsError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::TooManyStreams => ErrorKind::TooMany(Duration::from_secs(5)),
            Self::Store(error) => error.kind(),
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::TooManyStreams => "too_many_streams",
            Self::Store(error) => error.code(),
        }
    }
}

/// Event as sent to a stream client.
#[derive(Debug, Clone)]
pub struct StreamEvent {
    pub event_type: Arc<str>,
    /// JSON, without line breaks.
    pub data: Arc<str>,
    /// Position to resume from, if the event is stored.
    pub id: Option<Arc<str>>,
}

struct Inner {
    context: AppContext,
    /// Task that reads the outbox for all clients.
    reader: tokio::sync::Mutex<Option<JoinHandle<()>>>,
    streams: Mutex<HashMap<Arc<str>, usize>>,
}

/// Event stream service. Cheap to clone.
#[derive(Clone)]
pub struct Events(Arc<Inner>);

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Events").finish_non_exhaustive()
    }
}

/// Counts an open stream until dropped.
struct OpenStream {
    events: Events,
    credential: Arc<str>,
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        let mut streams = self.events.0.streams.lock();
        if let Some(count) = streams.get_mut(&self.credential) {
            *count -= 1;
            if *count == 0 {
                streams.remove(&self.credential);
            }
        }
    }
}

impl Events {
    pub fn new(context: &AppContext) -> Detached<Self> {
        let (reader, streams) = (tokio::sync::Mutex::default(), Mutex::default());
        Detached::new(Self(Arc::new(Inner { context: context.clone(), reader, streams })))
    }

    /// Opens a stream of new events, or of all events after `last`. The first event is `ready`, with a position to
    /// resume from. If the position `last` is no longer available or too many events were missed, `reset` follows. The
    /// stream ends when the daemon drains, the store cannot be read, or the client is too slow; the client can open it
    /// again.
    ///
    /// # Errors
    /// `TooManyStreams` if a stream limit is reached, `Store` if the outbox cannot be read.
    pub async fn follow(
        &self,
        credential: &Arc<str>,
        filter: TypeFilter,
        last: Option<&str>,
    ) -> Result<impl Stream<Item = StreamEvent> + Send + use<>, EventsError> {
        let open = self.register_stream(credential)?;
        // Subscribe first, so that no event is lost between reading the outbox and listening.
        let feed = self.0.context.feed.subscribe();
        self.start_reader().await?;
        let database: Arc<str> = self.0.context.db.database_id().await?.into();
        let mut read = self.0.context.db.read().await?;
        let mut seen = parse_position(last, &database);
        if let Some(position) = seen
            && !read.is_event_retained(position).await?
        {
            seen = None;
        }
        let is_current = seen.is_none();
        let position = match seen {
            Some(position) => position,
            None => read.last_seq().await?,
        };
        let mut client = StreamClient {
            open,
            feed,
            filter,
            database,
            seen: position,
            pending: VecDeque::new(),
            missed: 0,
            is_current,
        };
        client.pending.push_back(client.control_event(READY));
        if last.is_some() && is_current {
            client.pending.push_back(client.control_event(RESET));
        }
        Ok(stream::unfold(client, |mut client| async move {
            let event = client.next().await?;
            Some((event, client))
        }))
    }

    fn register_stream(&self, credential: &Arc<str>) -> Result<OpenStream, EventsError> {
        let mut streams = self.0.streams.lock();
        let open = streams.get(credential).copied().unwrap_or(0);
        if open >= MAX_STREAMS_PER_CREDENTIAL || streams.values().sum::<usize>() >= MAX_STREAMS {
            return Err(EventsError::TooManyStreams);
        }
        streams.insert(Arc::clone(credential), open + 1);
        Ok(OpenStream { events: self.clone(), credential: Arc::clone(credential) })
    }

    /// Starts the reader task if it is not running, so that all later commits are delivered.
    async fn start_reader(&self) -> Result<(), EventsError> {
        let mut reader = self.0.reader.lock().await;
        if reader.as_ref().is_none_or(JoinHandle::is_finished) {
            let database = self.0.context.db.database_id().await?;
            let position = self.0.context.db.read().await?.last_seq().await?;
            *reader = Some(tokio::spawn(self.clone().publish_stored(database, position)));
        }
        Ok(())
    }

    /// Publishes stored events while there are subscribers.
    async fn publish_stored(self, mut database: String, mut position: Seq) {
        let context = &self.0.context;
        let mut changes = context.db.watch_outbox();
        loop {
            changes.borrow_and_update();
            let read = self.publish_batch(&mut database, &mut position).await;
            let may_miss = read.is_err() || !context.db.is_exclusive();
            match read {
                Ok(true) => continue,
                Ok(false) => {}
                Err(error) => tracing::warn!(%error, "failed to read events for streams"),
            }
            tokio::select! {
                changed = changes.changed() => if changed.is_err() { return },
                () = tokio::time::sleep(POLL_INTERVAL), if may_miss => {}
                () = context.draining.cancelled() => return,
                () = context.feed.closed() => {
                    let mut reader = self.0.reader.lock().await;
                    // A client that subscribed meanwhile relies on this task.
                    if !context.feed.has_subscribers() {
                        *reader = None;
                        return;
                    }
                }
            }
        }
    }

    /// Publishes the next batch of events. Returns whether more may be available.
    async fn publish_batch(&self, database: &mut String, position: &mut Seq) -> Result<bool, StoreError> {
        let context = &self.0.context;
        let current = context.db.database_id().await?;
        let mut read = context.db.read().await?;
        if current != *database {
            // A backup was restored: its events have other positions.
            (*database, *position) = (current, read.last_seq().await?);
            context.feed.send(FeedItem {
                event_type: RESET.into(),
                data: "{}".into(),
                position: Some((*position, database.as_str().into())),
            });
        }
        let events = read.events_after(*position, READ_BATCH_SIZE).await?;
        drop(read);
        for event in &events {
            *position = event.seq;
            context.feed.send(FeedItem {
                event_type: event.event_type.as_str().into(),
                data: event_body(event),
                position: Some((event.seq, database.as_str().into())),
            });
        }
        Ok(events.len() == READ_BATCH_SIZE as usize)
    }
}

struct StreamClient {
    open: OpenStream,
    feed: broadcast::Receiver<FeedItem>,
    filter: TypeFilter,
    database: Arc<str>,
    /// Position of the last stored event that was sent or filtered out.
    seen: Seq,
    pending: VecDeque<StreamEvent>,
    missed: usize,
    /// Whether all missed events were replayed.
    is_current: bool,
}

impl StreamClient {
    async fn next(&mut self) -> Option<StreamEvent> {
        loop {
            if let Some(event) = self.pending.pop_front() {
                return Some(event);
            }
            if self.is_current {
                let draining = self.open.events.0.context.draining.clone();
                let item = tokio::select! {
                    item = self.feed.recv() => item.ok()?,
                    () = draining.cancelled() => return None,
                };
                self.push(item);
            } else if let Err(error) = self.catch_up().await {
                tracing::warn!(%error, "event stream failed");
                return None;
            }
        }
    }

    async fn catch_up(&mut self) -> Result<(), StoreError> {
        let mut read = self.open.events.0.context.db.read().await?;
        let events = read.events_after(self.seen, READ_BATCH_SIZE).await?;
        self.missed += events.len();
        self.is_current = events.len() < READ_BATCH_SIZE as usize;
        if self.missed > MAX_REPLAYED_EVENTS {
            self.seen = read.last_seq().await?;
            self.is_current = true;
            self.pending.push_back(self.control_event(RESET));
            return Ok(());
        }
        for event in &events {
            self.seen = event.seq;
            if self.filter.matches(&event.event_type) {
                let (event_type, data) = (event.event_type.as_str().into(), event_body(event));
                self.pending.push_back(StreamEvent { event_type, data, id: Some(self.id()) });
            }
        }
        Ok(())
    }

    fn push(&mut self, item: FeedItem) {
        let FeedItem { event_type, data, position } = item;
        let is_reset = &*event_type == RESET;
        let mut id = None;
        if let Some((position, database)) = position {
            // Already sent while missed events were replayed.
            if !is_reset && position <= self.seen {
                return;
            }
            (self.seen, self.database) = (position, database);
            id = Some(self.id());
        }
        if is_reset || self.filter.matches(&event_type) {
            self.pending.push_back(StreamEvent { event_type, data, id });
        }
    }

    fn id(&self) -> Arc<str> {
        format!("{}.{}", self.database, self.seen).into()
    }

    fn control_event(&self, event_type: &str) -> StreamEvent {
        StreamEvent { event_type: event_type.into(), data: "{}".into(), id: Some(self.id()) }
    }
}

/// Parses an event id and returns its position if it belongs to this database.
fn parse_position(id: Option<&str>, database: &str) -> Option<Seq> {
    id?.strip_prefix(database)?.strip_prefix('.')?.parse().ok()
}

/// Serializes an event in the format of hook deliveries.
fn event_body(event: &Event) -> Arc<str> {
    let body = json!({
        "id": event.id, "type": event.event_type, "timestamp": event.created_at, "data": event.data,
    });
    body.to_string().into()
}
