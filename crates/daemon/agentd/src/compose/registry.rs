//! What every domain hands over that keeps settings or rows of archives.

use std::sync::Arc;

use agentd_automation::hooks::ValidateHooks;
use agentd_automation::scheduler::ValidateJobs;
use agentd_conversation::memory::MemorySettings;
use agentd_core::runtime::ValidateRestored;
use agentd_core::settings::{Registry, ValidateSettings};
use agentd_engine::agents::ValidateAgents;
use agentd_engine::code_runner::SandboxSettings;
use agentd_integrations::browser::BrowserSettings;
use agentd_integrations::channels::{ChannelSettings, ValidateChannels};
use agentd_operations::alerts::ValidateAlerts;
use agentd_operations::backup::{BackupSettings, RestoreValidators};

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
