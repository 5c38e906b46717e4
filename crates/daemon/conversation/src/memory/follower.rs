//! The search index of this daemon, and how it follows the rows.
//!
//! The index is derived: it is opened at the first use, catches up from where it stood, and is built
//! anew from the rows when it is damaged, belongs to another database, or has slept for longer than
//! changes are kept. Whoever writes catches up before it answers, and whoever searches before it looks:
//! what was acknowledged anywhere is found everywhere.

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

/// Touched by whatever changes episodes.
pub(super) const MEMORY: Topic = Topic::new("memory");
/// Rows that are read at once.
const BATCH: u32 = 500;
/// Maximum number of daemons that share a data directory, each with its own index.
const FOLDERS: usize = 64;
/// Attempts before a new folder is created. A daemon that is shutting down releases its folder within a second, which
/// is faster than building another index.
const ATTEMPTS: u32 = 100;
const PAUSE: Duration = Duration::from_millis(10);

/// The key of an agent or source in the index: as good as unique among the few there are.
fn key(text: &str) -> u64 {
    let hash = sha256(text.as_bytes());
    // 0 stands for none.
    u64::from_le_bytes(hash.first_chunk().copied().unwrap_or_default()).max(1)
}

pub(super) fn agent_key(agent: &str) -> AgentKey {
    AgentKey(key(agent))
}

pub(super) fn source_key(source: &str) -> SourceKey {
    SourceKey(key(source))
}

pub(super) fn row_number(number: i64) -> RowNumber {
    RowNumber(u64::try_from(number).unwrap_or(0))
}

/// How far the index has followed; kept with it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Cursor {
    database_id: String,
    place: Seq,
}

struct Following {
    index: Arc<Index>,
    cursor: Cursor,
    /// What lies behind the cursor and is in the index already, because nothing is final there yet.
    ahead: HashSet<Seq>,
    is_flushed: bool,
}

struct Inner {
    context: AppContext,
    embedding: Embedding,
    following: Mutex<Option<Following>>,
    /// Held by who writes the index to disk, and by who empties it.
    writing: Arc<Mutex<()>>,
    /// The topic's generation that the index has seen; only SQLite can go by it.
    seen: AtomicU64,
    opened: parking_lot::RwLock<Option<Arc<Index>>>,
}

/// Cheap to clone.
#[derive(Clone)]
pub(super) struct Follower(Arc<Inner>);

impl Follower {
    pub(super) fn new(context: AppContext, embedding: Embedding) -> Self {
        Self(Arc::new(Inner {
            context,
            embedding,
            following: Mutex::new(None),
            writing: Arc::default(),
            seen: AtomicU64::new(u64::MAX),
            opened: parking_lot::RwLock::new(None),
        }))
    }

    /// The index with everything that was acknowledged before this was asked.
    pub(super) async fn current(&self) -> Result<Arc<Index>, MemoryError> {
        let inner = &self.0;
        if inner.context.db.is_exclusive()
            && inner.seen.load(Ordering::Acquire) == inner.context.db.generation(MEMORY)
            && let Some(index) = inner.opened.read().clone()
        {
            return Ok(index);
        }
        let mut following = inner.following.lock().await;
        // Before the rows are read: what comes later is looked at again.
        let generation = inner.context.db.generation(MEMORY);
        if following.is_none() {
            *following = Some(self.open().await?);
        }
        let Some(here) = following.as_mut() else { return Err(StoreError::Closed.into()) };
        match self.follow(here).await {
            Ok(()) => {
                inner.seen.store(generation, Ordering::Release);
                *inner.opened.write() = Some(Arc::clone(&here.index));
                Ok(Arc::clone(&here.index))
            }
            Err(error) => {
                if let MemoryError::Index(damage) = &error
                    && damage.is_damage()
                {
                    tracing::warn!(reason = %damage, "the search index of memory is built anew from the stored episodes");
                    self.build(here).await?;
                    return Ok(Arc::clone(&here.index));
                }
                Err(error)
            }
        }
    }

    /// Asks the index. One that turns out to be damaged is rebuilt and asked once more.
    pub(super) async fn ask<T: Send>(
        &self,
        index: &Arc<Index>,
        ask: impl Fn(&Index) -> Result<T, IndexError> + Send,
    ) -> Result<T, MemoryError> {
        match in_place(|| ask(index)) {
            Err(MemoryError::Index(damage)) if damage.is_damage() => {
                self.repair(index, &damage).await?;
                let index = self.current().await?;
                in_place(|| ask(&index))
            }
            answer => answer,
        }
    }

    /// Writes the index to disk, when something changed and somebody uses it. Nobody waits for it: what is
    /// followed meanwhile lies behind the cursor that is written, and is followed once more after a start.
    pub(super) async fn flush(&self) -> Result<bool, MemoryError> {
        let (index, cursor, writing) = loop {
            let mut following = self.0.following.lock().await;
            let Some(here) = following.as_mut().filter(|here| !here.is_flushed) else { return Ok(false) };
            // Taken under the other lock: who empties the index holds that one and waits for this one, so that
            // half an index is never written with a cursor of before.
            let Ok(writing) = Arc::clone(&self.0.writing).try_lock_owned() else {
                drop(following);
                drop(self.0.writing.lock().await);
                continue;
            };
            here.is_flushed = true;
            break (Arc::clone(&here.index), serde_json::to_vec(&here.cursor).unwrap_or_default(), writing);
        };
        let flushed = blocking(move || {
            let _writing = writing;
            while index.maintain()? {}
            index.flush(&cursor)
        })
        .await;
        if flushed.is_err()
            && let Some(here) = self.0.following.lock().await.as_mut()
        {
            here.is_flushed = false;
        }
        flushed.map(|()| true)
    }

    /// Makes the index ready before the first search comes: opens it, verifies its files and computes what
    /// searches would compute one by one.
    pub(super) async fn warm(&self) -> Result<(), MemoryError> {
        let index = self.current().await?;
        let here = Arc::clone(&index);
        match blocking(move || here.warm()).await {
            Err(MemoryError::Index(damage)) if damage.is_damage() => self.repair(&index, &damage).await,
            outcome => outcome,
        }
    }

    /// Writes the index to disk and lets go of it.
    pub(super) async fn shut_down(&self) -> Result<(), MemoryError> {
        let flushed = self.flush().await;
        let mut following = self.0.following.lock().await;
        self.close(&mut following).await;
        flushed.map(|_| ())
    }

    /// Makes sure that vectors of `model` are searched, before somebody is told that they are: the model may
    /// have come, or become another one, since the index was opened.
    pub(super) async fn expect_model(&self, model: &str) -> Result<(), MemoryError> {
        let is_searched = self.0.opened.read().as_ref().is_none_or(|index| index.options().embedding_model == model);
        if is_searched { Ok(()) } else { self.check_model().await }
    }

    /// Opens the index anew when another embedding model is there than the one whose vectors it holds.
    pub(super) async fn check_model(&self) -> Result<(), MemoryError> {
        let Some(model) = self.0.embedding.model_id().await else { return Ok(()) };
        let mut following = self.0.following.lock().await;
        if following.as_ref().is_some_and(|here| here.index.options().embedding_model != model) {
            self.close(&mut following).await;
            *following = Some(self.open().await?);
        }
        Ok(())
    }

    /// Lets go of the index, and waits until searches that are under way have done so as well.
    async fn close(&self, following: &mut Option<Following>) {
        *self.0.opened.write() = None;
        self.0.seen.store(u64::MAX, Ordering::Release);
        let Some(closed) = following.take() else { return };
        let index = Arc::downgrade(&closed.index);
        drop(closed);
        // A search takes milliseconds; one that hangs does not keep the daemon.
        for _ in 0..1_000 {
            if index.strong_count() == 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        tracing::warn!("a search still uses the index of memory while that is closed");
    }

    /// Builds a damaged index anew, unless somebody else has just done so.
    pub(super) async fn repair(&self, damaged: &Arc<Index>, reason: &IndexError) -> Result<(), MemoryError> {
        let mut following = self.0.following.lock().await;
        let Some(here) = following.as_mut().filter(|here| Arc::ptr_eq(&here.index, damaged)) else { return Ok(()) };
        let index = Arc::clone(&here.index);
        let looked_at = blocking(move || {
            index.distrust();
            index.warm()
        });
        if looked_at.await.is_ok() {
            return Ok(());
        }
        tracing::warn!(%reason, "the search index of memory is built anew from the stored episodes");
        self.build(here).await
    }

    /// Opens the index and brings it as far as the rows are, as good as that goes without reading all of them.
    async fn open(&self) -> Result<Following, MemoryError> {
        let inner = &self.0;
        let mut model = inner.embedding.model_id().await;
        if model.is_none() {
            // So that vectors stay comparable while no model is there.
            model = episodes::newest_model(&mut inner.context.db.read().await?).await?;
        }
        let options =
            IndexOptions { dimensions: inner.embedding.dimensions(), embedding_model: model.unwrap_or_default() };
        let folder = inner.context.data_dir.indexes();
        inner.context.data_dir.make_folder(&folder).map_err(|source| MemoryError::IndexFolder { source })?;
        let (index, opened) = blocking(move || open_free(&folder, &options, ATTEMPTS)).await?;
        let database_id = inner.context.db.database_id().await?;
        let cursor = opened.cursor.as_deref().and_then(|cursor| serde_json::from_slice::<Cursor>(cursor).ok());
        let cursor = cursor.filter(|cursor| cursor.database_id == database_id);
        if let OpenState::Rebuilt { reason } = &opened.state {
            tracing::warn!(reason, "the search index of memory is built anew from the stored episodes");
        }
        let is_ours = cursor.is_some();
        let mut following = Following {
            index: Arc::new(index),
            cursor: cursor.unwrap_or(Cursor { database_id, place: Seq::START }),
            ahead: HashSet::new(),
            is_flushed: true,
        };
        match opened.state {
            OpenState::CaughtUp if is_ours => {}
            OpenState::VectorsDropped { previous_model } if is_ours => {
                let model = &following.index.options().embedding_model;
                tracing::info!(previous_model, model, "memory is searched by the vectors of another model from now on");
                self.apply_all(&following.index).await?;
                following.is_flushed = false;
            }
            state => {
                let remembered = count_episodes(&mut inner.context.db.read().await?, None).await?;
                match state {
                    // Damage was told above.
                    OpenState::Rebuilt { .. } => {}
                    // As it is when the first episode comes.
                    OpenState::Fresh => tracing::info!(remembered, "the search index of memory is built"),
                    _ if remembered > 0 => tracing::warn!(
                        reason = "it belongs to another database",
                        "the search index of memory is built anew from the stored episodes"
                    ),
                    _ => {}
                }
                self.build(&mut following).await?;
            }
        }
        Ok(following)
    }

    async fn follow(&self, here: &mut Following) -> Result<(), MemoryError> {
        let mut after = here.cursor.place;
        loop {
            let mut read = self.0.context.db.read().await?;
            let Some(page) = read.changes_after(EPISODES, after, BATCH).await? else {
                drop(read);
                tracing::info!("the search index of memory has slept for too long and is built anew");
                return self.build(here).await;
            };
            if page.database_id != here.cursor.database_id {
                drop(read);
                tracing::info!("the database was restored; the search index of memory is built anew");
                return self.build(here).await;
            }
            let fresh: Vec<_> = page.changes.iter().filter(|change| !here.ahead.contains(&change.place)).collect();
            if fresh.iter().any(|change| change.row.is_none()) {
                drop(read);
                return self.build(here).await;
            }
            let rows: BTreeSet<i64> = fresh.iter().filter_map(|change| change.row).collect();
            if !rows.is_empty() {
                let rows: Vec<i64> = rows.into_iter().collect();
                let found = episodes::indexed_rows(&mut read, &rows).await?;
                self.apply(&mut read, &here.index, &rows, found).await?;
                here.is_flushed = false;
            }
            here.ahead.extend(fresh.iter().map(|change| change.place));
            if page.place > here.cursor.place {
                here.cursor.place = page.place;
                // Otherwise what is in the index already would be followed once more after a start.
                here.is_flushed = false;
            }
            let place = here.cursor.place;
            here.ahead.retain(|ahead| *ahead > place);
            match page.more_after {
                Some(more) => after = more,
                None => return Ok(()),
            }
        }
    }

    /// Everything from the rows, into an empty index.
    async fn build(&self, here: &mut Following) -> Result<(), MemoryError> {
        let index = Arc::clone(&here.index);
        let _writing = self.0.writing.lock().await;
        blocking(move || index.reset()).await?;
        // First, so that what changes meanwhile is looked at again.
        let database_id = self.0.context.db.database_id().await?;
        let place = self.0.context.db.read().await?.last_change(EPISODES).await?;
        self.apply_all(&here.index).await?;
        here.cursor = Cursor { database_id, place };
        here.ahead.clear();
        here.is_flushed = false;
        Ok(())
    }

    async fn apply_all(&self, index: &Arc<Index>) -> Result<(), MemoryError> {
        let mut read = self.0.context.db.read().await?;
        let mut after = 0;
        loop {
            let found = episodes::indexed_rows_after(&mut read, after, BATCH).await?;
            let Some(last) = found.last() else { return Ok(()) };
            after = last.number;
            self.apply(&mut read, index, &[], found).await?;
        }
    }

    /// Puts `found` into the index, and takes out those of `asked` that are not found any more.
    async fn apply(
        &self,
        read: &mut Read,
        index: &Arc<Index>,
        asked: &[i64],
        found: Vec<IndexedRow>,
    ) -> Result<(), MemoryError> {
        let model = &index.options().embedding_model;
        let embedded: Vec<i64> =
            found.iter().filter(|row| row.embedding_model.as_ref() == Some(model)).map(|row| row.number).collect();
        let mut of_row: BTreeMap<i64, Vec<Vec<f32>>> = BTreeMap::new();
        for (number, vector) in episodes::vectors_of(read, &embedded).await? {
            of_row.entry(number).or_default().push(vector);
        }
        let gone: Vec<i64> =
            asked.iter().copied().filter(|number| !found.iter().any(|row| row.number == *number)).collect();
        let index = Arc::clone(index);
        blocking(move || {
            let mut changes: Vec<Change<'_>> = gone.iter().map(|number| Change::Remove(row_number(*number))).collect();
            for row in &found {
                changes.push(Change::Add(Document {
                    row: row_number(row.number),
                    agent: row.agent_id.as_deref().map(agent_key).unwrap_or_default(),
                    source: source_key(&row.source),
                    occurred_at: row.occurred_at,
                    text: &row.content,
                    vectors: of_row.remove(&row.number).unwrap_or_default(),
                }));
            }
            index.apply(&changes)
        })
        .await
    }
}

/// Work that takes a thread for a while.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, IndexError> + Send + 'static,
) -> Result<T, MemoryError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(outcome) => outcome.map_err(MemoryError::Index),
        Err(error) => {
            tracing::error!(%error, "work on the search index went wrong");
            Err(StoreError::Closed.into())
        }
    }
}

/// Runs a question to the index on this thread: it takes a millisecond or two, and waking another thread for it would
/// take a good part of that. The runtime moves its other tasks elsewhere meanwhile, where it has several threads.
fn in_place<T>(work: impl FnOnce() -> Result<T, IndexError>) -> Result<T, MemoryError> {
    let caught = || catch_unwind(AssertUnwindSafe(work));
    let outcome = match Handle::current().runtime_flavor() {
        RuntimeFlavor::MultiThread => tokio::task::block_in_place(caught),
        _ => caught(),
    };
    match outcome {
        Ok(outcome) => outcome.map_err(MemoryError::Index),
        Err(_) => {
            tracing::error!("a search panicked");
            Err(StoreError::Closed.into())
        }
    }
}

/// Opens the first folder that no other daemon uses. Only the last attempt creates a folder beside existing ones.
fn open_free(folder: &Path, options: &IndexOptions, attempts: u32) -> Result<(Index, Opened), IndexError> {
    let mut last = IndexError::Locked(folder.to_owned());
    for attempt in 1..=attempts {
        for number in 0..FOLDERS {
            let folder = folder.join(number.to_string());
            if number > 0 && attempt < attempts && !folder.exists() {
                break;
            }
            match Index::open(&folder, options.clone()) {
                Err(locked @ IndexError::Locked(_)) => last = locked,
                opened => return opened,
            }
        }
        std::thread::sleep(PAUSE);
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_of_a_daemon_that_is_ending_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let options = IndexOptions { dimensions: 4, embedding_model: "model".to_owned() };
        let (ending, _) = open_free(folder.path(), &options, 1).unwrap();
        let opened = std::thread::scope(|scope| {
            let opening = scope.spawn(|| open_free(folder.path(), &options, u32::MAX).map(|(index, _)| index));
            std::thread::sleep(10 * PAUSE);
            drop(ending);
            opening.join().unwrap()
        });
        assert!(opened.is_ok() && !folder.path().join("1").exists());
        // A daemon that keeps running is not waited for.
        let another = open_free(folder.path(), &options, 2);
        assert!(another.is_ok() && folder.path().join("1").exists());
    }
}
