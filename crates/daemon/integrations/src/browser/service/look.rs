//! Looking at the browser and its pages.

use std::time::Duration;

use agentd_browser::{Area, ImageFormat, Snapshot};
use agentd_page_text::ReadablePage;

use super::Browser;
use crate::browser::error::BrowserError;
use crate::browser::model::Actor;

/// How the browser is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    pub running: bool,
    /// Of the active tab.
    pub current_url: Option<String>,
    pub tabs: usize,
    pub uptime: Duration,
}

/// What is to be drawn, and how.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Picture {
    pub tab_id: Option<String>,
    pub format: ImageFormat,
    pub area: Area,
}

impl Browser {
    /// Looking at it is no use of it.
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

    /// A picture of a page.
    ///
    /// # Errors
    /// No page is open, or it cannot be drawn.
    pub async fn screenshot(&self, actor: &Actor, picture: &Picture) -> Result<Vec<u8>, BrowserError> {
        let tab = self.running()?.tab_of(actor, picture.tab_id.as_deref()).await?;
        Ok(tab.screenshot(picture.format, &picture.area).await?)
    }

    /// A page as text, with a number for each element that something can be done with.
    ///
    /// # Errors
    /// No page is open, or it does not answer.
    pub async fn snapshot(&self, actor: &Actor, tab_id: Option<&str>, full: bool) -> Result<Snapshot, BrowserError> {
        let tab = self.running()?.tab_of(actor, tab_id).await?;
        Ok(tab.snapshot(full).await?)
    }

    /// What a person would read on a page.
    ///
    /// # Errors
    /// No page is open, or it does not answer.
    pub async fn readable_text(&self, actor: &Actor, tab_id: Option<&str>) -> Result<ReadablePage, BrowserError> {
        let tab = self.running()?.tab_of(actor, tab_id).await?;
        Ok(tab.readable_text().await?)
    }
}
