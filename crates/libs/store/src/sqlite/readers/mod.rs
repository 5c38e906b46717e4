//! Read-only connections.
//!
//! A statement runs on the calling thread, because nearly all of them take less time than a switch to another thread
//! and back. One that takes longer is interrupted and rerun on a blocking thread, so that no request delays others;
//! this is safe because statements only read. A statement that was interrupted once starts on a blocking thread. While
//! the disk is slow all statements do, because SQLite does not check the time while it waits for a page.

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
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(30);
/// Idle time after which a reader is closed, when another one is returned or when the daemon is idle.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
const STATEMENT_CACHE_CAPACITY: usize = 128;
/// Keeps the cache small and disables memory mapping.
const SETTINGS: &str = "PRAGMA cache_size = -512; PRAGMA mmap_size = 0; PRAGMA query_only = ON;";
/// SQLite virtual machine steps between two time checks: about ten microseconds.
const STEPS_PER_TIME_CHECK: i32 = 500;
/// Time on the calling thread that only a slow disk explains.
const SLOW_THRESHOLD: Duration = Duration::from_millis(20);
/// Time for which all statements then run on blocking threads.
const SLOW_PERIOD: Duration = Duration::from_secs(2);
/// Total time on calling threads after which the task yields.
const YIELD_AFTER: Duration = Duration::from_millis(2);
/// Maximum number of remembered long statements, and number of runs after which one is tried inline again.
const MAX_LONG_STATEMENTS: usize = 256;
const LONG_STATEMENT_RUNS: u32 = 64;
/// Maximum number of buffered batches of a stream.
const STREAM_BUFFER_BATCHES: usize = 2;

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    permits: Arc<Semaphore>,
    idle: Mutex<Vec<Idle>>,
    is_closed: AtomicBool,
    slow_until: Mutex<Option<Instant>>,
    /// Statements run on the calling thread regardless of their duration.
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
    /// Number of runs on blocking threads, by hash of the statement text.
    long_statements: HashMap<u64, u32>,
    /// Time spent on calling threads since the last yield.
    spent: Duration,
}

/// Pool of reader connections. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Readers(Arc<Inner>);

/// Connection checked out of the pool.
pub(crate) struct Reader {
    readers: Readers,
    /// Absent while a blocking thread uses it; lost if the caller did not wait for that thread.
    checked_out: Option<CheckedOut>,
    is_snapshot: bool,
    /// The connection is not returned to the pool.
    is_suspect: bool,
}

/// Operation on a connection with a statement and its values.
type Operation<T> = fn(&Connection, &str, &[Value]) -> Result<T, StoreError>;

struct CheckedOut {
    open: Open,
    _permit: OwnedSemaphorePermit,
}

impl Readers {
    pub(super) fn new(path: PathBuf, is_simulated: bool) -> Self {
        let permits = Arc::new(Semaphore::new(READERS as usize));
        let is_closed = AtomicBool::new(false);
        let (idle, slow_until) = (Mutex::default(), Mutex::default());
        Self(Arc::new(Inner { path, permits, idle, is_closed, slow_until, is_simulated }))
    }

    pub(crate) async fn acquire(&self) -> Result<Reader, StoreError> {
        if self.0.is_closed.load(Ordering::Acquire) {
            return Err(StoreError::Closed);
        }
        let permit = match Arc::clone(&self.0.permits).try_acquire_owned() {
            Ok(permit) => permit,
            Err(TryAcquireError::Closed) => return Err(StoreError::Closed),
            Err(TryAcquireError::NoPermits) => {
                let waiting = Arc::clone(&self.0.permits).acquire_owned();
                tokio::time::timeout(ACQUIRE_TIMEOUT, waiting)
                    .await
                    .map_err(|_| StoreError::Unavailable {
                        reason: "no connection became free in time".to_owned(),
                        source: None,
                    })?
                    .map_err(|_| StoreError::Closed)?
            }
        };
        let idle = self.0.idle.lock().pop();
        let checked_out = match idle {
            Some(idle) => CheckedOut { open: idle.open, _permit: permit },
            None if self.0.is_simulated => CheckedOut { open: Open::new(&self.0.path)?, _permit: permit },
            None => {
                let path = self.0.path.clone();
                // The permit moves along: closing waits for files that are being opened as well.
                let open = move || Ok::<_, StoreError>(CheckedOut { open: Open::new(&path)?, _permit: permit });
                spawn_blocking(open).await.map_err(|_| StoreError::Closed)??
            }
        };
        Ok(Reader { readers: self.clone(), checked_out: Some(checked_out), is_snapshot: false, is_suspect: false })
    }

    /// Begins a transaction that sees one consistent state.
    pub(crate) async fn begin(&self) -> Result<Reader, StoreError> {
        let mut reader = self.acquire().await?;
        reader.checked_out()?.open.connection.execute_batch("BEGIN")?;
        reader.is_snapshot = true;
        Ok(reader)
    }

    pub(super) fn release_idle(&self) {
        // Closed after the lock is released.
        let idle = std::mem::take(&mut *self.0.idle.lock());
        drop(idle);
    }

    /// Waits for all readers and closes the pool.
    pub(super) async fn close(&self) {
        self.0.is_closed.store(true, Ordering::Release);
        // An error means that the pool is closed already.
        let all = self.0.permits.acquire_many(READERS).await;
        self.0.permits.close();
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

    fn return_idle(&self, checked_out: CheckedOut) {
        let now = Instant::now();
        let mut stale = Vec::new();
        {
            let mut idle = self.0.idle.lock();
            idle.push(Idle { open: checked_out.open, since: now });
            // The most recently used connection is reused first, so stale ones are at the front.
            let old = idle.iter().take_while(|idle| now.duration_since(idle.since) >= IDLE_TIMEOUT).count();
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
        // Never waits for a lock on the calling thread; blocking threads do that.
        connection.busy_timeout(Duration::ZERO)?;
        direct::enable_stable_plans(&connection)?;
        connection.set_prepared_statement_cache_capacity(STATEMENT_CACHE_CAPACITY);
        connection.execute_batch(SETTINGS)?;
        let limit = Arc::new(TimeLimit::new());
        let watched = Arc::clone(&limit);
        connection.progress_handler(STEPS_PER_TIME_CHECK, Some(move || watched.is_over()))?;
        // Loads the schema here, where no other task waits for the thread.
        direct::fetch(&connection, "SELECT 1 FROM sqlite_schema LIMIT 1", &[])?;
        Ok(Self { connection, limit, long_statements: HashMap::new(), spent: Duration::ZERO })
    }
}

impl Open {
    /// Runs a statement inline; returns `None` if it takes too long or another process holds a lock.
    fn try_run_inline<T>(&mut self, sql: &Sql, values: &[Value], run: Operation<T>) -> Option<Result<T, StoreError>> {
        let began = Instant::now();
        self.limit.begin();
        let answer = run(&self.connection, &sql.0, values);
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
        if self.long_statements.is_empty() {
            return false;
        }
        let key = hash(sql);
        let Some(times) = self.long_statements.get_mut(&key) else { return false };
        *times += 1;
        if *times < LONG_STATEMENT_RUNS {
            return true;
        }
        self.long_statements.remove(&key);
        false
    }

    fn note_long(&mut self, sql: &Sql) {
        if self.long_statements.len() >= MAX_LONG_STATEMENTS {
            self.long_statements.clear();
        }
        self.long_statements.insert(hash(sql), 0);
    }
}

fn hash(sql: &Sql) -> u64 {
    let mut hasher = DefaultHasher::new();
    sql.0.hash(&mut hasher);
    hasher.finish()
}

impl Reader {
    pub(crate) async fn fetch(&mut self, sql: Sql, args: Args) -> Result<Vec<Row>, StoreError> {
        self.run(sql, args, direct::fetch).await
    }

    pub(crate) async fn execute(&mut self, sql: Sql, args: Args) -> Result<u64, StoreError> {
        self.run(sql, args, direct::execute).await
    }

    pub(crate) fn script(&mut self, text: &str) -> Result<(), StoreError> {
        Ok(self.checked_out()?.open.connection.execute_batch(text)?)
    }

    fn checked_out(&mut self) -> Result<&mut CheckedOut, StoreError> {
        let checked_out = self.checked_out.as_mut().ok_or(StoreError::Closed)?;
        if self.is_snapshot && checked_out.open.connection.is_autocommit() {
            // SQLite rolled back after a failed read: further reads would see another state.
            return Err(StoreError::Closed);
        }
        Ok(checked_out)
    }

    async fn run<T: Send + 'static>(&mut self, sql: Sql, args: Args, run: Operation<T>) -> Result<T, StoreError> {
        let values = args.into_values()?;
        if self.readers.0.is_simulated {
            return run(&self.checked_out()?.open.connection, &sql.0, &values);
        }
        let is_slow = self.readers.is_slow();
        let open = &mut self.checked_out()?.open;
        if open.spent >= YIELD_AFTER {
            open.spent = Duration::ZERO;
            tokio::task::yield_now().await;
        }
        let open = &mut self.checked_out()?.open;
        let inline = if is_slow || open.is_long(&sql) { None } else { open.try_run_inline(&sql, &values, run) };
        if open.spent >= SLOW_THRESHOLD {
            *self.readers.0.slow_until.lock() = Some(Instant::now() + SLOW_PERIOD);
        }
        let answer = match inline {
            Some(answer) => answer,
            None => self.run_blocking(sql, values, run).await,
        };
        self.is_suspect |= answer.as_ref().is_err_and(StoreError::is_unavailable);
        answer
    }

    async fn run_blocking<T: Send + 'static>(
        &mut self,
        sql: Sql,
        values: Vec<Value>,
        run: Operation<T>,
    ) -> Result<T, StoreError> {
        let checked_out = self.checked_out.take().ok_or(StoreError::Closed)?;
        let mut awaited = InterruptOnDrop(Some(Arc::clone(&checked_out.open.limit)));
        let asked = spawn_blocking(move || {
            let connection = &checked_out.open.connection;
            let answer = connection
                .busy_timeout(direct::BUSY_TIMEOUT)
                .map_err(StoreError::from)
                .and_then(|()| run(connection, &sql.0, &values));
            let calm = connection.busy_timeout(Duration::ZERO);
            (checked_out, answer.and_then(|answer| calm.map(|()| answer).map_err(StoreError::from)))
        });
        let asked = asked.await;
        awaited.0 = None;
        let (checked_out, answer) = asked.map_err(|_| StoreError::Closed)?;
        self.checked_out = Some(checked_out);
        answer
    }

    /// Returns a stream of rows, read by a thread that waits while the receiver does not take them. A reader whose
    /// stream was not consumed completely cannot be used again.
    pub(crate) fn stream(
        &mut self,
        sql: Sql,
        args: Args,
    ) -> Result<BoxStream<'_, Result<Row, StoreError>>, StoreError> {
        let values = args.into_values()?;
        self.checked_out()?;
        let checked_out = self.checked_out.take().ok_or(StoreError::Closed)?;
        let awaited = InterruptOnDrop(Some(Arc::clone(&checked_out.open.limit)));
        let (sender, batches) = mpsc::channel(STREAM_BUFFER_BATCHES);
        let reading = spawn_blocking(move || {
            let mut batch = Batch::new(sender);
            let read = direct::each(&checked_out.open.connection, &sql.0, &values, |row| batch.push(row));
            batch.end(read);
            checked_out
        });
        let state = Streaming { reader: self, reading: Some(reading), batches, awaited };
        Ok(stream::unfold(state, Streaming::next).flat_map(stream::iter).boxed())
    }
}

struct Streaming<'r> {
    reader: &'r mut Reader,
    reading: Option<tokio::task::JoinHandle<CheckedOut>>,
    batches: mpsc::Receiver<Vec<Result<Row, StoreError>>>,
    awaited: InterruptOnDrop,
}

impl Streaming<'_> {
    async fn next(mut self) -> Option<(Vec<Result<Row, StoreError>>, Self)> {
        if let Some(batch) = self.batches.recv().await {
            self.reader.is_suspect |= batch.iter().any(Result::is_err);
            return Some((batch, self));
        }
        self.reader.checked_out = self.reading.take()?.await.ok();
        self.awaited.0 = None;
        match self.reader.checked_out {
            Some(_) => None,
            // The thread panicked, so the rows are incomplete.
            None => Some((vec![Err(StoreError::Closed)], self)),
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let Some(checked_out) = self.checked_out.take() else { return };
        checked_out.open.limit.end();
        let is_over = !self.is_snapshot || checked_out.open.connection.execute_batch("ROLLBACK").is_ok();
        if is_over && !self.is_suspect {
            self.readers.return_idle(checked_out);
        }
    }
}

/// Interrupts the read of another thread when the caller no longer waits for it.
struct InterruptOnDrop(Option<Arc<TimeLimit>>);

impl Drop for InterruptOnDrop {
    fn drop(&mut self) {
        if let Some(limit) = self.0.take() {
            limit.is_abandoned.store(true, Ordering::Relaxed);
        }
    }
}
