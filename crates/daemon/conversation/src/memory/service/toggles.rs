//! What a change of the settings sets off at once, and what it leaves alone.

use std::sync::{Arc, Weak};

use agentd_base::Timestamp;
use agentd_store::Tx;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{Inner, Memory};
use crate::memory::error::MemoryError;
use crate::memory::store::toggles::{self, Toggle};

impl Memory {
    /// Follows the settings until the daemon drains: what they say is done now, not when a worker looks next.
    pub(super) fn follow_settings(&self) {
        let (inner, settings) = (Arc::downgrade(&self.0), self.0.settings.clone());
        let draining = self.context().draining.clone();
        let work = move || follow(inner.clone(), settings.watch(), draining.clone());
        self.context().supervise("memory.settings", work);
    }

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

    async fn take_up_settings(&self) {
        if let Err(error) = self.storing_since().await {
            tracing::warn!(%error, "since when conversations are remembered is noted later");
        }
        *self.0.extract_again.lock() = None;
        for wake in [self.remember_wake(), self.consolidate_wake(), self.forget_wake(), self.extract_wake()] {
            wake.notify_one();
        }
    }
}

async fn follow(inner: Weak<Inner>, mut changes: watch::Receiver<u64>, draining: CancellationToken) {
    let rules = || inner.upgrade().map(|inner| Memory(inner).rules());
    let mut before = rules();
    loop {
        tokio::select! {
            () = draining.cancelled() => return,
            changed = changes.changed() => if changed.is_err() { return },
        }
        let now = rules();
        if now != before
            && let Some(inner) = inner.upgrade()
        {
            Memory(inner).take_up_settings().await;
        }
        before = now;
    }
}
