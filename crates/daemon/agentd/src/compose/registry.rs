//! Registration of settings categories and of validators for restored rows.

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

/// Returns all settings categories.
pub(super) fn registry() -> Registry {
    Registry::new()
        .with::<ChannelSettings>()
        .with::<SandboxSettings>()
        .with::<MemorySettings>()
        .with::<BrowserSettings>()
        .with::<BackupSettings>()
}

/// Returns the validators for rows restored from an archive.
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
