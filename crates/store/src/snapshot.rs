//! A value derived from the database, kept until one of its topics changes.
//!
//! A read that begins after a write was acknowledged sees that write: the writer bumps the topic
//! before it answers, and the value remembers the generations that it was loaded under, read before
//! the rows were. On SQLite an unchanged value costs an atomic compare and an `Arc` clone. On
//! PostgreSQL, where other replicas write too, it costs one small query for the topics' versions.

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use tokio::sync::Mutex;

use crate::topic::{EVERYTHING, Signal, Topic};
use crate::{Args, Db, Dialect, Read, StoreError};

struct Loaded<T> {
    /// What the value was loaded under: a generation or version a topic.
    versions: Box<[u64]>,
    value: Arc<T>,
}

/// A cached derived value.
pub struct Snapshot<T> {
    db: Db,
    topics: &'static [Topic],
    signals: Box<[Arc<Signal>]>,
    loaded: ArcSwapOption<Loaded<T>>,
    /// One load at a time: those who wait find its result.
    loading: Mutex<()>,
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
        Self { db: db.clone(), topics, signals, loaded: ArcSwapOption::empty(), loading: Mutex::new(()) }
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
        match self.db.dialect() {
            Dialect::Sqlite => self.get_local(load).await,
            Dialect::Postgres => self.get_shared(load).await,
        }
    }

    /// The value that was loaded last, perhaps of before a change; nothing is waited for.
    #[must_use]
    pub fn last(&self) -> Option<Arc<T>> {
        self.loaded.load().as_ref().map(|loaded| Arc::clone(&loaded.value))
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
        let versions = self.signals.iter().map(|signal| signal.generation()).collect();
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
