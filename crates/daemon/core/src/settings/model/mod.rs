//! Settings categories of the daemon as a whole, with their defaults and rules.

mod agent;
mod email;
mod interface;
mod proactive;
mod profile;
mod security;
mod strategy;

use super::section::Registry;

pub use agent::{AgentSettings, is_provider, provider_names};
pub use email::{EmailSettings, EmailTls};
pub use interface::{DateFormat, InterfaceSettings, is_agent_name};
pub use proactive::{CHANNEL_PLATFORMS, ProactiveSettings, QuietHours};
pub use profile::{ProfileSettings, Theme, is_email_address, is_mailbox};
pub use security::{AfterUntrustedText, SecuritySettings};
pub use strategy::{Planning, StrategySettings};

pub(super) use agent::AgentPatch;
pub(super) use email::EmailPatch;
pub(super) use interface::InterfacePatch;
pub(super) use proactive::ProactivePatch;
pub(super) use profile::ProfilePatch;
pub(super) use security::SecurityPatch;
pub(super) use strategy::StrategyPatch;

impl Registry {
    /// Creates a registry of these categories.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
            .with::<ProfileSettings>()
            .with::<InterfaceSettings>()
            .with::<SecuritySettings>()
            .with::<AgentSettings>()
            .with::<StrategySettings>()
            .with::<ProactiveSettings>()
            .with::<EmailSettings>()
    }
}
