//! Tabs counted in the order of their opening, as long as a recording or a replay runs.

use crate::TabInfo;
use crate::recording::model::PopupOf;

#[derive(Debug, Default)]
pub(super) struct Tabs {
    seen: Vec<Seen>,
    /// Tabs that were there at the start are nobody's popups.
    first: usize,
}

#[derive(Debug)]
struct Seen {
    id: String,
    opener: Option<String>,
}

impl Tabs {
    pub(super) fn new(present: Vec<TabInfo>) -> Self {
        let mut tabs = Self::default();
        tabs.look(present);
        tabs.first = tabs.seen.len();
        tabs
    }

    /// Takes note of those that are new.
    pub(super) fn look(&mut self, present: Vec<TabInfo>) {
        for tab in present {
            if !self.seen.iter().any(|seen| seen.id == tab.tab_id) {
                self.seen.push(Seen { id: tab.tab_id, opener: tab.opener_id });
            }
        }
    }

    pub(super) fn number(&self, id: &str) -> Option<u32> {
        self.seen.iter().position(|seen| seen.id == id).and_then(|at| u32::try_from(at).ok())
    }

    /// Whose popup a tab is.
    pub(super) fn popup(&self, id: &str) -> Option<PopupOf> {
        let opener = self.seen.iter().skip(self.first).find(|seen| seen.id == id)?.opener.as_deref()?;
        let index = self.popups_of(opener).position(|popup| popup == id)?;
        Some(PopupOf { opener: self.number(opener)?, index: u32::try_from(index).ok()? })
    }

    pub(super) fn popup_of(&self, opener: &str, index: u32) -> Option<&str> {
        self.popups_of(opener).nth(index as usize)
    }

    fn popups_of(&self, opener: &str) -> impl Iterator<Item = &str> {
        let news = self.seen.iter().skip(self.first);
        news.filter(move |seen| seen.opener.as_deref() == Some(opener)).map(|seen| seen.id.as_str())
    }
}
