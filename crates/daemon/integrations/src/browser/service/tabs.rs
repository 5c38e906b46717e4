//! Operations on tabs.

use agentd_browser::{Tab, TabInfo};
use agentd_engine::agents::AgentId;
use futures_util::future::join_all;

use super::{Browser, Session};
use crate::browser::error::BrowserError;
use crate::browser::model::{Actor, BrowserAction};

/// Tab with the actors that use it by default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedTab {
    pub info: TabInfo,
    /// Whether it is the active tab of the caller.
    pub is_active: bool,
    /// Agent whose active tab it is.
    pub agent: Option<AgentId>,
}

async fn listed(session: &Session, actor: &Actor, tab: &Tab) -> ListedTab {
    let is_active = session.active_tab_of(actor).is_some_and(|active| active.id() == tab.id());
    ListedTab { agent: session.agent_in(tab.id()), info: tab.refresh_info().await, is_active }
}

impl Browser {
    /// Returns all tabs in order of opening; none without a session.
    pub async fn tabs(&self, actor: &Actor) -> Vec<ListedTab> {
        let Ok(session) = self.running() else { return Vec::new() };
        let context = session.context();
        let tabs: Vec<_> = context.tabs().iter().filter_map(|tab| context.tab(&tab.tab_id).ok()).collect();
        // Concurrently, because a hanging tab delays its own result.
        join_all(tabs.iter().map(|tab| listed(&session, actor, tab))).await
    }

    /// Returns the URL of a tab, or of the active tab.
    pub async fn page_url(&self, tab_id: Option<&str>, actor: &Actor) -> Option<String> {
        let is_requested = |tab: &ListedTab| tab_id.map_or(tab.is_active, |wanted| tab.info.tab_id == wanted);
        self.tabs(actor).await.into_iter().find(is_requested).map(|tab| tab.info.url)
    }

    /// Opens and activates a tab. If its page cannot be opened, the tab is closed again.
    ///
    /// # Errors
    /// The limit of tabs is reached, or the navigation to `url` fails.
    pub async fn open_tab(&self, actor: &Actor, url: Option<String>) -> Result<ListedTab, BrowserError> {
        let session = self.session().await?;
        let before = session.active_tab_of(actor);
        let tab = session.open_tab(actor).await?;
        if let Some(url) = url
            && let Err(error) = self.act(actor, BrowserAction::goto(url, Some(tab.id().to_owned()))).await
        {
            undo_open(&session, actor, &tab, before.as_deref()).await;
            return Err(error);
        }
        Ok(listed(&session, actor, &tab).await)
    }

    /// Closes a tab.
    ///
    /// # Errors
    /// The tab does not exist, or no browser is running.
    pub async fn close_tab(&self, tab_id: &str) -> Result<(), BrowserError> {
        Ok(self.running()?.context().close_tab(tab_id).await?)
    }

    /// Makes a tab the active one of an actor.
    ///
    /// # Errors
    /// The tab does not exist, or no browser is running.
    pub async fn activate_tab(&self, actor: &Actor, tab_id: &str) -> Result<ListedTab, BrowserError> {
        let session = self.running()?;
        let tab = session.context().tab(tab_id)?;
        session.activate(actor, &tab);
        Ok(listed(&session, actor, &tab).await)
    }
}

async fn undo_open(session: &Session, actor: &Actor, tab: &Tab, before: Option<&Tab>) {
    if let Some(before) = before {
        session.activate(actor, before);
    }
    if let Err(error) = session.context().close_tab(tab.id()).await {
        tracing::debug!(%error, "failed to close tab after failed navigation");
    }
}
