//! Since when memory is on: what was said while it was off is not remembered later.

use agentd_base::Timestamp;
use agentd_store::Tx;

use super::Memory;
use crate::memory::error::MemoryError;
use crate::memory::store::toggles::{self, Toggle};

impl Memory {
    /// Since when what is said is remembered by itself; `None`: it is not. What was said before, while that was
    /// off, was not meant to be remembered.
    pub(super) async fn storing_since(&self) -> Result<Option<Timestamp>, MemoryError> {
        let rules = self.rules();
        let storing = self.on_since(Toggle::AutoStore, rules.enabled && rules.auto_store).await?;
        let remembering = self.remembering_since().await?;
        Ok(storing.zip(remembering).map(|(storing, remembering)| storing.max(remembering)))
    }

    /// Since when anything may be remembered; `None`: nothing is. What was said before, while memory was off or
    /// before it was emptied, is taken up by no job, whoever asks for it.
    pub(super) async fn remembering_since(&self) -> Result<Option<Timestamp>, MemoryError> {
        self.on_since(Toggle::Enabled, self.rules().enabled).await
    }

    async fn on_since(&self, toggle: Toggle, is_on: bool) -> Result<Option<Timestamp>, MemoryError> {
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
