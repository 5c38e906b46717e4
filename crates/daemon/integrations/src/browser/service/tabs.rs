//! Tabs.

use agentd_browser::{Tab, TabInfo};
use agentd_engine::agents::AgentId;
use futures_util::future::join_all;

use super::{Browser, Session};
use crate::browser::error::BrowserError;
use crate::browser::model::{Actor, BrowserAction};

/// A tab, and who means it where no tab is named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedTab {
    pub info: TabInfo,
    /// Whoever asked does.
    pub is_active: bool,
    /// An agent does.
    pub agent: Option<AgentId>,
}

async fn listed(session: &Session, actor: &Actor, tab: &Tab) -> ListedTab {
    let is_active = session.active_tab_of(actor).is_some_and(|active| active.id() == tab.id());
    ListedTab { agent: session.agent_in(tab.id()), info: tab.info_now().await, is_active }
}

impl Browser {
    /// In the order of their opening; none without a session.
    pub async fn tabs(&self, actor: &Actor) -> Vec<ListedTab> {
        let Ok(session) = self.running() else { return Vec::new() };
        let context = session.context();
        let tabs: Vec<_> = context.tabs().iter().filter_map(|tab| context.tab(&tab.tab_id).ok()).collect();
        // Together: one that hangs is waited for.
        join_all(tabs.iter().map(|tab| listed(&session, actor, tab))).await
    }

    /// The address of a tab; without a tab, of the active one.
    pub async fn page_url(&self, tab_id: Option<&str>, actor: &Actor) -> Option<String> {
        let is_meant = |tab: &ListedTab| tab_id.map_or(tab.is_active, |wanted| tab.info.tab_id == wanted);
        self.tabs(actor).await.into_iter().find(is_meant).map(|tab| tab.info.url)
    }

    /// Opens a tab, which is the active one then. Where its page cannot be opened, there is no tab.
    ///
    /// # Errors
    /// There are too many tabs, or as going to `url`.
    pub async fn open_tab(&self, actor: &Actor, url: Option<String>) -> Result<ListedTab, BrowserError> {
        let session = self.session().await?;
        let before = session.active_tab_of(actor);
        let tab = session.open_tab(actor).await?;
        if let Some(url) = url
            && let Err(error) = self.act(actor, BrowserAction::goto(url, Some(tab.id().to_owned()))).await
        {
            put_back(&session, actor, &tab, before.as_deref()).await;
            return Err(error);
        }
        Ok(listed(&session, actor, &tab).await)
    }

    /// # Errors
    /// There is no such tab, or no browser.
    pub async fn close_tab(&self, tab_id: &str) -> Result<(), BrowserError> {
        Ok(self.running()?.context().close_tab(tab_id).await?)
    }

    /// Makes a tab the one that is meant where none is named.
    ///
    /// # Errors
    /// There is no such tab, or no browser.
    pub async fn activate_tab(&self, actor: &Actor, tab_id: &str) -> Result<ListedTab, BrowserError> {
        let session = self.running()?;
        let tab = session.context().tab(tab_id)?;
        session.activate(actor, &tab);
        Ok(listed(&session, actor, &tab).await)
    }
}

async fn put_back(session: &Session, actor: &Actor, tab: &Tab, before: Option<&Tab>) {
    if let Some(before) = before {
        session.activate(actor, before);
    }
    if let Err(error) = session.context().close_tab(tab.id()).await {
        tracing::debug!(%error, "a tab whose page could not be opened was not closed");
    }
}
