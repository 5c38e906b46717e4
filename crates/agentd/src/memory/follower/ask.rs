//! Asking the index: whoever finds it damaged has it built anew.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use agentd_search_index::{Index, IndexError};
use agentd_store::StoreError;
use tokio::runtime::{Handle, RuntimeFlavor};

use super::{Follower, blocking};
use crate::memory::error::MemoryError;

impl Follower {
    /// Asks the index; one that turns out to be damaged is built anew, and asked once more.
    pub(in crate::memory) async fn ask<T: Send + 'static>(
        &self,
        index: &Arc<Index>,
        ask: impl Fn(&Index) -> Result<T, IndexError> + Clone + Send + 'static,
    ) -> Result<T, MemoryError> {
        let (here, first) = (Arc::clone(index), ask.clone());
        let answer = in_place(move || first(&here)).await;
        self.once_more(index, answer, ask).await
    }

    /// The same for what takes so little that nobody else has to go on meanwhile: a look at a few words.
    pub(in crate::memory) async fn ask_briefly<T: Send + 'static>(
        &self,
        index: &Arc<Index>,
        ask: impl Fn(&Index) -> Result<T, IndexError> + Clone + Send + 'static,
    ) -> Result<T, MemoryError> {
        let answer = here(|| ask(index));
        self.once_more(index, answer, ask).await
    }

    async fn once_more<T: Send + 'static>(
        &self,
        index: &Arc<Index>,
        answer: Result<T, MemoryError>,
        ask: impl Fn(&Index) -> Result<T, IndexError> + Send + 'static,
    ) -> Result<T, MemoryError> {
        match answer {
            Err(MemoryError::Index(damage)) if damage.is_damage() => {
                self.repair(index, &damage).await?;
                let index = self.current().await?;
                in_place(move || ask(&index)).await
            }
            answer => answer,
        }
    }
}

fn here<T>(work: impl FnOnce() -> Result<T, IndexError>) -> Result<T, MemoryError> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(outcome) => outcome.map_err(MemoryError::Index),
        Err(_) => {
            tracing::error!("a search panicked");
            Err(StoreError::Closed.into())
        }
    }
}

/// Somebody waits for the answer, and it comes a millisecond or two after the question: waking another thread for
/// it, and this one again, would be a good part of that. The runtime has others go on with what else there is.
async fn in_place<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, IndexError> + Send + 'static,
) -> Result<T, MemoryError> {
    match Handle::current().runtime_flavor() {
        RuntimeFlavor::MultiThread => tokio::task::block_in_place(|| here(work)),
        _ => blocking(work).await,
    }
}
