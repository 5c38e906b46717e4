//! Active tab of a context, used when a request names no tab.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::registry::Registry;
use crate::tab::Tab;

/// Tab selected by the client, or else the most recently opened one.
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

    /// Notifies of a change of the active tab and of any other change to tabs.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.registry.changes.subscribe()
    }
}
