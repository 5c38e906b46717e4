//! Permits for expensive operations: stream clients and videos.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::browser::error::BrowserError;

/// Maximum number of concurrent stream clients.
const MAX_VIEWERS: usize = 64;
/// Maximum number of concurrent read-only stream clients; the remaining permits are reserved for full credentials.
const MAX_READ_ONLY_VIEWERS: usize = 16;
/// Maximum number of concurrent videos; each uses up to half a core.
const MAX_VIDEOS: usize = 1;

#[derive(Debug)]
pub(super) struct Permits {
    viewers: Arc<Semaphore>,
    read_only_viewers: Arc<Semaphore>,
    videos: Arc<Semaphore>,
}

impl Default for Permits {
    fn default() -> Self {
        let permits = |count| Arc::new(Semaphore::new(count));
        Self {
            viewers: permits(MAX_VIEWERS),
            read_only_viewers: permits(MAX_READ_ONLY_VIEWERS),
            videos: permits(MAX_VIDEOS),
        }
    }
}

/// Permit to watch; returned on drop.
#[derive(Debug)]
pub struct ViewerPermit(#[allow(dead_code, reason = "held until it is dropped")] Vec<OwnedSemaphorePermit>);

impl Permits {
    /// Acquires a viewer permit; read-only clients share a limited part of them.
    ///
    /// # Errors
    /// `TooManyViewers` if none is free.
    pub(super) fn viewer(&self, is_read_only: bool) -> Result<ViewerPermit, BrowserError> {
        let acquire = |permits: &Arc<Semaphore>, limit| {
            Arc::clone(permits).try_acquire_owned().map_err(|_| BrowserError::TooManyViewers { limit })
        };
        let share = is_read_only.then(|| acquire(&self.read_only_viewers, MAX_READ_ONLY_VIEWERS)).transpose()?;
        let permit = acquire(&self.viewers, MAX_VIEWERS)?;
        Ok(ViewerPermit(share.into_iter().chain([permit]).collect()))
    }

    /// Acquires the permit for encoding a video.
    ///
    /// # Errors
    /// `VideoInProgress` if none is free.
    pub(super) fn video(&self) -> Result<OwnedSemaphorePermit, BrowserError> {
        Arc::clone(&self.videos).try_acquire_owned().map_err(|_| BrowserError::VideoInProgress)
    }
}
