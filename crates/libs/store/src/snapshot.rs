//! Value derived from the database, cached until one of its topics changes.
//!
//! A read that begins after an acknowledged write sees that write: the writer bumps the topic before it responds, and
//! the cached value stores the generations from before its rows were read. On SQLite an unchanged value costs an atomic
//! comparison and an `Arc` clone. On PostgreSQL, where other replicas write too, it costs one small query for the topic
//! versions. [`Snapshot::get_recent`] limits the rate of that query, for unauthenticated requests.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use agentd_base::Timestamp;
use arc_swap::ArcSwapOption;
use tokio::sync::Mutex;

use crate::topic::{EVERYTHING, Signal, Topic};
use crate::{Args, Db, Read, StoreError};

struct Loaded<T> {
    /// Generation (SQLite) or version (PostgreSQL) of each topic when the value was loaded.
    versions: Box<[u64]>,
    value: Arc<T>,
}

/// Result and time of a version query.
struct VersionCheck {
    at: Timestamp,
    /// Generations of the topics in this process before the query.
    generations: Box<[u64]>,
    outcome: Result<(), StoreError>,
}

/// Cached derived value.
pub struct Snapshot<T> {
    db: Db,
    topics: &'static [Topic],
    signals: Box<[Arc<Signal>]>,
    loaded: ArcSwapOption<Loaded<T>>,
    /// Allows one load at a time; waiting callers use its result.
    load_lock: Mutex<()>,
    checked: ArcSwapOption<VersionCheck>,
    check_lock: Mutex<()>,
}

impl<T> fmt::Debug for Snapshot<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot").field("topics", &self.topics).finish_non_exhaustive()
    }
}

impl<T: Send + Sync + 'static> Snapshot<T> {
    /// Creates a cached value that depends on `topics`. Every write that changes it must [`touch`](crate::Tx::touch)
    /// one of them.
    #[must_use]
    pub fn new(db: &Db, topics: &'static [Topic]) -> Self {
        let signals = topics.iter().map(|topic| db.shared().signals.signal(topic.name())).collect();
        Self {
            db: db.clone(),
            topics,
            signals,
            loaded: ArcSwapOption::empty(),
            load_lock: Mutex::new(()),
            checked: ArcSwapOption::empty(),
            check_lock: Mutex::new(()),
        }
    }

    /// Returns the current value; calls `load` if a topic has changed.
    ///
    /// # Errors
    /// Errors of `load` and of the database.
    pub async fn get<E, L>(&self, load: L) -> Result<Arc<T>, E>
    where
        L: AsyncFn(&mut Read) -> Result<T, E>,
        E: From<StoreError>,
    {
        if self.db.is_exclusive() { self.get_local(load).await } else { self.get_shared(load).await }
    }

    /// Returns a value that was current at most `age` ago. It includes every change that this process made or was
    /// notified of. The database is queried at most once per `age` and change; an outage is cached equally long.
    ///
    /// # Errors
    /// See [`get`](Self::get).
    pub async fn get_recent<E, L>(&self, age: Duration, load: L) -> Result<Arc<T>, E>
    where
        L: AsyncFn(&mut Read) -> Result<T, E>,
        E: From<StoreError>,
    {
        if self.db.is_exclusive() {
            return self.get_local(load).await;
        }
        if let Some(known) = self.checked_within(age) {
            return Ok(known?);
        }
        let _guard = self.check_lock.lock().await;
        if let Some(known) = self.checked_within(age) {
            return Ok(known?);
        }
        let generations = self.generations();
        let checked = async { self.versions(&mut self.db.read().await?).await }.await;
        // Stored with the time of the response: an outage is noticed only after seconds.
        let store_check = |outcome| {
            self.checked.store(Some(Arc::new(VersionCheck { at: self.db.clock().now(), generations, outcome })))
        };
        let value = match checked {
            Ok(versions) => match self.loaded_under(&versions) {
                Some(value) => value,
                None => self.get_shared(load).await?,
            },
            Err(error) => {
                store_check(Err(error.clone()));
                return Err(error.into());
            }
        };
        store_check(Ok(()));
        Ok(value)
    }

    /// Returns the result of a version query within `age`, unless a topic has changed since.
    fn checked_within(&self, age: Duration) -> Option<Result<Arc<T>, StoreError>> {
        let checked = self.checked.load();
        let checked = checked.as_ref()?;
        let now = self.db.clock().now();
        // A clock that was set back expires the result instead of keeping it forever.
        let is_recent = checked.at <= now && now.since(checked.at) < age && checked.generations == self.generations();
        if !is_recent {
            return None;
        }
        match &checked.outcome {
            Ok(()) => self.last().map(Ok),
            Err(error) => Some(Err(error.clone())),
        }
    }

    fn generations(&self) -> Box<[u64]> {
        self.signals.iter().map(|signal| signal.generation()).collect()
    }

    /// Returns the last loaded value without waiting; it may be outdated.
    #[must_use]
    pub fn last(&self) -> Option<Arc<T>> {
        self.loaded.load().as_ref().map(|loaded| Arc::clone(&loaded.value))
    }

    /// Returns the current value without waiting: on SQLite, if it is loaded and unchanged. Equals the result of
    /// [`get`](Self::get).
    #[must_use]
    pub fn try_get(&self) -> Option<Arc<T>> {
        if self.db.is_exclusive() { self.current() } else { None }
    }

    async fn get_local<E, L>(&self, load: L) -> Result<Arc<T>, E>
    where
        L: AsyncFn(&mut Read) -> Result<T, E>,
        E: From<StoreError>,
    {
        if let Some(value) = self.current() {
            return Ok(value);
        }
        let _guard = self.load_lock.lock().await;
        if let Some(value) = self.current() {
            return Ok(value);
        }
        // Read before the rows: a change in between only causes another load.
        let versions = self.generations();
        let mut read = self.db.read_snapshot().await?;
        let value = Arc::new(load(&mut read).await?);
        self.loaded.store(Some(Arc::new(Loaded { versions, value: Arc::clone(&value) })));
        Ok(value)
    }

    fn current(&self) -> Option<Arc<T>> {
        let loaded = self.loaded.load();
        let loaded = loaded.as_ref()?;
        let is_current =
            self.signals.iter().zip(&loaded.versions).all(|(signal, version)| signal.generation() == *version);
        is_current.then(|| Arc::clone(&loaded.value))
    }

    async fn get_shared<E, L>(&self, load: L) -> Result<Arc<T>, E>
    where
        L: AsyncFn(&mut Read) -> Result<T, E>,
        E: From<StoreError>,
    {
        let versions = self.versions(&mut self.db.read().await?).await?;
        if let Some(value) = self.loaded_under(&versions) {
            return Ok(value);
        }
        let _guard = self.load_lock.lock().await;
        let mut read = self.db.read_snapshot().await?;
        // Read in the same snapshot as the rows.
        let versions = self.versions(&mut read).await?;
        if let Some(value) = self.loaded_under(&versions) {
            return Ok(value);
        }
        let value = Arc::new(load(&mut read).await?);
        self.loaded.store(Some(Arc::new(Loaded { versions, value: Arc::clone(&value) })));
        Ok(value)
    }

    fn loaded_under(&self, versions: &[u64]) -> Option<Arc<T>> {
        let loaded = self.loaded.load();
        let loaded = loaded.as_ref()?;
        (*loaded.versions == *versions).then(|| Arc::clone(&loaded.value))
    }

    /// Queries the versions of all topics at once. Rows of a topic only increase, so their sum identifies one state.
    async fn versions(&self, read: &mut Read) -> Result<Box<[u64]>, StoreError> {
        let topics = || self.topics.iter().chain(std::iter::once(&EVERYTHING));
        let mut args = Args::with_capacity(self.topics.len() + 1);
        let placeholders: Vec<String> = topics().map(|topic| format!("${}", args.push(topic.name()))).collect();
        let sql = format!(
            "SELECT name, SUM(version) AS version FROM topics WHERE name IN ({}) GROUP BY name",
            placeholders.join(", ")
        );
        let rows = read.fetch_all(sql, args).await?;
        let mut versions = vec![0; self.topics.len() + 1];
        for row in rows {
            let name: String = row.get("name")?;
            if let Some(position) = topics().position(|topic| topic.name() == name) {
                versions[position] = row.get("version")?;
            }
        }
        Ok(versions.into())
    }
}
