//! Watching the active tab. Watching is no use of the browser: a page that somebody forgot to close keeps none.

use std::sync::Arc;

use agentd_browser::{Pace, Viewer};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::sync::CancellationToken;

use super::Browser;
use crate::browser::error::BrowserError;

/// Maximum number of concurrent stream clients.
const MAX_VIEWERS: usize = 64;
/// Maximum number of them with keys that may only read: a full credential always finds a free permit of the rest.
const MAX_READ_ONLY_VIEWERS: usize = 16;

/// Permits for stream clients.
#[derive(Debug)]
pub(super) struct ViewerPermits {
    all: Arc<Semaphore>,
    read_only: Arc<Semaphore>,
}

impl Default for ViewerPermits {
    fn default() -> Self {
        Self { all: Arc::new(Semaphore::new(MAX_VIEWERS)), read_only: Arc::new(Semaphore::new(MAX_READ_ONLY_VIEWERS)) }
    }
}

/// Permission to watch; returned when it is dropped.
#[derive(Debug)]
pub struct ViewerPermit(#[allow(dead_code, reason = "held until it is dropped")] Vec<OwnedSemaphorePermit>);

impl Browser {
    /// Acquires a viewer permit; clients that may only read share a part of them.
    ///
    /// # Errors
    /// `TooManyViewers` if none is free.
    pub fn viewer_permit(&self, is_read_only: bool) -> Result<ViewerPermit, BrowserError> {
        let acquire = |permits: &Arc<Semaphore>, limit| {
            Arc::clone(permits).try_acquire_owned().map_err(|_| BrowserError::TooManyViewers { limit })
        };
        let viewers = &self.0.viewers;
        let share = is_read_only.then(|| acquire(&viewers.read_only, MAX_READ_ONLY_VIEWERS)).transpose()?;
        let permit = acquire(&viewers.all, MAX_VIEWERS)?;
        Ok(ViewerPermit(share.into_iter().chain([permit]).collect()))
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

    pub(crate) fn settings_changes(&self) -> watch::Receiver<u64> {
        self.all_settings().watch()
    }

    pub(crate) fn draining(&self) -> &CancellationToken {
        &self.0.context.draining
    }
}
