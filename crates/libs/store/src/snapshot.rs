//! A value derived from the database, kept until one of its topics changes.
//!
//! A read that begins after a write was acknowledged sees that write: the writer bumps the topic
//! before it answers, and the value remembers the generations that it was loaded under, read before
//! the rows were. On SQLite an unchanged value costs an atomic compare and an `Arc` clone. On
//! PostgreSQL, where other replicas write too, it costs one small query for the topics' versions.
//! [`Snapshot::get_recent`] makes that query at most once in a while, for what anybody may ask.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use agentd_base::Timestamp;
use arc_swap::ArcSwapOption;
use tokio::sync::Mutex;

use crate::topic::{EVERYTHING, Signal, Topic};
use crate::{Args, Db, Read, StoreError};

struct Loaded<T> {
    /// What the value was loaded under: a generation or version a topic.
    versions: Box<[u64]>,
    value: Arc<T>,
}

/// What asking for the versions said, and when that was.
struct Asked {
    at: Timestamp,
    /// Of this process's topics, before it asked.
    generations: Box<[u64]>,
    outcome: Result<(), StoreError>,
}

/// A cached derived value.
pub struct Snapshot<T> {
    db: Db,
    topics: &'static [Topic],
    signals: Box<[Arc<Signal>]>,
    loaded: ArcSwapOption<Loaded<T>>,
    /// One load at a time: those who wait find its result.
    loading: Mutex<()>,
    asked: ArcSwapOption<Asked>,
    asking: Mutex<()>,
}

impl<T> fmt::Debug for Snapshot<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot").field("topics", &self.topics).finish_non_exhaustive()
    }
}

impl<T: Send + Sync + 'static> Snapshot<T> {
    /// A value that depends on what `topics` stand for. Every write that changes it must
    /// [`touch`](crate::Tx::touch) one of them.
    #[must_use]
    pub fn new(db: &Db, topics: &'static [Topic]) -> Self {
        let signals = topics.iter().map(|topic| db.shared().signals.signal(topic.name())).collect();
        Self {
            db: db.clone(),
            topics,
            signals,
            loaded: ArcSwapOption::empty(),
            loading: Mutex::new(()),
            asked: ArcSwapOption::empty(),
            asking: Mutex::new(()),
        }
    }

    /// The present value; `load` makes it anew when a topic has changed.
    ///
    /// # Errors
    /// What `load` answers, or what the database refuses.
    pub async fn get<E, L>(&self, load: L) -> Result<Arc<T>, E>
    where
        L: AsyncFn(&mut Read) -> Result<T, E>,
        E: From<StoreError>,
    {
        if self.db.is_exclusive() { self.get_local(load).await } else { self.get_shared(load).await }
    }

    /// The value as it was at most `age` ago. A change that this process made, or has heard of, is
    /// always in it. However many ask, the database is asked once in `age` and change; that it is away
    /// is remembered for as long.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub async fn get_recent<E, L>(&self, age: Duration, load: L) -> Result<Arc<T>, E>
    where
        L: AsyncFn(&mut Read) -> Result<T, E>,
        E: From<StoreError>,
    {
        if self.db.is_exclusive() {
            return self.get_local(load).await;
        }
        if let Some(known) = self.known_for(age) {
            return Ok(known?);
        }
        let _one_at_a_time = self.asking.lock().await;
        if let Some(known) = self.known_for(age) {
            return Ok(known?);
        }
        let generations = self.generations();
        let asked = async { self.versions(&mut self.db.read().await?).await }.await;
        // When it was asked is when the answer came: an outage is noticed after seconds.
        let note =
            |outcome| self.asked.store(Some(Arc::new(Asked { at: self.db.clock().now(), generations, outcome })));
        let value = match asked {
            Ok(versions) => match self.loaded_under(&versions) {
                Some(value) => value,
                None => self.get_shared(load).await?,
            },
            Err(error) => {
                note(Err(error.clone()));
                return Err(error.into());
            }
        };
        note(Ok(()));
        Ok(value)
    }

    /// What was found out within `age`, unless something has changed since.
    fn known_for(&self, age: Duration) -> Option<Result<Arc<T>, StoreError>> {
        let asked = self.asked.load();
        let asked = asked.as_ref()?;
        let now = self.db.clock().now();
        // A clock that was set back makes it old rather than eternal.
        let is_recent = asked.at <= now && now.since(asked.at) < age && asked.generations == self.generations();
        if !is_recent {
            return None;
        }
        match &asked.outcome {
            Ok(()) => self.last().map(Ok),
            Err(error) => Some(Err(error.clone())),
        }
    }

    fn generations(&self) -> Box<[u64]> {
        self.signals.iter().map(|signal| signal.generation()).collect()
    }

    /// The value that was loaded last, perhaps of before a change; nothing is waited for.
    #[must_use]
    pub fn last(&self) -> Option<Arc<T>> {
        self.loaded.load().as_ref().map(|loaded| Arc::clone(&loaded.value))
    }

    /// The present value where it is at hand: on SQLite, when it was loaded and nothing has changed since. What
    /// [`get`](Self::get) would answer, without a future.
    #[must_use]
    pub fn at_hand(&self) -> Option<Arc<T>> {
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
        let _one_at_a_time = self.loading.lock().await;
        if let Some(value) = self.current() {
            return Ok(value);
        }
        // Read before the rows: a change in between makes the value look older than it is.
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
        let _one_at_a_time = self.loading.lock().await;
        let mut read = self.db.read_snapshot().await?;
        // The same state that the rows are read from.
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

    /// One query for all topics. A topic's rows only ever grow, so their sum names one state.
    async fn versions(&self, read: &mut Read) -> Result<Box<[u64]>, StoreError> {
        let topics = || self.topics.iter().chain(std::iter::once(&EVERYTHING));
        let mut args = Args::with_capacity(self.topics.len() + 1);
        let places: Vec<String> = topics().map(|topic| format!("${}", args.push(topic.name()))).collect();
        let sql = format!(
            "SELECT name, SUM(version) AS version FROM topics WHERE name IN ({}) GROUP BY name",
            places.join(", ")
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
