//! The settings in force: reading them, and following what others change.

mod change;
mod import;
mod others;
mod picture;

use std::sync::Arc;
use std::time::Duration;

use agentd_base::{Backoff, Clock, Entropy, Secret, Timestamp};
use agentd_net::{NetPolicy, PolicyHandle};
use agentd_store::{Db, Read, Snapshot};
use arc_swap::ArcSwap;
use jiff::tz::TimeZone;
use parking_lot::RwLock;
use serde_json::{Map, Value};
use tokio::sync::{Mutex, watch};

use super::error::SettingsError;
use super::section::{LoadedSection, Registry, Section, secret_scope};
use super::{
    AgentSettings, EmailSettings, InterfaceSettings, ProactiveSettings, ProfileSettings, SecuritySettings,
    StrategySettings, store,
};
use crate::parts::Detached;
use crate::runtime::{AppContext, DataDir, Slot, Slots};
use crate::vault::{Vault, VaultError};
pub use change::{SettingsChange, WrittenSettings};
pub use import::ImportedSettings;
pub use others::{FindsNamed, KeeperImport, PortableSection};

/// The section of the chat platforms.
const CHANNELS: &str = "channels";

/// How soon settings that could not be read are read again.
const READ_AGAIN: Backoff =
    Backoff { base: Duration::from_millis(250), multiplier: 2.0, cap: Duration::from_secs(30), jitter: 0.2 };

/// Every section at one moment.
struct State {
    sections: Vec<LoadedSection>,
    timezone: TimeZone,
}

/// What some requests may reach, and how that follows from the settings.
struct DerivedPolicy {
    make: fn(&Settings) -> NetPolicy,
    policy: PolicyHandle,
}

struct Inner {
    db: Db,
    entropy: Entropy,
    data_dir: Arc<DataDir>,
    registry: Arc<Registry>,
    vault: Vault,
    snapshot: Snapshot<State>,
    current: ArcSwap<State>,
    /// One at a time, so that an older state never follows a newer one.
    publishing: Mutex<()>,
    /// One picture at a time: each takes memory for its pixels.
    decoding: Arc<Mutex<()>>,
    changes: watch::Sender<u64>,
    policy: PolicyHandle,
    derived: RwLock<Vec<DerivedPolicy>>,
    /// Settings that are no section.
    portable: Slot<dyn PortableSection>,
    /// Who knows what a setting may name.
    finders: Slot<dyn FindsNamed>,
}

/// The settings. Cheap to clone.
#[derive(Clone)]
pub struct Settings(Arc<Inner>);

impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settings").field("registry", &self.0.registry).finish_non_exhaustive()
    }
}

impl Settings {
    /// Reads what is stored, and follows changes by other replicas until the daemon drains.
    ///
    /// # Errors
    /// A section that cannot be read, or the database is away.
    pub async fn open(
        context: &AppContext,
        vault: Vault,
        registry: Registry,
        slots: &mut Slots,
    ) -> Result<Detached<Self>, SettingsError> {
        let registry = Arc::new(registry);
        let snapshot = Snapshot::new(&context.db, &[store::SETTINGS]);
        let loaded = Arc::clone(&registry);
        let state = snapshot.get(async move |read: &mut Read| load(&loaded, read).await).await?;
        let settings = Self(Arc::new(Inner {
            db: context.db.clone(),
            entropy: context.entropy.clone(),
            data_dir: Arc::clone(&context.data_dir),
            registry,
            vault,
            snapshot,
            current: ArcSwap::new(state),
            publishing: Mutex::new(()),
            decoding: Arc::default(),
            changes: watch::Sender::new(0),
            policy: PolicyHandle::default(),
            derived: RwLock::default(),
            portable: slots.create(),
            finders: slots.create(),
        }));
        settings.0.policy.set(settings.security().net_policy());
        let (followed, draining) = (settings.clone(), context.draining.clone());
        context.supervise("settings.follow", move || follow(followed.clone(), draining.clone()));
        Ok(Detached::new(settings))
    }

    pub(super) fn clock(&self) -> &Clock {
        self.0.db.clock()
    }

    pub(super) fn others(&self) -> Vec<Arc<dyn PortableSection>> {
        self.0.portable.all().to_vec()
    }

    /// A section as it is in force. It must have been registered.
    #[must_use]
    pub fn section<S: Section>(&self) -> Arc<S> {
        let state = self.0.current.load();
        typed(self.0.registry.position::<S>().and_then(|position| state.sections.get(position)))
    }

    #[must_use]
    pub fn profile(&self) -> Arc<ProfileSettings> {
        self.section()
    }

    #[must_use]
    pub fn interface(&self) -> Arc<InterfaceSettings> {
        self.section()
    }

    #[must_use]
    pub fn security(&self) -> Arc<SecuritySettings> {
        self.section()
    }

    #[must_use]
    pub fn agent(&self) -> Arc<AgentSettings> {
        self.section()
    }

    #[must_use]
    pub fn strategy(&self) -> Arc<StrategySettings> {
        self.section()
    }

    #[must_use]
    pub fn proactive(&self) -> Arc<ProactiveSettings> {
        self.section()
    }

    #[must_use]
    pub fn email(&self) -> Arc<EmailSettings> {
        self.section()
    }

    /// Whether `at` is quiet: proactive turns begin outside of the quiet hours, and alerts make no sound in them.
    #[must_use]
    pub fn is_quiet(&self, at: Timestamp) -> bool {
        self.proactive().is_quiet(at, &self.timezone())
    }

    /// A write-only field of a section, by its path in [`Section::SECRETS`].
    ///
    /// # Errors
    /// It cannot be opened with this daemon's key, or the database is away.
    pub async fn secret<S: Section>(&self, field: &str) -> Result<Option<Secret>, VaultError> {
        self.0.vault.get(&secret_scope(S::NAME), field).await
    }

    /// The profile's time zone: that of days, budgets and schedules.
    #[must_use]
    pub fn timezone(&self) -> TimeZone {
        self.0.current.load().timezone.clone()
    }

    /// The day on which `at` falls in the profile's time zone, `2026-01-31`.
    #[must_use]
    pub fn day(&self, at: Timestamp) -> jiff::civil::Date {
        at.to_jiff().to_zoned(self.timezone()).date()
    }

    /// The addresses that may be reached; follows the security settings at once.
    #[must_use]
    pub fn policy(&self) -> PolicyHandle {
        self.0.policy.clone()
    }

    /// Addresses that some requests may reach, by other settings as well; follows all of them at once.
    #[must_use]
    pub fn derived_policy(&self, make: fn(&Self) -> NetPolicy) -> PolicyHandle {
        let policy = PolicyHandle::new(make(self));
        self.0.derived.write().push(DerivedPolicy { make, policy: policy.clone() });
        policy
    }

    #[must_use]
    pub fn vault(&self) -> &Vault {
        &self.0.vault
    }

    /// Whether the owner has turned a chat platform on. Its settings belong to a domain that builds on this one, so they
    /// are read by their names.
    #[must_use]
    pub fn is_platform_on(&self, platform: &str) -> bool {
        let state = self.0.current.load();
        let mut sections = self.0.registry.iter().zip(&state.sections);
        let channels = sections.find(|(section, _)| section.name == CHANNELS);
        channels.is_some_and(|(_, channels)| channels.view[platform]["enabled"] == true)
    }

    /// Rises with every change of any section, after it is in force here.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }

    /// Makes certain that what any replica has acknowledged is in force here. On SQLite that is
    /// a comparison of two numbers, on PostgreSQL one small query.
    ///
    /// # Errors
    /// A section that cannot be read, or the database is away; what was in force stays.
    pub async fn refresh(&self) -> Result<(), SettingsError> {
        let inner = &*self.0;
        let state = self.load().await?;
        if Arc::ptr_eq(&inner.current.load(), &state) {
            return Ok(());
        }
        let _one_at_a_time = inner.publishing.lock().await;
        let state = self.load().await?;
        if !Arc::ptr_eq(&inner.current.load(), &state) {
            let before = self.security();
            inner.current.store(state);
            let security = self.security();
            if (&before.allowed_hosts, &before.blocked_hosts) != (&security.allowed_hosts, &security.blocked_hosts) {
                inner.policy.set(security.net_policy());
            }
            for derived in inner.derived.read().iter() {
                let policy = (derived.make)(self);
                if *derived.policy.current() != policy {
                    derived.policy.set(policy);
                }
            }
            inner.changes.send_modify(|count| *count += 1);
        }
        Ok(())
    }

    async fn load(&self) -> Result<Arc<State>, SettingsError> {
        let registry = Arc::clone(&self.0.registry);
        self.0.snapshot.get(async move |read: &mut Read| load(&registry, read).await).await
    }

    /// Every section as it is answered, under its name.
    ///
    /// # Errors
    /// As [`Self::refresh`].
    pub async fn view_all(&self) -> Result<Map<String, Value>, SettingsError> {
        self.refresh().await?;
        let mut views = views(&self.0.registry, &self.0.current.load().sections);
        let others = self.others();
        views.extend(other_views(&others, &mut self.0.db.read_snapshot().await?).await?);
        Ok(views)
    }

    /// Takes out what a key that may only read is not shown.
    pub fn conceal(&self, all: &mut Map<String, Value>) {
        for keeper in self.others() {
            if let Some(exported) = all.get_mut(keeper.name()) {
                keeper.conceal(exported);
            }
        }
    }

    /// One section, certainly up to date.
    ///
    /// # Errors
    /// As [`Self::refresh`].
    pub async fn get<S: Section>(&self) -> Result<Arc<S>, SettingsError> {
        self.refresh().await?;
        Ok(self.section())
    }
}

async fn load(registry: &Registry, read: &mut Read) -> Result<State, SettingsError> {
    let mut stored = store::list_sections(read).await?;
    let kept = store::list_kept_fields(read).await?;
    for section in registry.iter() {
        if let Some(stored) = stored.get_mut(section.name) {
            section.show_kept(stored, &kept);
        }
    }
    let sections = registry.load(&stored).map_err(|(section, source)| SettingsError::Unreadable { section, source })?;
    let profile = registry.position::<ProfileSettings>().and_then(|position| sections.get(position));
    let profile = profile.and_then(|section| section.value.downcast_ref::<ProfileSettings>());
    let timezone = profile.and_then(|profile| TimeZone::get(&profile.timezone).ok()).unwrap_or(TimeZone::UTC);
    Ok(State { sections, timezone })
}

/// The settings that are no section, under their names.
async fn other_views(
    others: &[Arc<dyn PortableSection>],
    read: &mut Read,
) -> Result<Map<String, Value>, SettingsError> {
    let mut views = Map::new();
    for keeper in others {
        views.insert(keeper.name().to_owned(), keeper.export(read).await?);
    }
    Ok(views)
}

/// A section by its type.
fn typed<S: Section>(loaded: Option<&LoadedSection>) -> Arc<S> {
    let typed = loaded.and_then(|section| Arc::clone(&section.value).downcast::<S>().ok());
    #[allow(clippy::expect_used, reason = "a mistake of the program that its first use shows, whatever the input")]
    typed.expect("a section is registered before it is read")
}

/// Every section as it is answered, under its name.
fn views(registry: &Registry, sections: &[LoadedSection]) -> Map<String, Value> {
    registry.iter().zip(sections).map(|(section, loaded)| (section.name.to_owned(), loaded.view.clone())).collect()
}

/// Puts changes in force that another replica made, or a restore, or that could not be read right
/// after they were made here. Tries until it can.
async fn follow(settings: Settings, draining: tokio_util::sync::CancellationToken) {
    let mut changes = settings.0.db.watch(store::SETTINGS);
    loop {
        tokio::select! {
            () = draining.cancelled() => return,
            changed = changes.changed() => if changed.is_err() { return },
        }
        let mut attempt = 0;
        while let Err(error) = settings.refresh().await {
            if attempt == 0 {
                tracing::warn!(%error, "changed settings cannot be read; those before stay in force until they can");
            }
            attempt += 1;
            tokio::select! {
                () = draining.cancelled() => return,
                () = tokio::time::sleep(READ_AGAIN.delay(attempt, settings.0.entropy.unit())) => {}
            }
        }
    }
}
