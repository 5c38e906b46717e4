//! When owners write.

use agentd_base::Timestamp;
use agentd_store::StoreError;

use super::Chat;
use crate::chat::store;

impl Chat {
    /// How many messages were written since then, by intervals of this length: the first instant of each in which
    /// there was one, and the count.
    ///
    /// # Errors
    /// The store's refusal.
    pub async fn count_written(
        &self,
        since: Timestamp,
        interval_micros: i64,
    ) -> Result<Vec<(Timestamp, u64)>, StoreError> {
        store::written::count_written(&mut self.0.context.db.read().await?, since, interval_micros).await
    }
}
