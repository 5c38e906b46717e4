//! Long polling as a connection.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::Telegram;
use super::api::{TIME_LIMIT, UPDATES};
use crate::connection::{Ended, Link};
use crate::message::Incoming;
use crate::outgoing::SendError;

/// How long Telegram holds a poll open.
const POLL_SECONDS: u64 = 25;
/// So many updates stay below the most that is read of an answer, whatever is in them.
const POLL_LIMIT: u64 = 10;

impl Telegram {
    /// Polls until a poll fails. One that holds what is not stored yet is not followed by another.
    pub(super) async fn keep_polling(self: Arc<Self>, link: Link) -> Ended {
        match self.poll_on(link).await {
            Ok(never) => match never {},
            Err(error) => error.into(),
        }
    }

    async fn poll_on(&self, mut link: Link) -> Result<std::convert::Infallible, SendError> {
        // While one is set, nothing can be polled.
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

    /// Waits up to 25 seconds for updates from `offset` on (0: those not taken yet), and answers with what came and
    /// with the next offset. Asking with that one is what takes these: store them first.
    ///
    /// # Errors
    /// As [`ChatPlatform::send`](crate::ChatPlatform::send); `Refused` while a webhook is registered.
    pub(super) async fn poll(&self, offset: i64) -> Result<(Vec<Incoming>, i64), SendError> {
        self.learn_username().await;
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
