//! Urls with credentials in them that rows of an older program hold in the clear.

use crate::hooks::Hooks;
use crate::lifecycle::StartError;
use crate::notify::Notify;
use crate::scheduler::Scheduler;
use crate::skills::SkillsRoutes;

/// Every domain that keeps such urls. Cheap to clone.
#[derive(Clone)]
pub(super) struct OldUrls {
    pub(super) hooks: Hooks,
    pub(super) tools: SkillsRoutes,
    pub(super) scheduler: Scheduler,
    pub(super) notify: Notify,
}

impl OldUrls {
    /// Moves the credentials into the vault.
    pub(super) async fn seal(&self) -> Result<(), StartError> {
        self.hooks.seal_credentials().await.map_err(|e| StartError::domain(&e))?;
        self.tools.custom.seal_credentials().await.map_err(|e| StartError::domain(&e))?;
        self.tools.servers.seal_credentials().await.map_err(|e| StartError::domain(&e))?;
        self.scheduler.seal_credentials().await.map_err(|e| StartError::domain(&e))?;
        self.notify.seal_credentials().await.map_err(|e| StartError::domain(&e))
    }
}
