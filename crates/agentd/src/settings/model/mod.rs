//! The categories that belong to the daemon as a whole, with their defaults and rules.

mod agent;
mod interface;
mod profile;
mod security;

pub use agent::AgentSettings;
pub use interface::{DateFormat, InterfaceSettings};
pub use profile::{ProfileSettings, Theme};
pub use security::SecuritySettings;

pub(super) use agent::AgentPatch;
pub(super) use interface::InterfacePatch;
pub(super) use profile::ProfilePatch;
pub(super) use security::SecurityPatch;
