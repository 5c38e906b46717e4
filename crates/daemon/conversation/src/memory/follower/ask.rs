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
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        index: &Arc<Index>,
        ask: impl Fn(&Index) -> Result<T, IndexError> + Clone + Send + 'static,
    ) -> Result<T, MemoryError> {
        let (here, first) = (Arc::clone(index), ask.clone());
        match in_place(move || first(&here)).await {
            Err(MemoryError::Index(damage)) if damage.is_damage() => {
                self.repair(index, &damage).await?;
                let index = self.current().await?;
                in_place(move || ask(&index)).await
            }
            answer => answer,
        }
    }
}

/// Somebody waits for the answer, and it comes a millisecond or two after the question: waking another thread for
/// it, and this one again, would be a good part of that. The runtime has others go on with what else there is.
async fn in_place<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, IndexError> + Send + 'static,
) -> Result<T, MemoryError> {
    match Handle::current().runtime_flavor() {
        RuntimeFlavor::MultiThread => match tokio::task::block_in_place(|| catch_unwind(AssertUnwindSafe(work))) {
            Ok(outcome) => outcome.map_err(MemoryError::Index),
            Err(_) => {
                tracing::error!("a search panicked");
                Err(StoreError::Closed.into())
            }
        },
        _ => blocking(work).await,
    }
}
