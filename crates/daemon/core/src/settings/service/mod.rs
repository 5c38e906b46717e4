//! Active settings: reading them and following changes by other replicas.

mod avatar;
mod change;
mod import;
mod portable;

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
pub use portable::{PortableImport, PortableSection, ValidateReference};

/// Name of the section of the chat platforms.
const CHANNELS: &str = "channels";

/// Backoff for reading settings again after a failure.
const RETRY_BACKOFF: Backoff =
    Backoff { base: Duration::from_millis(250), multiplier: 2.0, cap: Duration::from_secs(30), jitter: 0.2 };

/// Snapshot of all sections.
struct State {
    sections: Vec<LoadedSection>,
    timezone: TimeZone,
}

/// Network policy that is derived from settings.
struct DerivedPolicy {
    derive: fn(&Settings) -> NetPolicy,
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
    /// Serializes publishing, so that an older state never replaces a newer one.
    publishing: Mutex<()>,
    /// Serializes the decoding of pictures, because each needs memory for its pixels.
    decoding: Arc<Mutex<()>>,
    changes: watch::Sender<u64>,
    policy: PolicyHandle,
    derived: RwLock<Vec<DerivedPolicy>>,
    /// Settings outside of sections.
    portable: Slot<dyn PortableSection>,
    /// Validators of references to objects of other domains.
    validators: Slot<dyn ValidateReference>,
}

/// Settings service. Cheap to clone.
#[derive(Clone)]
pub struct Settings(Arc<Inner>);

impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settings").field("registry", &self.0.registry).finish_non_exhaustive()
    }
}

impl Settings {
    /// Loads the settings and follows changes by other replicas until the daemon drains.
    ///
    /// # Errors
    /// `Unreadable` if a section cannot be read, `Store` if the database is unavailable.
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
            validators: slots.create(),
        }));
        settings.0.policy.set(settings.security().net_policy());
        let (followed, draining) = (settings.clone(), context.draining.clone());
        context.supervise("settings.follow", move || follow_changes(followed.clone(), draining.clone()));
        Ok(Detached::new(settings))
    }

    pub(super) fn clock(&self) -> &Clock {
        self.0.db.clock()
    }

    pub(super) fn others(&self) -> Vec<Arc<dyn PortableSection>> {
        self.0.portable.all().to_vec()
    }

    /// Returns the active values of a section, which must be registered.
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

    /// Whether `at` is within the quiet hours, in which no proactive turn starts and alerts are silent.
    #[must_use]
    pub fn is_quiet(&self, at: Timestamp) -> bool {
        self.proactive().is_quiet(at, &self.timezone())
    }

    /// Returns the value of a write-only field, by its path in [`Section::SECRETS`].
    ///
    /// # Errors
    /// `VaultError` if it cannot be decrypted or the database is unavailable.
    pub async fn secret<S: Section>(&self, field: &str) -> Result<Option<Secret>, VaultError> {
        self.0.vault.get(&secret_scope(S::NAME), field).await
    }

    /// Returns the profile's time zone, which days, budgets and schedules use.
    #[must_use]
    pub fn timezone(&self) -> TimeZone {
        self.0.current.load().timezone.clone()
    }

    /// Returns the date of `at` in the profile's time zone.
    #[must_use]
    pub fn day(&self, at: Timestamp) -> jiff::civil::Date {
        at.to_jiff().to_zoned(self.timezone()).date()
    }

    /// Returns the network policy, which follows the security settings immediately.
    #[must_use]
    pub fn policy(&self) -> PolicyHandle {
        self.0.policy.clone()
    }

    /// Returns a network policy that `derive` computes from settings, and that follows them immediately.
    #[must_use]
    pub fn derived_policy(&self, derive: fn(&Self) -> NetPolicy) -> PolicyHandle {
        let policy = PolicyHandle::new(derive(self));
        self.0.derived.write().push(DerivedPolicy { derive, policy: policy.clone() });
        policy
    }

    #[must_use]
    pub fn vault(&self) -> &Vault {
        &self.0.vault
    }

    /// Whether a chat platform is enabled. Its settings belong to a higher domain, so they are read by name.
    #[must_use]
    pub fn is_platform_on(&self, platform: &str) -> bool {
        let state = self.0.current.load();
        let mut sections = self.0.registry.iter().zip(&state.sections);
        let channels = sections.find(|(section, _)| section.name == CHANNELS);
        channels.is_some_and(|(_, channels)| channels.view[platform]["enabled"] == true)
    }

    /// Returns a receiver of a counter that increases after every applied change.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }

    /// Applies all changes that any replica has acknowledged. Costs a comparison of two numbers on SQLite and one small
    /// query on PostgreSQL.
    ///
    /// # Errors
    /// `SettingsError` if a section cannot be read or the database is unavailable; the active settings are then
    /// retained.
    pub async fn refresh(&self) -> Result<(), SettingsError> {
        let inner = &*self.0;
        let state = self.load().await?;
        if Arc::ptr_eq(&inner.current.load(), &state) {
            return Ok(());
        }
        let _guard = inner.publishing.lock().await;
        let state = self.load().await?;
        if !Arc::ptr_eq(&inner.current.load(), &state) {
            let before = self.security();
            inner.current.store(state);
            let security = self.security();
            if (&before.allowed_hosts, &before.blocked_hosts) != (&security.allowed_hosts, &security.blocked_hosts) {
                inner.policy.set(security.net_policy());
            }
            for derived in inner.derived.read().iter() {
                let policy = (derived.derive)(self);
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

    /// Returns all sections by name, as in the API.
    ///
    /// # Errors
    /// See [`Self::refresh`].
    pub async fn view_all(&self) -> Result<Map<String, Value>, SettingsError> {
        self.refresh().await?;
        let mut views = views(&self.0.registry, &self.0.current.load().sections);
        let others = self.others();
        views.extend(other_views(&others, &mut self.0.db.read_snapshot().await?).await?);
        Ok(views)
    }

    /// Removes data that keys with the scope `read` must not see.
    pub fn redact_for_read_scope(&self, all: &mut Map<String, Value>) {
        for portable in self.others() {
            if let Some(exported) = all.get_mut(portable.name()) {
                portable.redact_for_read_scope(exported);
            }
        }
    }

    /// Refreshes the settings and returns a section.
    ///
    /// # Errors
    /// See [`Self::refresh`].
    pub async fn get<S: Section>(&self) -> Result<Arc<S>, SettingsError> {
        self.refresh().await?;
        Ok(self.section())
    }
}

async fn load(registry: &Registry, read: &mut Read) -> Result<State, SettingsError> {
    let mut stored = store::list_sections(read).await?;
    let set_fields = store::list_set_fields(read).await?;
    for section in registry.iter() {
        if let Some(stored) = stored.get_mut(section.name) {
            section.mark_set_secrets(stored, &set_fields);
        }
    }
    let sections = registry.load(&stored).map_err(|(section, source)| SettingsError::Unreadable { section, source })?;
    let profile = registry.position::<ProfileSettings>().and_then(|position| sections.get(position));
    let profile = profile.and_then(|section| section.value.downcast_ref::<ProfileSettings>());
    let timezone = profile.and_then(|profile| TimeZone::get(&profile.timezone).ok()).unwrap_or(TimeZone::UTC);
    Ok(State { sections, timezone })
}

/// Returns the settings outside of sections by name.
async fn other_views(
    others: &[Arc<dyn PortableSection>],
    read: &mut Read,
) -> Result<Map<String, Value>, SettingsError> {
    let mut views = Map::new();
    for portable in others {
        views.insert(portable.name().to_owned(), portable.export(read).await?);
    }
    Ok(views)
}

/// Downcasts a loaded section.
fn typed<S: Section>(loaded: Option<&LoadedSection>) -> Arc<S> {
    let typed = loaded.and_then(|section| Arc::clone(&section.value).downcast::<S>().ok());
    #[allow(clippy::expect_used, reason = "a bug that the first use reveals, independent of input")]
    typed.expect("a section is registered before it is read")
}

/// Returns all sections by name, as in the API.
fn views(registry: &Registry, sections: &[LoadedSection]) -> Map<String, Value> {
    registry.iter().zip(sections).map(|(section, loaded)| (section.name.to_owned(), loaded.view.clone())).collect()
}

/// Applies changes by other replicas or a restore, and local changes that could not be read after their commit. Retries
/// until it succeeds.
async fn follow_changes(settings: Settings, draining: tokio_util::sync::CancellationToken) {
    let mut changes = settings.0.db.watch(store::SETTINGS);
    loop {
        tokio::select! {
            () = draining.cancelled() => return,
            changed = changes.changed() => if changed.is_err() { return },
        }
        let mut attempt = 0;
        while let Err(error) = settings.refresh().await {
            if attempt == 0 {
                tracing::warn!(%error, "failed to read changed settings; previous settings stay active");
            }
            attempt += 1;
            tokio::select! {
                () = draining.cancelled() => return,
                () = tokio::time::sleep(RETRY_BACKOFF.delay(attempt, settings.0.entropy.unit())) => {}
            }
        }
    }
}
