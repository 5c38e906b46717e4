//! Watching the active tab. Watching is no use of the browser: a page that somebody forgot to close keeps none.

use std::sync::Arc;

use agentd_browser::{Pace, Viewer};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio_util::sync::CancellationToken;

use super::Browser;
use crate::browser::error::BrowserError;

/// Clients of the stream at a time.
pub(super) const MOST: usize = 64;

/// One of those that may watch.
#[derive(Debug)]
pub struct ViewerPlace(#[allow(dead_code, reason = "it is given back when it is dropped")] OwnedSemaphorePermit);

impl Browser {
    /// # Errors
    /// As many watch as may.
    pub fn viewer_place(&self) -> Result<ViewerPlace, BrowserError> {
        let permit = Arc::clone(&self.0.viewers).try_acquire_owned();
        permit.map(ViewerPlace).map_err(|_| BrowserError::TooManyViewers { limit: MOST })
    }

    /// Who sees what the active tab shows; waits for a browser where there is none.
    pub async fn viewer(&self) -> Viewer {
        let mut starts = self.0.starts.subscribe();
        loop {
            if let Some(session) = self.live() {
                return session.context().watch(self.stream_pace());
            }
            // The sender is a part of this.
            let _ = starts.changed().await;
        }
    }

    /// As the settings have it now.
    #[must_use]
    pub fn stream_pace(&self) -> Pace {
        let settings = self.settings();
        let small = |number: u32| u8::try_from(number).unwrap_or(u8::MAX);
        Pace { frames_per_second: small(settings.stream_fps), quality: small(settings.stream_quality) }
    }

    pub(in crate::browser) fn settings_changes(&self) -> watch::Receiver<u64> {
        self.all_settings().watch()
    }

    pub(in crate::browser) fn draining(&self) -> &CancellationToken {
        &self.0.context.draining
    }
}
