//! The settings in force, and every change of them.

use std::sync::Arc;

use agentd_base::{Entropy, FieldProblem, Patch, SecretUpdate, Timestamp};
use agentd_net::PolicyHandle;
use agentd_store::{Db, Read, Recorder, Snapshot, Tx};
use arc_swap::ArcSwap;
use jiff::tz::TimeZone;
use serde_json::{Map, Value};
use tokio::sync::{Mutex, watch};

use super::avatar::{self, PictureKind};
use super::error::SettingsError;
use super::section::{
    CheckedChange, LoadedSection, PartialObject, Registered, Registry, ResetGroup, Section, secret_scope,
};
use super::vault::Vault;
use super::{AVATAR_PATH, AgentSettings, InterfaceSettings, ProfileSettings, SecuritySettings, store};
use crate::ground::{DataDir, Ground};

/// Every section at one moment.
struct State {
    sections: Vec<LoadedSection>,
    timezone: TimeZone,
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
    changes: watch::Sender<u64>,
    policy: PolicyHandle,
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
    pub async fn open(ground: &Ground, vault: Vault, registry: Registry) -> Result<Self, SettingsError> {
        let registry = Arc::new(registry);
        let snapshot = Snapshot::new(&ground.db, &[store::SETTINGS]);
        let loaded = Arc::clone(&registry);
        let state = snapshot.get(async move |read: &mut Read| load(&loaded, read).await).await?;
        let settings = Self(Arc::new(Inner {
            db: ground.db.clone(),
            entropy: ground.entropy.clone(),
            data_dir: Arc::clone(&ground.data_dir),
            registry,
            vault,
            snapshot,
            current: ArcSwap::new(state),
            publishing: Mutex::new(()),
            changes: watch::Sender::new(0),
            policy: PolicyHandle::default(),
        }));
        settings.0.policy.set(settings.security().net_policy());
        let (followed, draining) = (settings.clone(), ground.draining.clone());
        ground.supervise("settings.follow", move || follow(followed.clone(), draining.clone()));
        Ok(settings)
    }

    /// A section as it is in force. It must have been registered.
    #[must_use]
    pub fn section<S: Section>(&self) -> Arc<S> {
        let state = self.0.current.load();
        let found = self.0.registry.position::<S>().and_then(|position| state.sections.get(position));
        let typed = found.and_then(|section| Arc::clone(&section.value).downcast::<S>().ok());
        #[allow(clippy::expect_used, reason = "a mistake of the program that its first use shows, whatever the input")]
        typed.expect("a section is registered before it is read")
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

    #[must_use]
    pub fn vault(&self) -> &Vault {
        &self.0.vault
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
        let state = self.0.current.load();
        let views = self.0.registry.iter().zip(&state.sections);
        Ok(views.map(|(section, loaded)| (section.name.to_owned(), loaded.view.clone())).collect())
    }

    /// One section, certainly up to date.
    ///
    /// # Errors
    /// As [`Self::refresh`].
    pub async fn get<S: Section>(&self) -> Result<Arc<S>, SettingsError> {
        self.refresh().await?;
        Ok(self.section())
    }

    /// Lays `change` over the section and answers the whole of it.
    ///
    /// # Errors
    /// `Invalid` with every bad field; then nothing has changed.
    pub async fn update<S: Section>(&self, change: PartialObject) -> Result<Arc<S>, SettingsError> {
        let section = Registered::of::<S>();
        let mut checked = section.check(change.0);
        self.check_avatar(section.name, &mut checked).await;
        self.change(vec![(section, checked)], Recorder::none(), String::new, |_| String::new()).await?;
        Ok(self.section())
    }

    /// Puts the sections of a group back to their defaults.
    ///
    /// # Errors
    /// What the database refuses.
    pub async fn reset(&self, group: ResetGroup) -> Result<(), SettingsError> {
        let vault = self.0.vault.clone();
        let sections: Vec<Registered> =
            self.0.registry.iter().filter(|section| section.reset == group).copied().collect();
        let work = async move |tx: &mut Tx| {
            for section in &sections {
                store::delete_section(tx, section.name).await?;
                for name in section.secrets {
                    vault.clear(tx, &secret_scope(section.name), name).await?;
                }
            }
            Ok::<_, SettingsError>(())
        };
        self.0.db.write(work).await?;
        self.refresh().await
    }

    /// Every section for a file: without secrets, and without what is a file of this daemon.
    ///
    /// # Errors
    /// As [`Self::refresh`].
    pub async fn export(&self) -> Result<Map<String, Value>, SettingsError> {
        let mut all = self.view_all().await?;
        if let Some(Value::Object(profile)) = all.get_mut(ProfileSettings::NAME)
            && profile.get("avatar_url").and_then(Value::as_str).is_some_and(|url| avatar::own_file(url).is_some())
        {
            profile.remove("avatar_url");
        }
        Ok(all)
    }

    /// Lays every section of an export over the present ones, all or none. Write-only fields stay
    /// as they are here.
    ///
    /// # Errors
    /// `Invalid` with every section and field that is not known or not valid.
    pub async fn import(&self, sections: Map<String, Value>) -> Result<(), SettingsError> {
        let mut changes = Vec::new();
        let mut problems = Vec::new();
        for (name, value) in sections {
            let shown: String = name.chars().take(64).collect();
            let field = format!("settings.{shown}");
            match (self.0.registry.find(&name), value) {
                (None, _) => {
                    let known = self.0.registry.names().join(", ");
                    problems.push(FieldProblem { field, message: format!("is not known here; known are: {known}") });
                }
                (Some(section), Value::Object(fields)) => {
                    let mut change = section.check(fields);
                    change.secrets.clear();
                    self.check_avatar(section.name, &mut change).await;
                    changes.push((*section, change));
                }
                (Some(_), _) => problems.push(FieldProblem { field, message: "must be an object".to_owned() }),
            }
        }
        if !problems.is_empty() {
            // What is wrong within the known sections is worth knowing at the same time.
            for (section, change) in &changes {
                problems.extend(change.problems.iter().map(|problem| below(section.name, problem)));
            }
            return Err(SettingsError::Invalid(problems));
        }
        self.change(changes, Recorder::none(), String::new, |section| format!("settings.{section}.")).await
    }

    /// Stores a picture and shows it; the one before is removed. Answers its address.
    ///
    /// # Errors
    /// `Invalid` when the bytes are no picture, or it cannot be stored.
    pub async fn set_avatar(&self, bytes: &[u8], recorder: Recorder<String>) -> Result<String, SettingsError> {
        let Some(kind) = PictureKind::of(bytes) else {
            return Err(SettingsError::field("file", "must be a picture: PNG, JPEG, GIF or WebP"));
        };
        let folder = self.0.data_dir.avatars();
        self.0.data_dir.make_folder(&folder).map_err(SettingsError::AvatarFile)?;
        let file = avatar::store(&folder, kind, bytes, &self.0.entropy).await.map_err(SettingsError::AvatarFile)?;
        let url = format!("{AVATAR_PATH}{file}");
        let section = Registered::of::<ProfileSettings>();
        let change = section.check(Map::from_iter([("avatar_url".to_owned(), Value::from(url.clone()))]));
        let recorded = url.clone();
        let changed = self.change(vec![(section, change)], recorder, move || recorded.clone(), |_| String::new()).await;
        if let Err(error) = changed {
            avatar::remove(&folder, &file).await;
            return Err(error);
        }
        Ok(url)
    }

    /// The bytes of a picture and their media type.
    ///
    /// # Errors
    /// `AvatarNotFound`, also for every name that is not one of ours.
    pub async fn read_avatar(&self, file: &str) -> Result<(Vec<u8>, &'static str), SettingsError> {
        let kind = avatar::kind_of_name(file).ok_or(SettingsError::AvatarNotFound)?;
        match tokio::fs::read(self.0.data_dir.avatars().join(file)).await {
            Ok(bytes) => Ok((bytes, kind.media_type())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(SettingsError::AvatarNotFound),
            Err(error) => Err(SettingsError::AvatarFile(error)),
        }
    }

    /// A picture of this daemon must be there to be shown.
    async fn check_avatar(&self, section: &str, change: &mut CheckedChange) {
        if section != ProfileSettings::NAME {
            return;
        }
        let Some(file) = change.field("avatar_url").and_then(Value::as_str).and_then(avatar::own_file) else { return };
        if !tokio::fs::try_exists(self.0.data_dir.avatars().join(file)).await.unwrap_or(true) {
            let message = "names a picture that is not here; upload it with POST /api/settings/avatar".to_owned();
            change.problems.push(FieldProblem { field: "avatar_url".to_owned(), message });
        }
    }

    /// Reads, merges, checks and writes in one transaction; then puts it in force.
    async fn change<T: Send + Sync + 'static>(
        &self,
        changes: Vec<(Registered, CheckedChange)>,
        recorder: Recorder<T>,
        recorded: impl Fn() -> T + Send + Sync + 'static,
        prefix: impl Fn(&str) -> String + Send + Sync + 'static,
    ) -> Result<(), SettingsError> {
        let vault = self.0.vault.clone();
        let work = async move |tx: &mut Tx| {
            let mut problems = Vec::new();
            let mut replaced_avatar = None;
            for (section, change) in &changes {
                let unreadable = |source| SettingsError::Unreadable { section: section.name, source };
                let stored = store::find_section(tx, section.name).await?;
                let changed = section.apply(stored.as_ref(), change).map_err(unreadable)?;
                let prefix = prefix(section.name);
                problems.extend(changed.problems.into_iter().map(|problem| FieldProblem {
                    field: format!("{prefix}{}", problem.field),
                    message: problem.message,
                }));
                if !problems.is_empty() {
                    continue;
                }
                if section.name == ProfileSettings::NAME {
                    replaced_avatar = replaced(stored.as_ref(), &changed.value);
                }
                write_secrets(tx, &vault, section.name, &change.secrets).await?;
                store::upsert_section(tx, section.name, &changed.value).await?;
            }
            if !problems.is_empty() {
                return Err(SettingsError::Invalid(problems));
            }
            recorder.record(tx, &recorded()).await?;
            Ok(replaced_avatar)
        };
        let replaced_avatar = self.0.db.write(work).await?;
        self.refresh().await?;
        if let Some(file) = replaced_avatar {
            avatar::remove(&self.0.data_dir.avatars(), &file).await;
        }
        Ok(())
    }
}

async fn write_secrets(
    tx: &mut Tx,
    vault: &Vault,
    section: &str,
    secrets: &[(&'static str, Patch<SecretUpdate>)],
) -> Result<(), SettingsError> {
    let scope = secret_scope(section);
    for (name, update) in secrets {
        match update {
            Patch::Set(SecretUpdate::New(secret)) => vault.put(tx, &scope, name, secret).await?,
            Patch::Clear => vault.clear(tx, &scope, name).await?,
            Patch::Keep | Patch::Set(SecretUpdate::Shown(_)) => {}
        }
    }
    Ok(())
}

/// The file of ours that was shown before and is not any more.
fn replaced(before: Option<&Value>, after: &Value) -> Option<String> {
    let before = before?.get("avatar_url")?.as_str()?;
    if after.get("avatar_url").and_then(Value::as_str) == Some(before) {
        return None;
    }
    avatar::own_file(before).map(str::to_owned)
}

fn below(section: &str, problem: &FieldProblem) -> FieldProblem {
    FieldProblem { field: format!("settings.{section}.{}", problem.field), message: problem.message.clone() }
}

async fn load(registry: &Registry, read: &mut Read) -> Result<State, SettingsError> {
    let stored = store::list_sections(read).await?;
    let sections = registry.load(&stored).map_err(|(section, source)| SettingsError::Unreadable { section, source })?;
    let profile = registry.position::<ProfileSettings>().and_then(|position| sections.get(position));
    let profile = profile.and_then(|section| section.value.downcast_ref::<ProfileSettings>());
    let timezone = profile.and_then(|profile| TimeZone::get(&profile.timezone).ok()).unwrap_or(TimeZone::UTC);
    Ok(State { sections, timezone })
}

/// Puts changes in force that another replica made, or a restore.
async fn follow(settings: Settings, draining: tokio_util::sync::CancellationToken) {
    let mut changes = settings.0.db.watch(store::SETTINGS);
    loop {
        tokio::select! {
            () = draining.cancelled() => return,
            changed = changes.changed() => if changed.is_err() { return },
        }
        if let Err(error) = settings.refresh().await {
            tracing::warn!(%error, "changed settings could not be read; those before stay in force for now");
        }
    }
}
