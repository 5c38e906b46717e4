//! What every domain hands over that keeps settings or rows of archives.

use std::sync::Arc;

use crate::agents::ValidateAgents;
use crate::alerts::ValidateAlerts;
use crate::backup::{BackupSettings, RestoreValidators};
use crate::browser::BrowserSettings;
use crate::channels::{ChannelSettings, ValidateChannels};
use crate::hooks::ValidateHooks;
use crate::memory::MemorySettings;
use crate::runtime::ValidateRestored;
use crate::scheduler::ValidateJobs;
use crate::settings::{Registry, ValidateSettings};
use crate::skills::SandboxSettings;

/// Every category of settings.
pub(super) fn registry() -> Registry {
    Registry::new()
        .with::<ChannelSettings>()
        .with::<SandboxSettings>()
        .with::<MemorySettings>()
        .with::<BrowserSettings>()
        .with::<BackupSettings>()
}

/// What rows from an archive must pass.
pub(super) fn validators(registry: &Registry) -> RestoreValidators {
    let validators: [Box<dyn ValidateRestored>; 6] = [
        Box::new(ValidateAgents),
        Box::new(ValidateSettings(registry.clone())),
        Box::new(ValidateJobs),
        Box::new(ValidateHooks),
        Box::new(ValidateAlerts),
        Box::new(ValidateChannels),
    ];
    Arc::new(validators)
}
