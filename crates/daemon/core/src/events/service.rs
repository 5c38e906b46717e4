//! Following what happens. What is stored comes from the outbox, so it can be gone on with after any break, on whichever
//! daemon; one task reads it for all followers, while there are any.

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

const EVENTS_A_READ: u32 = 256;
/// Whoever missed more loads anew what it shows.
const MOST_MISSED: usize = 10_000;
/// A notification of another daemon may be lost; then events are found after so long.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
const MOST_STREAMS: usize = 512;
/// Of one credential: a browser has one for all its tabs.
const MOST_STREAMS_OF_ONE: usize = 64;
const READY: &str = "ready";
const RESET: &str = "reset";

#[derive(Debug, thiserror::Error)]
pub enum EventsError {
    #[error("Too many streams of events are open; close some, or try again shortly")]
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

/// What a follower is told.
#[derive(Debug, Clone)]
pub struct StreamEvent {
    pub event_type: Arc<str>,
    /// JSON, without line breaks.
    pub data: Arc<str>,
    /// Of what is stored: where to go on from.
    pub id: Option<Arc<str>>,
}

struct Inner {
    context: AppContext,
    /// Reads the outbox for all followers.
    reader: tokio::sync::Mutex<Option<JoinHandle<()>>>,
    streams: Mutex<HashMap<Arc<str>, usize>>,
}

/// Cheap to clone.
#[derive(Clone)]
pub struct Events(Arc<Inner>);

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Events").finish_non_exhaustive()
    }
}

/// One of the open streams; no longer counted when dropped.
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

    /// What happens from now on, or after the event `last`; first comes `ready`, with a place to go on from. Where `last`
    /// is not kept any more, or too much was missed, comes `reset`. It ends when the daemon drains, when the store cannot
    /// be read, and when its reader is too slow: then it is to be opened again.
    ///
    /// # Errors
    /// `TooManyStreams`, or the store's refusal.
    pub async fn follow(
        &self,
        credential: &Arc<str>,
        filter: TypeFilter,
        last: Option<&str>,
    ) -> Result<impl Stream<Item = StreamEvent> + Send + use<>, EventsError> {
        let open = self.enter(credential)?;
        // First, so that nothing is told between what is read and what is heard.
        let feed = self.0.context.feed.watch();
        self.start_reader().await?;
        let database: Arc<str> = self.0.context.db.database_id().await?.into();
        let mut read = self.0.context.db.read().await?;
        let mut seen = place_of(last, &database);
        if let Some(place) = seen
            && !read.keeps_event(place).await?
        {
            seen = None;
        }
        let is_current = seen.is_none();
        let place = match seen {
            Some(place) => place,
            None => read.last_seq().await?,
        };
        let mut follower =
            Follower { open, feed, filter, database, seen: place, ready: VecDeque::new(), missed: 0, is_current };
        follower.ready.push_back(follower.sign(READY));
        if last.is_some() && is_current {
            follower.ready.push_back(follower.sign(RESET));
        }
        Ok(stream::unfold(follower, |mut follower| async move {
            let event = follower.next().await?;
            Some((event, follower))
        }))
    }

    fn enter(&self, credential: &Arc<str>) -> Result<OpenStream, EventsError> {
        let mut streams = self.0.streams.lock();
        let of_one = streams.get(credential).copied().unwrap_or(0);
        if of_one >= MOST_STREAMS_OF_ONE || streams.values().sum::<usize>() >= MOST_STREAMS {
            return Err(EventsError::TooManyStreams);
        }
        streams.insert(Arc::clone(credential), of_one + 1);
        Ok(OpenStream { events: self.clone(), credential: Arc::clone(credential) })
    }

    /// Makes sure that what commits from now on is told.
    async fn start_reader(&self) -> Result<(), EventsError> {
        let mut reader = self.0.reader.lock().await;
        if reader.as_ref().is_none_or(JoinHandle::is_finished) {
            let database = self.0.context.db.database_id().await?;
            let place = self.0.context.db.read().await?.last_seq().await?;
            *reader = Some(tokio::spawn(self.clone().tell_stored(database, place)));
        }
        Ok(())
    }

    /// Tells what is stored, while anybody listens.
    async fn tell_stored(self, mut database: String, mut place: Seq) {
        let context = &self.0.context;
        let mut changes = context.db.watch_outbox();
        loop {
            changes.borrow_and_update();
            let read = self.read_on(&mut database, &mut place).await;
            let may_miss = read.is_err() || !context.db.is_exclusive();
            match read {
                Ok(true) => continue,
                Ok(false) => {}
                Err(error) => tracing::warn!(%error, "events cannot be read for those who follow them"),
            }
            tokio::select! {
                changed = changes.changed() => if changed.is_err() { return },
                () = tokio::time::sleep(LOOK_AGAIN), if may_miss => {}
                () = context.draining.cancelled() => return,
                () = context.feed.deserted() => {
                    let mut reader = self.0.reader.lock().await;
                    // Whoever came meanwhile counts on this one.
                    if !context.feed.is_watched() {
                        *reader = None;
                        return;
                    }
                }
            }
        }
    }

    /// Answers whether there may be more.
    async fn read_on(&self, database: &mut String, place: &mut Seq) -> Result<bool, StoreError> {
        let context = &self.0.context;
        let current = context.db.database_id().await?;
        let mut read = context.db.read().await?;
        if current != *database {
            // A backup was loaded: its events have other places.
            (*database, *place) = (current, read.last_seq().await?);
            context.feed.pass_on(FeedItem {
                event_type: RESET.into(),
                data: "{}".into(),
                place: Some((*place, database.as_str().into())),
            });
        }
        let events = read.events_after(*place, EVENTS_A_READ).await?;
        drop(read);
        for event in &events {
            *place = event.seq;
            context.feed.pass_on(FeedItem {
                event_type: event.event_type.as_str().into(),
                data: body_of(event),
                place: Some((event.seq, database.as_str().into())),
            });
        }
        Ok(events.len() == EVENTS_A_READ as usize)
    }
}

struct Follower {
    open: OpenStream,
    feed: broadcast::Receiver<FeedItem>,
    filter: TypeFilter,
    database: Arc<str>,
    /// The last stored event that was told or passed over.
    seen: Seq,
    ready: VecDeque<StreamEvent>,
    missed: usize,
    /// What was missed is told.
    is_current: bool,
}

impl Follower {
    async fn next(&mut self) -> Option<StreamEvent> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            if self.is_current {
                let draining = self.open.events.0.context.draining.clone();
                let item = tokio::select! {
                    item = self.feed.recv() => item.ok()?,
                    () = draining.cancelled() => return None,
                };
                self.take(item);
            } else if let Err(error) = self.catch_up().await {
                tracing::warn!(%error, "following events broke off");
                return None;
            }
        }
    }

    async fn catch_up(&mut self) -> Result<(), StoreError> {
        let mut read = self.open.events.0.context.db.read().await?;
        let events = read.events_after(self.seen, EVENTS_A_READ).await?;
        self.missed += events.len();
        self.is_current = events.len() < EVENTS_A_READ as usize;
        if self.missed > MOST_MISSED {
            self.seen = read.last_seq().await?;
            self.is_current = true;
            self.ready.push_back(self.sign(RESET));
            return Ok(());
        }
        for event in &events {
            self.seen = event.seq;
            if self.filter.lets_through(&event.event_type) {
                let (event_type, data) = (event.event_type.as_str().into(), body_of(event));
                self.ready.push_back(StreamEvent { event_type, data, id: Some(self.id()) });
            }
        }
        Ok(())
    }

    fn take(&mut self, item: FeedItem) {
        let FeedItem { event_type, data, place } = item;
        let is_reset = &*event_type == RESET;
        let mut id = None;
        if let Some((place, database)) = place {
            // Read already, when what was missed was read.
            if !is_reset && place <= self.seen {
                return;
            }
            (self.seen, self.database) = (place, database);
            id = Some(self.id());
        }
        if is_reset || self.filter.lets_through(&event_type) {
            self.ready.push_back(StreamEvent { event_type, data, id });
        }
    }

    fn id(&self) -> Arc<str> {
        format!("{}.{}", self.database, self.seen).into()
    }

    fn sign(&self, event_type: &str) -> StreamEvent {
        StreamEvent { event_type: event_type.into(), data: "{}".into(), id: Some(self.id()) }
    }
}

/// The place that an id names, in this database.
fn place_of(id: Option<&str>, database: &str) -> Option<Seq> {
    id?.strip_prefix(database)?.strip_prefix('.')?.parse().ok()
}

/// As a hook sends it.
fn body_of(event: &Event) -> Arc<str> {
    let body = json!({
        "id": event.id, "type": event.event_type, "timestamp": event.created_at, "data": event.data,
    });
    body.to_string().into()
}
