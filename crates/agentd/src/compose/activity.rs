//! What the scheduler learns of when the owner writes.

use agentd_base::Timestamp;
use agentd_store::StoreError;
use futures_util::future::BoxFuture;

use crate::chat::Chat;
use crate::scheduler::{ACTIVITY_QUARTER_MICROS, Activity, ActivitySource};

/// Messages of conversations.
pub(super) struct WrittenMessages(pub(super) Chat);

impl ActivitySource for WrittenMessages {
    fn activity_since(&self, since: Timestamp) -> BoxFuture<'_, Result<Vec<Activity>, StoreError>> {
        Box::pin(async move {
            let written = self.0.count_written(since, ACTIVITY_QUARTER_MICROS).await?;
            Ok(written.into_iter().map(|(at, count)| Activity { at, count }).collect())
        })
    }
}
