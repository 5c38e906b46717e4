//! Asking the index: whoever finds it damaged has it built anew.

use std::sync::Arc;

use agentd_search_index::{Index, IndexError};

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
        match blocking(move || first(&here)).await {
            Err(MemoryError::Index(damage)) if damage.is_damage() => {
                self.repair(index, &damage).await?;
                let index = self.current().await?;
                blocking(move || ask(&index)).await
            }
            answer => answer,
        }
    }
}
