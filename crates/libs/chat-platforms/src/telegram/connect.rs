//! Long polling, presented as a connection.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::Telegram;
use super::api::{TIME_LIMIT, UPDATES};
use crate::connection::{Ended, Link};
use crate::message::Incoming;
use crate::outgoing::SendError;

/// Long-poll timeout.
const POLL_SECONDS: u64 = 25;
/// Maximum number of updates per poll, which keeps any response below the size limit.
const POLL_LIMIT: u64 = 10;

impl Telegram {
    /// Polls until a poll fails. The next poll starts after the previous updates are stored.
    pub(super) async fn run_polling(self: Arc<Self>, link: Link) -> Ended {
        match self.poll_until_error(link).await {
            Ok(never) => match never {},
            Err(error) => error.into(),
        }
    }

    async fn poll_until_error(&self, mut link: Link) -> Result<std::convert::Infallible, SendError> {
        // Polling fails while a webhook is set.
        self.delete_webhook().await?;
        let (mut offset, mut is_connected) = (0, false);
        loop {
            let (incoming, next) = self.poll(offset).await?;
            if !is_connected {
                link.connected().await;
                is_connected = true;
            }
            if !incoming.is_empty() {
                link.deliver(incoming).await;
                link.stored().await;
            }
            offset = next;
        }
    }

    /// Waits up to 25 seconds for updates from `offset` on (0: all unconfirmed ones). Returns them with the next
    /// offset. Polling with that offset confirms them, so store them first.
    ///
    /// # Errors
    /// See [`ChatPlatform::send`](crate::ChatPlatform::send); `Refused` while a webhook is registered.
    pub(super) async fn poll(&self, offset: i64) -> Result<(Vec<Incoming>, i64), SendError> {
        self.fetch_username().await;
        let body = json!({
            "offset": offset,
            "limit": POLL_LIMIT,
            "timeout": POLL_SECONDS,
            "allowed_updates": UPDATES,
        });
        let updates = self.call("getUpdates", &body, TIME_LIMIT + Duration::from_secs(POLL_SECONDS)).await?;
        let updates = updates.as_array().map(Vec::as_slice).unwrap_or_default();
        let last = updates.iter().filter_map(|update| update["update_id"].as_i64()).max();
        let next = last.map_or(offset, |last| offset.max(last.saturating_add(1)));
        Ok((updates.iter().flat_map(|update| self.read(update).incoming).collect(), next))
    }
}
