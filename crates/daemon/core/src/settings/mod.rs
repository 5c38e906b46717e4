//! Settings that take effect immediately, and their write-only secrets.
//!
//! A category is a [`Section`]: one struct whose schema defines its fields and their limits. The domain that reads a
//! category owns it and registers it in a [`Registry`]. This module implements reading, partial updates, reset, export
//! and import for all of them. The sections defined here are profile, interface, security, agent, strategy, proactive
//! and email.
//!
//! Invariants
//! - Reading is an atomic load of a pointer and never waits.
//! - A change is read, merged, validated and written in one transaction: concurrent changes of different fields both
//!   succeed, and a rejected change has no effect.
//! - A change is visible on this replica when its response is sent. Other replicas are notified; where staleness
//!   matters they call [`Settings::refresh`], which costs nothing on SQLite and one small query on PostgreSQL.
//! - A key that no category defines is rejected.
//! - Values of write-only fields are stored in the [`Vault`]; the category contains only whether they are set. Each
//!   declares its destination. If the destination changes, the value must be entered again, and an import drops it.
//! - An import leaves safety settings ([`SafetySetting`]) unchanged unless it includes them.
//!
//! Not part of this module: the meaning of other domains' settings, provider keys (`providers`), and settings of the
//! process such as its address (`config`).

mod avatar;
mod destination;
mod error;
mod language;
mod model;
mod overlay;
mod patch;
mod restored;
mod routes;
mod safety;
mod section;
mod service;
mod store;

use crate::parts::{Domain, DomainParts};
use crate::runtime::MetricList;
use routes::{SettingsRoutes, routes};

pub use avatar::AVATAR_PATH;
pub use destination::{DestinationField, WriteOnly};
pub use error::SettingsError;
pub use language::Language;
pub use model::{
    AfterUntrustedText, AgentSettings, CHANNEL_PLATFORMS, DateFormat, EmailSettings, EmailTls, InterfaceSettings,
    Planning, ProactiveSettings, ProfileSettings, QuietHours, SecuritySettings, StrategySettings, Theme, is_agent_name,
    is_email_address, is_mailbox, is_provider, provider_names,
};
pub use patch::patch_schema;
pub use patch::section_patch;
pub use restored::ValidateSettings;
pub use safety::{SafetyReport, SafetyScope, SafetySetting, Strength, UnchangedSetting, WeakenedSetting};
pub use section::{PartialObject, Registry, ResetGroup, Section};
pub use service::{
    ImportedSettings, PortableImport, PortableSection, Settings, SettingsChange, ValidateReference, WrittenSettings,
};

impl Domain for Settings {
    fn parts(&self) -> DomainParts {
        DomainParts {
            routes: routes().with_state(SettingsRoutes { settings: self.clone(), clock: self.clock().clone() }),
            workers: Vec::new(),
            metrics: MetricList::default(),
            bindings: Vec::new(),
            shutdown: Vec::new(),
        }
    }
}
