//! Connections that only read.
//!
//! A statement runs on the thread that asks, because nearly all of them take less time than a hop to another
//! thread and back. One that takes longer is interrupted, and asked again on a thread that may be kept waiting,
//! so that no request holds up the others for long: reading changes nothing, so asking twice does no harm. What
//! was too long once begins there, and so does everything for a while when the disk is slow, because SQLite does
//! not look at the clock while it waits for a page.

mod batch;
mod time_limit;

use batch::Batch;
use time_limit::TimeLimit;

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::stream::BoxStream;
use futures_util::{StreamExt, stream};
use parking_lot::Mutex;
use rusqlite::{Connection, OpenFlags};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError, mpsc};
use tokio::task::spawn_blocking;

use super::direct;
use crate::row::Row;
use crate::value::Value;
use crate::{Args, Sql, StoreError};

const READERS: u32 = 4;
const ACQUIRED_IN: Duration = Duration::from_secs(30);
/// A reader that was idle this long gives its memory back when another one is let go, or when the daemon rests.
const IDLE: Duration = Duration::from_secs(30);
const STATEMENTS: usize = 128;
/// Its cache stays small, nothing is mapped.
const SETTINGS: &str = "PRAGMA cache_size = -512; PRAGMA mmap_size = 0; PRAGMA query_only = ON;";
/// Steps of SQLite's machine between two looks at the clock: some ten microseconds.
const STEPS_A_LOOK: i32 = 500;
/// Nothing takes that long but waiting for the disk.
const SLOW: Duration = Duration::from_millis(20);
/// For how long nobody is asked to wait for the disk then.
const SLOW_FOR: Duration = Duration::from_secs(2);
/// After so much work on the threads of others they have their turn.
const YIELD_AFTER: Duration = Duration::from_millis(2);
/// Statements of which is known that they take long, and after how many times one may show that it no longer does.
const LONG_ONES: usize = 256;
const LONG_TIMES: u32 = 64;
/// Batches of a stream that may wait.
const BATCHES: usize = 2;

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    places: Arc<Semaphore>,
    idle: Mutex<Vec<Idle>>,
    is_closed: AtomicBool,
    slow_until: Mutex<Option<Instant>>,
    /// Statements run on the thread that asks, however long they take.
    is_simulated: bool,
}

#[derive(Debug)]
struct Idle {
    open: Open,
    since: Instant,
}

#[derive(Debug)]
struct Open {
    connection: Connection,
    limit: Arc<TimeLimit>,
    /// By the hash of their text, how often they were asked elsewhere.
    long_ones: HashMap<u64, u32>,
    /// On the threads of those who asked, since they last had their turn.
    spent: Duration,
}

/// Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Readers(Arc<Inner>);

/// A connection, for as long as somebody reads with it.
pub(crate) struct Reader {
    readers: Readers,
    /// Away while a thread works with it; lost if nobody waited for that thread.
    held: Option<Held>,
    is_snapshot: bool,
    /// Not to be used by others after this.
    is_suspect: bool,
}

/// What is asked of a connection: a statement and its values.
type Ask<T> = fn(&Connection, &str, &[Value]) -> Result<T, StoreError>;

struct Held {
    open: Open,
    _place: OwnedSemaphorePermit,
}

impl Readers {
    pub(super) fn new(path: PathBuf, is_simulated: bool) -> Self {
        let places = Arc::new(Semaphore::new(READERS as usize));
        let is_closed = AtomicBool::new(false);
        let (idle, slow_until) = (Mutex::default(), Mutex::default());
        Self(Arc::new(Inner { path, places, idle, is_closed, slow_until, is_simulated }))
    }

    pub(crate) async fn acquire(&self) -> Result<Reader, StoreError> {
        if self.0.is_closed.load(Ordering::Acquire) {
            return Err(StoreError::Closed);
        }
        let place = match Arc::clone(&self.0.places).try_acquire_owned() {
            Ok(place) => place,
            Err(TryAcquireError::Closed) => return Err(StoreError::Closed),
            Err(TryAcquireError::NoPermits) => {
                let waiting = Arc::clone(&self.0.places).acquire_owned();
                tokio::time::timeout(ACQUIRED_IN, waiting)
                    .await
                    .map_err(|_| StoreError::Unavailable {
                        reason: "no connection became free in time".to_owned(),
                        source: None,
                    })?
                    .map_err(|_| StoreError::Closed)?
            }
        };
        let idle = self.0.idle.lock().pop();
        let held = match idle {
            Some(idle) => Held { open: idle.open, _place: place },
            None if self.0.is_simulated => Held { open: Open::new(&self.0.path)?, _place: place },
            None => {
                let path = self.0.path.clone();
                // The place goes along: whoever closes waits for a file that is being opened, too.
                let open = move || Ok::<_, StoreError>(Held { open: Open::new(&path)?, _place: place });
                spawn_blocking(open).await.map_err(|_| StoreError::Closed)??
            }
        };
        Ok(Reader { readers: self.clone(), held: Some(held), is_snapshot: false, is_suspect: false })
    }

    /// A transaction that sees one state.
    pub(crate) async fn begin(&self) -> Result<Reader, StoreError> {
        let mut reader = self.acquire().await?;
        reader.held()?.open.connection.execute_batch("BEGIN")?;
        reader.is_snapshot = true;
        Ok(reader)
    }

    pub(super) fn release_idle(&self) {
        // Closed after the lock is let go.
        let idle = std::mem::take(&mut *self.0.idle.lock());
        drop(idle);
    }

    /// Waits for whoever reads.
    pub(super) async fn close(&self) {
        self.0.is_closed.store(true, Ordering::Release);
        // An error means that it was closed before.
        let all = self.0.places.acquire_many(READERS).await;
        self.0.places.close();
        self.release_idle();
        drop(all);
    }

    fn is_slow(&self) -> bool {
        let mut slow_until = self.0.slow_until.lock();
        let is_slow = slow_until.is_some_and(|until| Instant::now() < until);
        if !is_slow {
            *slow_until = None;
        }
        is_slow
    }

    fn give_back(&self, held: Held) {
        let now = Instant::now();
        let mut stale = Vec::new();
        {
            let mut idle = self.0.idle.lock();
            idle.push(Idle { open: held.open, since: now });
            // The one that was used last is used next, so the others grow old at the beginning.
            let old = idle.iter().take_while(|idle| now.duration_since(idle.since) >= IDLE).count();
            stale.extend(idle.drain(..old));
        }
        if self.0.is_closed.load(Ordering::Acquire) {
            self.release_idle();
        }
    }
}

impl Open {
    fn new(path: &Path) -> Result<Self, StoreError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        // Nobody waits for a lock on the thread of others; that is done elsewhere.
        connection.busy_timeout(Duration::ZERO)?;
        direct::keep_plans(&connection)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS);
        connection.execute_batch(SETTINGS)?;
        let limit = Arc::new(TimeLimit::new());
        let watched = Arc::clone(&limit);
        connection.progress_handler(STEPS_A_LOOK, Some(move || watched.is_over()))?;
        // Reads the schema here, where nobody else waits for the thread.
        direct::fetch(&connection, "SELECT 1 FROM sqlite_schema LIMIT 1", &[])?;
        Ok(Self { connection, limit, long_ones: HashMap::new(), spent: Duration::ZERO })
    }
}

impl Open {
    /// Asks here and now; `None` when that takes too long, or when another program holds a lock.
    fn try_ask<T>(&mut self, sql: &Sql, values: &[Value], ask: Ask<T>) -> Option<Result<T, StoreError>> {
        let began = Instant::now();
        self.limit.begin();
        let answer = ask(&self.connection, &sql.0, values);
        let was_over = self.limit.end();
        self.spent += began.elapsed();
        match &answer {
            Ok(_) => Some(answer),
            Err(error) if was_over || error.is_busy() => {
                self.note_long(sql);
                None
            }
            Err(_) => Some(answer),
        }
    }

    fn is_long(&mut self, sql: &Sql) -> bool {
        if self.long_ones.is_empty() {
            return false;
        }
        let key = hash(sql);
        let Some(times) = self.long_ones.get_mut(&key) else { return false };
        *times += 1;
        if *times < LONG_TIMES {
            return true;
        }
        self.long_ones.remove(&key);
        false
    }

    fn note_long(&mut self, sql: &Sql) {
        if self.long_ones.len() >= LONG_ONES {
            self.long_ones.clear();
        }
        self.long_ones.insert(hash(sql), 0);
    }
}

fn hash(sql: &Sql) -> u64 {
    let mut hasher = DefaultHasher::new();
    sql.0.hash(&mut hasher);
    hasher.finish()
}

impl Reader {
    pub(crate) async fn fetch(&mut self, sql: Sql, args: Args) -> Result<Vec<Row>, StoreError> {
        self.ask(sql, args, direct::fetch).await
    }

    pub(crate) async fn execute(&mut self, sql: Sql, args: Args) -> Result<u64, StoreError> {
        self.ask(sql, args, direct::execute).await
    }

    pub(crate) fn script(&mut self, text: &str) -> Result<(), StoreError> {
        Ok(self.held()?.open.connection.execute_batch(text)?)
    }

    fn held(&mut self) -> Result<&mut Held, StoreError> {
        let held = self.held.as_mut().ok_or(StoreError::Closed)?;
        if self.is_snapshot && held.open.connection.is_autocommit() {
            // SQLite gave the transaction up when reading failed: what comes next would be of another state.
            return Err(StoreError::Closed);
        }
        Ok(held)
    }

    async fn ask<T: Send + 'static>(&mut self, sql: Sql, args: Args, ask: Ask<T>) -> Result<T, StoreError> {
        let values = args.into_values()?;
        if self.readers.0.is_simulated {
            return ask(&self.held()?.open.connection, &sql.0, &values);
        }
        let is_slow = self.readers.is_slow();
        let open = &mut self.held()?.open;
        if open.spent >= YIELD_AFTER {
            open.spent = Duration::ZERO;
            tokio::task::yield_now().await;
        }
        let open = &mut self.held()?.open;
        let inline = if is_slow || open.is_long(&sql) { None } else { open.try_ask(&sql, &values, ask) };
        if open.spent >= SLOW {
            *self.readers.0.slow_until.lock() = Some(Instant::now() + SLOW_FOR);
        }
        let answer = match inline {
            Some(answer) => answer,
            None => self.ask_elsewhere(sql, values, ask).await,
        };
        self.is_suspect |= answer.as_ref().is_err_and(StoreError::is_unavailable);
        answer
    }

    async fn ask_elsewhere<T: Send + 'static>(
        &mut self,
        sql: Sql,
        values: Vec<Value>,
        ask: Ask<T>,
    ) -> Result<T, StoreError> {
        let held = self.held.take().ok_or(StoreError::Closed)?;
        let mut awaited = Awaited(Some(Arc::clone(&held.open.limit)));
        let asked = spawn_blocking(move || {
            let connection = &held.open.connection;
            let answer = connection
                .busy_timeout(direct::BUSY_TIMEOUT)
                .map_err(StoreError::from)
                .and_then(|()| ask(connection, &sql.0, &values));
            let calm = connection.busy_timeout(Duration::ZERO);
            (held, answer.and_then(|answer| calm.map(|()| answer).map_err(StoreError::from)))
        });
        let asked = asked.await;
        awaited.0 = None;
        let (held, answer) = asked.map_err(|_| StoreError::Closed)?;
        self.held = Some(held);
        answer
    }

    /// Rows as they come, read by a thread that waits while nobody takes them. Who does not take all of them
    /// cannot go on with this reader.
    pub(crate) fn stream(
        &mut self,
        sql: Sql,
        args: Args,
    ) -> Result<BoxStream<'_, Result<Row, StoreError>>, StoreError> {
        let values = args.into_values()?;
        self.held()?;
        let held = self.held.take().ok_or(StoreError::Closed)?;
        let awaited = Awaited(Some(Arc::clone(&held.open.limit)));
        let (sender, batches) = mpsc::channel(BATCHES);
        let reading = spawn_blocking(move || {
            let mut batch = Batch::new(sender);
            let read = direct::each(&held.open.connection, &sql.0, &values, |row| batch.push(row));
            batch.end(read);
            held
        });
        let state = Streaming { reader: self, reading: Some(reading), batches, awaited };
        Ok(stream::unfold(state, Streaming::next).flat_map(stream::iter).boxed())
    }
}

struct Streaming<'r> {
    reader: &'r mut Reader,
    reading: Option<tokio::task::JoinHandle<Held>>,
    batches: mpsc::Receiver<Vec<Result<Row, StoreError>>>,
    awaited: Awaited,
}

impl Streaming<'_> {
    async fn next(mut self) -> Option<(Vec<Result<Row, StoreError>>, Self)> {
        if let Some(batch) = self.batches.recv().await {
            self.reader.is_suspect |= batch.iter().any(Result::is_err);
            return Some((batch, self));
        }
        self.reader.held = self.reading.take()?.await.ok();
        self.awaited.0 = None;
        match self.reader.held {
            Some(_) => None,
            // The thread panicked: what came is not all.
            None => Some((vec![Err(StoreError::Closed)], self)),
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let Some(held) = self.held.take() else { return };
        held.open.limit.end();
        let is_over = !self.is_snapshot || held.open.connection.execute_batch("ROLLBACK").is_ok();
        if is_over && !self.is_suspect {
            self.readers.give_back(held);
        }
    }
}

/// Somebody waits for what another thread reads. When nobody does any more, it stops.
struct Awaited(Option<Arc<TimeLimit>>);

impl Drop for Awaited {
    fn drop(&mut self) {
        if let Some(limit) = self.0.take() {
            limit.is_abandoned.store(true, Ordering::Relaxed);
        }
    }
}
