//! Status, screenshots and snapshots. Watching does not count as use of the browser.

use std::time::Duration;

use agentd_browser::{Area, ImageFormat, Pace, Snapshot, Viewer};
use agentd_page_text::ReadablePage;

use super::Browser;
use super::permits::ViewerPermit;
use crate::browser::error::BrowserError;
use crate::browser::model::Actor;

/// Status of the browser.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    pub running: bool,
    /// URL of the active tab.
    pub current_url: Option<String>,
    pub tabs: usize,
    pub uptime: Duration,
}

/// Options of a screenshot.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Picture {
    pub tab_id: Option<String>,
    pub format: ImageFormat,
    pub area: Area,
}

impl Browser {
    /// Returns the status without marking the session as used.
    #[must_use]
    pub fn status(&self) -> Status {
        match self.live() {
            Some(session) => Status {
                running: true,
                current_url: session.active_tab().map(|tab| tab.info().url),
                tabs: session.context().tabs().len(),
                uptime: self.now().since(session.started_at()),
            },
            None => Status { running: false, current_url: None, tabs: 0, uptime: Duration::ZERO },
        }
    }

    /// Takes a screenshot.
    ///
    /// # Errors
    /// No page is open, or the capture fails.
    pub async fn screenshot(&self, actor: &Actor, picture: &Picture) -> Result<Vec<u8>, BrowserError> {
        let tab = self.running()?.tab_of(actor, picture.tab_id.as_deref()).await?;
        Ok(tab.screenshot(picture.format, &picture.area).await?)
    }

    /// Returns a page as text with numbered interactive elements.
    ///
    /// # Errors
    /// No page is open, or it does not respond.
    pub async fn snapshot(&self, actor: &Actor, tab_id: Option<&str>, full: bool) -> Result<Snapshot, BrowserError> {
        let tab = self.running()?.tab_of(actor, tab_id).await?;
        Ok(tab.snapshot(full).await?)
    }

    /// Returns the readable text of a page.
    ///
    /// # Errors
    /// No page is open, or it does not respond.
    pub async fn readable_text(&self, actor: &Actor, tab_id: Option<&str>) -> Result<ReadablePage, BrowserError> {
        let tab = self.running()?.tab_of(actor, tab_id).await?;
        Ok(tab.readable_text().await?)
    }

    /// Acquires a viewer permit; read-only clients share a limited part of them.
    ///
    /// # Errors
    /// `TooManyViewers` if none is free.
    pub fn viewer_permit(&self, is_read_only: bool) -> Result<ViewerPermit, BrowserError> {
        self.0.permits.viewer(is_read_only)
    }

    /// Returns a viewer of the active tab; waits until a browser runs.
    pub async fn viewer(&self) -> Viewer {
        let mut starts = self.0.starts.subscribe();
        loop {
            if let Some(session) = self.live() {
                return session.context().watch(self.stream_pace());
            }
            // Cannot fail, because `self` owns the sender.
            let _ = starts.changed().await;
        }
    }

    /// Returns the pace according to the current settings.
    #[must_use]
    pub fn stream_pace(&self) -> Pace {
        let settings = self.settings();
        let small = |number: u32| u8::try_from(number).unwrap_or(u8::MAX);
        Pace { frames_per_second: small(settings.stream_fps), quality: small(settings.stream_quality) }
    }
}
