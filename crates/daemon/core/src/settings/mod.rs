//! Settings that take effect at once, and the vault for secrets.
//!
//! A category is a [`Section`]: one plain struct whose schema says what it holds and within which
//! limits. The domain that reads a category owns it, registers it in a [`Registry`], and gets the
//! reading, the partial change, reset, export and import of it from here. The sections of this
//! folder are profile, interface, security, agent, strategy, proactive and email.
//!
//! Invariants
//! - Reading is a load of a pointer; nothing that reads settings ever waits.
//! - A change is read, merged, checked and written in one transaction: two changes of different
//!   fields both win, and a refused one leaves everything as it was.
//! - Whoever is answered after a change sees it, on this replica. Another replica hears of it by
//!   notification, and asks for certain where it matters: [`Settings::refresh`] costs nothing on
//!   SQLite and one small query on PostgreSQL.
//! - A key that no category knows is refused, never kept.
//! - Write-only fields live in the [`Vault`]; the category holds only whether they are set. Each says what it is sent
//!   to: where that changes, its value is asked for again, and an import drops it.
//! - An import leaves safety settings ([`SafetySetting`]) unchanged unless it includes them.
//!
//! Deliberately absent: what the settings of other domains mean, provider keys (they live in
//! `providers`), and settings of the process such as its address (`config`).

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
pub use destination::{Part, WriteOnly};
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
    FindsNamed, ImportedSettings, KeeperImport, PortableSection, Settings, SettingsChange, WrittenSettings,
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
