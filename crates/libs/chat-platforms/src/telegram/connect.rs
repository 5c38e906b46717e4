//! Long polling as a connection.

use std::sync::Arc;

use super::Telegram;
use crate::connection::{Ended, Link};
use crate::outgoing::SendError;

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
}
