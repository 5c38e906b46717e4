//! Opening the index, as it was left or anew.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use agentd_search_index::{Index, IndexError, IndexOptions, OpenState, Opened};
use agentd_store::Seq;

use super::{Cursor, Follower, Following, blocking};
use crate::memory::error::MemoryError;
use crate::memory::store::counts::count_episodes;
use crate::memory::store::vectors;

impl Follower {
    /// Opens the index and brings it as far as the rows are, as good as that goes without reading all of them.
    pub(super) async fn open(&self) -> Result<Following, MemoryError> {
        let inner = &self.0;
        let mut model = inner.embedding.model_id().await;
        if model.is_none() {
            // So that vectors stay comparable while no model is there.
            model = vectors::newest_model(&mut inner.context.db.read().await?).await?;
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
}

/// Maximum number of daemons that share a data directory, each with its own index.
const FOLDERS: usize = 64;
/// Attempts before a new folder is created. A daemon that is shutting down releases its folder within a second, which
/// is faster than building another index.
const ATTEMPTS: u32 = 100;
const PAUSE: Duration = Duration::from_millis(10);

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
