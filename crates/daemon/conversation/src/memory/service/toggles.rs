//! Times since which memory is enabled. Messages from before are not remembered later.

use agentd_base::Timestamp;
use agentd_store::Tx;

use super::Memory;
use crate::memory::error::MemoryError;
use crate::memory::store::toggles::{self, Toggle};

impl Memory {
    /// Returns since when episodes are stored automatically; `None` if they are not. Earlier messages were sent while
    /// that was disabled and must not be stored.
    pub(super) async fn auto_store_since(&self) -> Result<Option<Timestamp>, MemoryError> {
        let rules = self.rules();
        let storing = self.toggle_since(Toggle::AutoStore, rules.enabled && rules.auto_store).await?;
        let remembering = self.enabled_since().await?;
        Ok(storing.zip(remembering).map(|(storing, remembering)| storing.max(remembering)))
    }

    /// Returns since when memory is enabled; `None` if it is not. No job processes messages from before memory was
    /// enabled or emptied.
    pub(super) async fn enabled_since(&self) -> Result<Option<Timestamp>, MemoryError> {
        self.toggle_since(Toggle::Enabled, self.rules().enabled).await
    }

    async fn toggle_since(&self, toggle: Toggle, is_on: bool) -> Result<Option<Timestamp>, MemoryError> {
        let (was_on, since) = toggles::find_state(&mut self.context().db.read().await?, toggle).await?;
        if was_on == is_on {
            return Ok(is_on.then_some(since));
        }
        let note = async move |tx: &mut Tx| {
            toggles::set_toggle(tx, toggle, is_on).await?;
            Ok::<_, MemoryError>(toggles::find_state(tx, toggle).await?.1)
        };
        let since = self.context().db.write(note).await?;
        Ok(is_on.then_some(since))
    }
}
