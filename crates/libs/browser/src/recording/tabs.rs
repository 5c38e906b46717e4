//! Tab numbers of a recording or replay, in opening order.

use crate::TabInfo;
use crate::recording::model::PopupOf;

#[derive(Debug, Default)]
pub(super) struct Tabs {
    known: Vec<KnownTab>,
    /// Number of tabs at the start, which do not count as popups.
    first: usize,
}

#[derive(Debug)]
struct KnownTab {
    id: String,
    opener: Option<String>,
}

impl Tabs {
    pub(super) fn new(present: Vec<TabInfo>) -> Self {
        let mut tabs = Self::default();
        tabs.update(present);
        tabs.first = tabs.known.len();
        tabs
    }

    /// Adds new tabs.
    pub(super) fn update(&mut self, present: Vec<TabInfo>) {
        for tab in present {
            if !self.known.iter().any(|known| known.id == tab.tab_id) {
                self.known.push(KnownTab { id: tab.tab_id, opener: tab.opener_id });
            }
        }
    }

    pub(super) fn number(&self, id: &str) -> Option<u32> {
        self.known.iter().position(|known| known.id == id).and_then(|at| u32::try_from(at).ok())
    }

    /// Returns the opener of a popup.
    pub(super) fn popup(&self, id: &str) -> Option<PopupOf> {
        let opener = self.known.iter().skip(self.first).find(|known| known.id == id)?.opener.as_deref()?;
        let index = self.popups_of(opener).position(|popup| popup == id)?;
        Some(PopupOf { opener: self.number(opener)?, index: u32::try_from(index).ok()? })
    }

    pub(super) fn popup_of(&self, opener: &str, index: u32) -> Option<&str> {
        self.popups_of(opener).nth(index as usize)
    }

    fn popups_of(&self, opener: &str) -> impl Iterator<Item = &str> {
        let opened = self.known.iter().skip(self.first);
        opened.filter(move |known| known.opener.as_deref() == Some(opener)).map(|known| known.id.as_str())
    }
}
