//! Which tab is meant where none is named.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::registry::Registry;
use crate::tab::Tab;

/// The tab of a context that was chosen, or else the one that was opened last.
#[derive(Debug, Clone)]
pub(crate) struct ActiveTab {
    context: Arc<str>,
    registry: Arc<Registry>,
    chosen: Arc<Mutex<Option<String>>>,
}

impl ActiveTab {
    pub(crate) fn new(context: Arc<str>, registry: Arc<Registry>) -> Self {
        Self { context, registry, chosen: Arc::default() }
    }

    pub(crate) fn choose(&self, tab: &Tab) {
        *self.chosen.lock() = Some(tab.id().to_owned());
        self.registry.changes.send_modify(|count| *count += 1);
    }

    pub(crate) fn get(&self) -> Option<Arc<Tab>> {
        let chosen = self.chosen.lock().clone();
        let chosen = chosen.and_then(|id| self.registry.tab(&id)).filter(|tab| tab.context == self.context);
        chosen.or_else(|| self.registry.tabs(&self.context).pop())
    }

    /// Of this and of everything else about tabs.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.registry.changes.subscribe()
    }
}
