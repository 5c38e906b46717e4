//! Joining the parts of an album, which platforms send as messages of their own, perhaps to several daemons.
//!
//! Invariants
//! - Each part is a row of its own until the first one takes the others over, in one transaction; no part is in two
//!   messages, whichever daemon joins them.
//! - A part that comes after that is a message of its own.
//! - An album of a group of which no part is meant for the agent is deleted.

use std::time::Duration;

use agentd_base::Timestamp;
use agentd_store::{StoreError, Tx};

use super::Channels;
use crate::channels::model::{ALBUM_PAUSE, ChannelMessage, MAX_ALBUM_WAIT};
use crate::channels::store;

/// The state of an album when its first part is to be answered.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Album {
    /// All parts as one message.
    Joined(Box<ChannelMessage>),
    /// Further parts may come within this time.
    Incomplete(Duration),
    /// It is not meant for the agent.
    Unaddressed,
}

impl Channels {
    /// Joins the parts that came, once no more are to be expected.
    ///
    /// # Errors
    /// The store's refusal.
    pub(crate) async fn join_album(&self, first: &ChannelMessage) -> Result<Album, StoreError> {
        let first = first.clone();
        let work = async move |tx: &mut Tx| {
            let parts = store::list_album(tx, &first).await?;
            if let Some(wait) = remaining_wait(&parts, tx.clock().now()) {
                return Ok(Album::Incomplete(wait));
            }
            let parts = take_over(tx, &first, parts).await?;
            let ids: Vec<_> = parts.iter().map(|part| part.id.clone()).collect();
            match ChannelMessage::joined(parts) {
                // Another daemon changed it meanwhile: what is left is found the next time.
                Some(joined) if !store::update_joined(tx, &joined).await? => Ok(Album::Incomplete(ALBUM_PAUSE)),
                Some(joined) => Ok(Album::Joined(Box::new(joined))),
                None => {
                    for id in ids {
                        store::delete_part(tx, &id).await?;
                    }
                    Ok::<_, StoreError>(Album::Unaddressed)
                }
            }
        };
        self.0.context.db.write(work).await
    }
}

/// The first part and those of the others that still wait. None are taken where none is meant for the agent.
async fn take_over(
    tx: &mut Tx,
    first: &ChannelMessage,
    parts: Vec<ChannelMessage>,
) -> Result<Vec<ChannelMessage>, StoreError> {
    if !parts.iter().any(|part| part.is_addressed) {
        return Ok(parts);
    }
    let mut taken = Vec::new();
    for part in parts {
        if part.id == first.id || store::complete_part(tx, &part.id).await? {
            taken.push(part);
        }
    }
    Ok(taken)
}

/// Time to wait for further parts.
fn remaining_wait(parts: &[ChannelMessage], now: Timestamp) -> Option<Duration> {
    let times = || parts.iter().map(|part| part.received_at);
    let complete_at = (times().max()? + ALBUM_PAUSE).min(times().min()? + MAX_ALBUM_WAIT);
    (now < complete_at).then(|| complete_at.since(now))
}
