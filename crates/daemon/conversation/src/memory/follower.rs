//! Search index of this daemon, which follows the rows of episodes.
//!
//! The index is derived data. It is opened on first use and catches up from its cursor. It is rebuilt from the rows
//! when it is damaged, belongs to another database, or is older than the retained change log. Writers catch up before
//! they answer and readers catch up before they search, so an acknowledged episode is found on every replica.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use agentd_base::sha256;
use agentd_core::runtime::AppContext;
use agentd_search_index::{
    AgentKey, Change, Document, Index, IndexError, IndexOptions, OpenState, Opened, RowNumber, SourceKey,
};
use agentd_store::{Read, Seq, StoreError, Topic};
use serde::{Deserialize, Serialize};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Mutex;

use super::embedding::Embedding;
use super::error::MemoryError;
use super::store::EPISODES;
use super::store::counts::count_episodes;
use super::store::episodes::{self, IndexedRow};

/// Touched by every transaction that changes episodes.
pub(super) const MEMORY: Topic = Topic::new("memory");
/// Number of rows per read.
const BATCH_SIZE: u32 = 500;
/// Maximum number of daemons that share a data directory, each with its own index.
const MAX_FOLDERS: usize = 64;
/// Attempts before a new folder is created. A daemon that is shutting down releases its folder within a second, which
/// is faster than building another index.
const MAX_OPEN_ATTEMPTS: u32 = 100;
const RETRY_INTERVAL: Duration = Duration::from_millis(10);

/// Returns the key of an agent or a source in the index. Collisions are negligible for their small number.
fn hash_key(text: &str) -> u64 {
    let hash = sha256(text.as_bytes());
    // 0 means none.
    u64::from_le_bytes(hash.first_chunk().copied().unwrap_or_default()).max(1)
}

pub(super) fn agent_key(agent: &str) -> AgentKey {
    AgentKey(hash_key(agent))
}

pub(super) fn source_key(source: &str) -> SourceKey {
    SourceKey(hash_key(source))
}

pub(super) fn row_number(number: i64) -> RowNumber {
    RowNumber(u64::try_from(number).unwrap_or(0))
}

/// Position up to which the index has followed the change log; stored with the index.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Cursor {
    database_id: String,
    #[serde(rename = "place")]
    position: Seq,
}

struct IndexState {
    index: Arc<Index>,
    cursor: Cursor,
    /// Changes beyond the cursor that are applied already; they are not final yet.
    ahead: HashSet<Seq>,
    is_flushed: bool,
}

struct Inner {
    context: AppContext,
    embedding: Embedding,
    following: Mutex<Option<IndexState>>,
    /// Held while the index is written to disk or emptied.
    writing: Arc<Mutex<()>>,
    /// Generation of the topic that the index has processed; only used with SQLite.
    seen_generation: AtomicU64,
    opened: parking_lot::RwLock<Option<Arc<Index>>>,
}

/// Keeps the search index up to date with the database. Cheap to clone.
#[derive(Clone)]
pub(super) struct Follower(Arc<Inner>);

impl Follower {
    pub(super) fn new(context: AppContext, embedding: Embedding) -> Self {
        Self(Arc::new(Inner {
            context,
            embedding,
            following: Mutex::new(None),
            writing: Arc::default(),
            seen_generation: AtomicU64::new(u64::MAX),
            opened: parking_lot::RwLock::new(None),
        }))
    }

    /// Returns the index, up to date with every change that was acknowledged before the call.
    pub(super) async fn current(&self) -> Result<Arc<Index>, MemoryError> {
        let inner = &self.0;
        if inner.context.db.is_exclusive()
            && inner.seen_generation.load(Ordering::Acquire) == inner.context.db.generation(MEMORY)
            && let Some(index) = inner.opened.read().clone()
        {
            return Ok(index);
        }
        let mut following = inner.following.lock().await;
        // Read before the rows, so that later changes are processed again.
        let generation = inner.context.db.generation(MEMORY);
        if following.is_none() {
            *following = Some(self.open().await?);
        }
        let Some(state) = following.as_mut() else { return Err(StoreError::Closed.into()) };
        match self.follow(state).await {
            Ok(()) => {
                inner.seen_generation.store(generation, Ordering::Release);
                *inner.opened.write() = Some(Arc::clone(&state.index));
                Ok(Arc::clone(&state.index))
            }
            Err(error) => {
                if let MemoryError::Index(damage) = &error
                    && damage.is_damage()
                {
                    tracing::warn!(reason = %damage, "rebuilding memory search index from stored episodes");
                    self.build(state).await?;
                    return Ok(Arc::clone(&state.index));
                }
                Err(error)
            }
        }
    }

    /// Runs a query on the index. A damaged index is rebuilt and queried once more.
    pub(super) async fn query<T: Send>(
        &self,
        index: &Arc<Index>,
        query: impl Fn(&Index) -> Result<T, IndexError> + Send,
    ) -> Result<T, MemoryError> {
        match run_inline(|| query(index)) {
            Err(MemoryError::Index(damage)) if damage.is_damage() => {
                self.repair(index, &damage).await?;
                let index = self.current().await?;
                run_inline(|| query(&index))
            }
            answer => answer,
        }
    }

    /// Writes the index to disk if it changed. Does not block other work: changes followed meanwhile lie beyond the
    /// written cursor and are followed again after a start.
    pub(super) async fn flush(&self) -> Result<bool, MemoryError> {
        let (index, cursor, writing) = loop {
            let mut following = self.0.following.lock().await;
            let Some(state) = following.as_mut().filter(|state| !state.is_flushed) else { return Ok(false) };
            // Taken under the other lock: emptying the index holds this lock and waits for that one, so a half-built
            // index is never written with an old cursor.
            let Ok(writing) = Arc::clone(&self.0.writing).try_lock_owned() else {
                drop(following);
                drop(self.0.writing.lock().await);
                continue;
            };
            state.is_flushed = true;
            break (Arc::clone(&state.index), serde_json::to_vec(&state.cursor).unwrap_or_default(), writing);
        };
        let flushed = blocking(move || {
            let _writing = writing;
            while index.maintain()? {}
            index.flush(&cursor)
        })
        .await;
        if flushed.is_err()
            && let Some(state) = self.0.following.lock().await.as_mut()
        {
            state.is_flushed = false;
        }
        flushed.map(|()| true)
    }

    /// Prepares the index before the first search: opens it, verifies its files and computes what searches would
    /// compute lazily.
    pub(super) async fn warm(&self) -> Result<(), MemoryError> {
        let index = self.current().await?;
        let shared = Arc::clone(&index);
        match blocking(move || shared.warm()).await {
            Err(MemoryError::Index(damage)) if damage.is_damage() => self.repair(&index, &damage).await,
            outcome => outcome,
        }
    }

    /// Writes the index to disk and closes it.
    pub(super) async fn shut_down(&self) -> Result<(), MemoryError> {
        let flushed = self.flush().await;
        let mut following = self.0.following.lock().await;
        self.close(&mut following).await;
        flushed.map(|_| ())
    }

    /// Ensures that searches use vectors of `model`. The model may have been installed or replaced since the index was
    /// opened.
    pub(super) async fn ensure_model(&self, model: &str) -> Result<(), MemoryError> {
        let is_searched = self.0.opened.read().as_ref().is_none_or(|index| index.options().embedding_model == model);
        if is_searched { Ok(()) } else { self.check_model().await }
    }

    /// Reopens the index if the embedding model differs from the one of its vectors.
    pub(super) async fn check_model(&self) -> Result<(), MemoryError> {
        let Some(model) = self.0.embedding.model_id().await else { return Ok(()) };
        let mut following = self.0.following.lock().await;
        if following.as_ref().is_some_and(|state| state.index.options().embedding_model != model) {
            self.close(&mut following).await;
            *following = Some(self.open().await?);
        }
        Ok(())
    }

    /// Drops the index and waits until running searches have dropped it as well.
    async fn close(&self, following: &mut Option<IndexState>) {
        *self.0.opened.write() = None;
        self.0.seen_generation.store(u64::MAX, Ordering::Release);
        let Some(closed) = following.take() else { return };
        let index = Arc::downgrade(&closed.index);
        drop(closed);
        // A search takes milliseconds; a hanging one must not block the daemon.
        for _ in 0..1_000 {
            if index.strong_count() == 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        tracing::warn!("memory search index closed while a search still uses it");
    }

    /// Rebuilds a damaged index, unless another task has just done so.
    pub(super) async fn repair(&self, damaged: &Arc<Index>, reason: &IndexError) -> Result<(), MemoryError> {
        let mut following = self.0.following.lock().await;
        let Some(state) = following.as_mut().filter(|state| Arc::ptr_eq(&state.index, damaged)) else { return Ok(()) };
        let index = Arc::clone(&state.index);
        let verification = blocking(move || {
            index.invalidate_verification();
            index.warm()
        });
        if verification.await.is_ok() {
            return Ok(());
        }
        tracing::warn!(%reason, "rebuilding memory search index from stored episodes");
        self.build(state).await
    }

    /// Opens the index and restores its cursor, without reading all rows if possible.
    async fn open(&self) -> Result<IndexState, MemoryError> {
        let inner = &self.0;
        let mut model = inner.embedding.model_id().await;
        if model.is_none() {
            // Keeps stored vectors searchable while no model is installed.
            model = episodes::newest_model(&mut inner.context.db.read().await?).await?;
        }
        let options =
            IndexOptions { dimensions: inner.embedding.dimensions(), embedding_model: model.unwrap_or_default() };
        let folder = inner.context.data_dir.indexes();
        inner.context.data_dir.make_folder(&folder).map_err(|source| MemoryError::IndexFolder { source })?;
        let (index, opened) = blocking(move || open_unused_folder(&folder, &options, MAX_OPEN_ATTEMPTS)).await?;
        let database_id = inner.context.db.database_id().await?;
        let cursor = opened.cursor.as_deref().and_then(|cursor| serde_json::from_slice::<Cursor>(cursor).ok());
        let cursor = cursor.filter(|cursor| cursor.database_id == database_id);
        if let OpenState::Rebuilt { reason } = &opened.state {
            tracing::warn!(reason, "rebuilding memory search index from stored episodes");
        }
        let is_same_database = cursor.is_some();
        let mut following = IndexState {
            index: Arc::new(index),
            cursor: cursor.unwrap_or(Cursor { database_id, position: Seq::START }),
            ahead: HashSet::new(),
            is_flushed: true,
        };
        match opened.state {
            OpenState::CaughtUp if is_same_database => {}
            OpenState::VectorsDropped { previous_model } if is_same_database => {
                let model = &following.index.options().embedding_model;
                tracing::info!(previous_model, model, "embedding model of memory search index changed");
                self.apply_all(&following.index).await?;
                following.is_flushed = false;
            }
            state => {
                let remembered = count_episodes(&mut inner.context.db.read().await?, None).await?;
                match state {
                    // Logged above.
                    OpenState::Rebuilt { .. } => {}
                    // The usual case before the first episode.
                    OpenState::Fresh => tracing::info!(remembered, "building memory search index"),
                    _ if remembered > 0 => tracing::warn!(
                        reason = "it belongs to another database",
                        "rebuilding memory search index from stored episodes"
                    ),
                    _ => {}
                }
                self.build(&mut following).await?;
            }
        }
        Ok(following)
    }

    async fn follow(&self, state: &mut IndexState) -> Result<(), MemoryError> {
        let mut after = state.cursor.position;
        loop {
            let mut read = self.0.context.db.read().await?;
            let Some(page) = read.changes_after(EPISODES, after, BATCH_SIZE).await? else {
                drop(read);
                tracing::info!("memory search index is older than the change log; rebuilding");
                return self.build(state).await;
            };
            if page.database_id != state.cursor.database_id {
                drop(read);
                tracing::info!("database was restored; rebuilding memory search index");
                return self.build(state).await;
            }
            let new_changes: Vec<_> =
                page.changes.iter().filter(|change| !state.ahead.contains(&change.position)).collect();
            if new_changes.iter().any(|change| change.row.is_none()) {
                drop(read);
                return self.build(state).await;
            }
            let rows: BTreeSet<i64> = new_changes.iter().filter_map(|change| change.row).collect();
            if !rows.is_empty() {
                let rows: Vec<i64> = rows.into_iter().collect();
                let found = episodes::indexed_rows(&mut read, &rows).await?;
                self.apply(&mut read, &state.index, &rows, found).await?;
                state.is_flushed = false;
            }
            state.ahead.extend(new_changes.iter().map(|change| change.position));
            if page.position > state.cursor.position {
                state.cursor.position = page.position;
                // Otherwise changes that the index contains would be followed again after a start.
                state.is_flushed = false;
            }
            let position = state.cursor.position;
            state.ahead.retain(|ahead| *ahead > position);
            match page.more_after {
                Some(more) => after = more,
                None => return Ok(()),
            }
        }
    }

    /// Rebuilds the index from all rows.
    async fn build(&self, state: &mut IndexState) -> Result<(), MemoryError> {
        let index = Arc::clone(&state.index);
        let _writing = self.0.writing.lock().await;
        blocking(move || index.reset()).await?;
        // Read first, so that changes made meanwhile are followed again.
        let database_id = self.0.context.db.database_id().await?;
        let position = self.0.context.db.read().await?.last_change(EPISODES).await?;
        self.apply_all(&state.index).await?;
        state.cursor = Cursor { database_id, position };
        state.ahead.clear();
        state.is_flushed = false;
        Ok(())
    }

    async fn apply_all(&self, index: &Arc<Index>) -> Result<(), MemoryError> {
        let mut read = self.0.context.db.read().await?;
        let mut after = 0;
        loop {
            let found = episodes::indexed_rows_after(&mut read, after, BATCH_SIZE).await?;
            let Some(last) = found.last() else { return Ok(()) };
            after = last.number;
            self.apply(&mut read, index, &[], found).await?;
        }
    }

    /// Adds `found` to the index and removes those of `requested` that no longer exist.
    async fn apply(
        &self,
        read: &mut Read,
        index: &Arc<Index>,
        requested: &[i64],
        found: Vec<IndexedRow>,
    ) -> Result<(), MemoryError> {
        let model = &index.options().embedding_model;
        let embedded: Vec<i64> =
            found.iter().filter(|row| row.embedding_model.as_ref() == Some(model)).map(|row| row.number).collect();
        let mut vectors_by_row: BTreeMap<i64, Vec<Vec<f32>>> = BTreeMap::new();
        for (number, vector) in episodes::vectors_of(read, &embedded).await? {
            vectors_by_row.entry(number).or_default().push(vector);
        }
        let removed: Vec<i64> =
            requested.iter().copied().filter(|number| !found.iter().any(|row| row.number == *number)).collect();
        let index = Arc::clone(index);
        blocking(move || {
            let mut changes: Vec<Change<'_>> =
                removed.iter().map(|number| Change::Remove(row_number(*number))).collect();
            for row in &found {
                changes.push(Change::Add(Document {
                    row: row_number(row.number),
                    agent: row.agent_id.as_deref().map(agent_key).unwrap_or_default(),
                    source: source_key(&row.source),
                    occurred_at: row.occurred_at,
                    text: &row.content,
                    vectors: vectors_by_row.remove(&row.number).unwrap_or_default(),
                }));
            }
            index.apply(&changes)
        })
        .await
    }
}

/// Runs work on the index on a blocking thread.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, IndexError> + Send + 'static,
) -> Result<T, MemoryError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(outcome) => outcome.map_err(MemoryError::Index),
        Err(error) => {
            tracing::error!(%error, "search index task failed");
            Err(StoreError::Closed.into())
        }
    }
}

/// Runs a query on the current thread: it takes one or two milliseconds, and waking another thread would cost a large
/// part of that. A multi-threaded runtime moves its other tasks to other threads meanwhile.
fn run_inline<T>(work: impl FnOnce() -> Result<T, IndexError>) -> Result<T, MemoryError> {
    let run_caught = || catch_unwind(AssertUnwindSafe(work));
    let outcome = match Handle::current().runtime_flavor() {
        RuntimeFlavor::MultiThread => tokio::task::block_in_place(run_caught),
        _ => run_caught(),
    };
    match outcome {
        Ok(outcome) => outcome.map_err(MemoryError::Index),
        Err(_) => {
            tracing::error!("search panicked");
            Err(StoreError::Closed.into())
        }
    }
}

/// Opens the first folder that no other daemon uses. Only the last attempt creates a folder next to existing ones.
fn open_unused_folder(folder: &Path, options: &IndexOptions, attempts: u32) -> Result<(Index, Opened), IndexError> {
    let mut last = IndexError::Locked(folder.to_owned());
    for attempt in 1..=attempts {
        for number in 0..MAX_FOLDERS {
            let folder = folder.join(number.to_string());
            if number > 0 && attempt < attempts && !folder.exists() {
                break;
            }
            match Index::open(&folder, options.clone()) {
                Err(locked @ IndexError::Locked(_)) => last = locked,
                opened => return opened,
            }
        }
        std::thread::sleep(RETRY_INTERVAL);
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_waits_for_the_index_of_a_daemon_that_shuts_down() {
        let folder = tempfile::tempdir().unwrap();
        let options = IndexOptions { dimensions: 4, embedding_model: "model".to_owned() };
        let (ending, _) = open_unused_folder(folder.path(), &options, 1).unwrap();
        let opened = std::thread::scope(|scope| {
            let opening = scope.spawn(|| open_unused_folder(folder.path(), &options, u32::MAX).map(|(index, _)| index));
            std::thread::sleep(10 * RETRY_INTERVAL);
            drop(ending);
            opening.join().unwrap()
        });
        assert!(opened.is_ok() && !folder.path().join("1").exists());
        // A daemon that keeps running is not waited for.
        let another = open_unused_folder(folder.path(), &options, 2);
        assert!(another.is_ok() && folder.path().join("1").exists());
    }
}
