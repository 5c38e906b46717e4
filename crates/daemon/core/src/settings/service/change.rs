//! Changes to settings: read, merged, validated and written in one transaction, then applied.
//!
//! Responses contain the committed values, not the active ones. A failure to read the new state after the commit does
//! not undo the change and must not look as if it did.

use std::sync::Arc;

use agentd_base::{FieldProblem, Patch, SecretUpdate};
use agentd_store::{Read, StoreError, Tx};
use serde_json::{Map, Value};

use super::{PortableSection, Settings, load, other_views, typed, views};
use crate::settings::avatar;
use crate::settings::destination::WriteOnly;
use crate::settings::error::SettingsError;
use crate::settings::safety::{SafetyReport, SafetyScope};
use crate::settings::section::{
    CheckedChange, LoadedSection, PartialObject, Registered, Registry, ResetGroup, Section, secret_scope,
};
use crate::settings::{ProfileSettings, overlay, store};
use crate::vault::Vault;

/// Change of one section, checked by its schema. The section's own rules are checked when it is written.
#[derive(Clone)]
pub struct SettingsChange {
    pub(super) section: Registered,
    pub(super) change: CheckedChange,
}

impl std::fmt::Debug for SettingsChange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SettingsChange").field("section", &self.section.name).finish_non_exhaustive()
    }
}

/// Settings written by a transaction. Pass it to [`Settings::apply_committed`] after the commit.
#[must_use]
pub struct WrittenSettings {
    /// In the order of the changes.
    pub(super) sections: Vec<LoadedSection>,
    replaced_avatar: Option<String>,
    pub(super) dropped_secrets: Vec<String>,
    pub(super) safety: SafetyReport,
}

impl std::fmt::Debug for WrittenSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WrittenSettings").finish_non_exhaustive()
    }
}

impl Settings {
    /// Prepares a change of a section for the caller's transaction.
    pub async fn prepare<S: Section>(&self, change: PartialObject) -> SettingsChange {
        let mut change = self.prepare_section(Registered::of::<S>(), change.0).await;
        let validators = self.0.validators.all();
        // Not checked for imports, because the referenced object may be created later.
        for validator in validators {
            let (section, field) = validator.named_by();
            if section == S::NAME
                && let Some(name) = change.change.field(field).and_then(Value::as_str)
                && let Some(message) = validator.problem(name).await
            {
                change.change.unresolved.push(FieldProblem { field: field.to_owned(), message });
            }
        }
        change
    }

    pub(super) async fn prepare_section(&self, section: Registered, fields: Map<String, Value>) -> SettingsChange {
        let mut change = section.check(fields);
        self.check_avatar(section.name, &mut change).await;
        SettingsChange { section, change }
    }

    /// Checks that a picture of this daemon exists.
    async fn check_avatar(&self, section: &str, change: &mut CheckedChange) {
        if section != ProfileSettings::NAME {
            return;
        }
        let Some(file) = change.field("avatar_url").and_then(Value::as_str).and_then(avatar::own_file_name) else {
            return;
        };
        if !tokio::fs::try_exists(self.0.data_dir.avatars().join(file)).await.unwrap_or(true) {
            let message = "names a picture that does not exist; upload one with POST /api/settings/avatar".to_owned();
            change.problems.push(FieldProblem { field: "avatar_url".to_owned(), message });
        }
    }

    /// Validates a change of a section against the defaults and returns its problems.
    pub async fn problems<S: Section>(&self, change: PartialObject) -> Vec<FieldProblem> {
        let SettingsChange { section, change } = self.prepare::<S>(change).await;
        section.apply(None, &change).map(|changed| changed.problems).unwrap_or_default()
    }

    /// Writes a prepared change in the caller's transaction.
    ///
    /// # Errors
    /// `Invalid` with all invalid fields; the transaction must then be rolled back.
    pub async fn write(&self, tx: &mut Tx, change: &SettingsChange) -> Result<WrittenSettings, SettingsError> {
        write_all(tx, &self.0.vault, std::slice::from_ref(change), Origin::Owner).await
    }

    /// Applies committed settings. If the new state cannot be read now, it is applied as soon as it can be read.
    pub async fn apply_committed(&self, written: WrittenSettings) {
        if let Some(file) = written.replaced_avatar {
            avatar::remove(&self.0.data_dir.avatars(), &file).await;
        }
        self.refresh_committed().await;
    }

    /// Clears a field of a section if it refers to one of `names`, in the transaction that deletes the named object.
    /// Returns whether it did; then call [`Self::refresh_committed`] after the commit.
    ///
    /// # Errors
    /// `StoreError` if the section cannot be read or written.
    pub async fn clear_reference<S: Section>(tx: &mut Tx, field: &str, names: &[&str]) -> Result<bool, StoreError> {
        let mut stored = store::find_section(tx, S::NAME).await?;
        let named = stored.as_mut().and_then(|stored| stored.get_mut(field));
        let Some(named) = named.filter(|named| named.as_str().is_some_and(|named| names.contains(&named))) else {
            return Ok(false);
        };
        *named = Value::Null;
        store::upsert_section(tx, S::NAME, stored.as_ref().unwrap_or(&Value::Null)).await?;
        Ok(true)
    }

    /// Sets a field of a section if it has no value, in the caller's transaction. Returns whether it did; then call
    /// [`Self::refresh_committed`] after the commit.
    ///
    /// # Errors
    /// `StoreError` if the section cannot be read or written.
    pub async fn set_if_unset<S: Section>(tx: &mut Tx, field: &str, value: &str) -> Result<bool, StoreError> {
        let mut stored = store::find_section(tx, S::NAME).await?.unwrap_or_else(|| Value::Object(Map::new()));
        if !stored[field].is_null() {
            return Ok(false);
        }
        stored[field] = Value::from(value);
        store::upsert_section(tx, S::NAME, &stored).await?;
        Ok(true)
    }

    /// Applies committed changes as soon as they can be read.
    pub async fn refresh_committed(&self) {
        if let Err(error) = self.refresh().await {
            tracing::warn!(%error, "failed to read changed settings after commit; they are applied later");
        }
    }

    /// Merges `change` into the section and returns the whole section.
    ///
    /// # Errors
    /// `Invalid` with all invalid fields; nothing is changed then.
    pub async fn update<S: Section>(&self, change: PartialObject) -> Result<Arc<S>, SettingsError> {
        let change = self.prepare::<S>(change).await;
        let settings = self.clone();
        let written = self.0.db.write(async move |tx: &mut Tx| settings.write(tx, &change).await).await?;
        let section = typed(written.sections.first());
        self.apply_committed(written).await;
        Ok(section)
    }

    /// Resets the sections of a group to their defaults and returns all sections.
    ///
    /// # Errors
    /// `SettingsError` if the database is unavailable or a section cannot be read.
    pub async fn reset(&self, group: ResetGroup) -> Result<Map<String, Value>, SettingsError> {
        let (vault, registry, others) = (self.0.vault.clone(), Arc::clone(&self.0.registry), self.others());
        let work = async move |tx: &mut Tx| {
            for section in registry.iter().filter(|section| section.reset == group) {
                store::delete_section(tx, section.name).await?;
                for secret in section.secrets {
                    vault.clear(tx, &secret_scope(section.name), secret.path).await?;
                }
            }
            all_views(&registry, &others, tx).await
        };
        let views = self.0.db.write(work).await?;
        self.refresh_committed().await;
        Ok(views)
    }

    /// Returns all sections for an export, without secrets and without the avatar file of this daemon.
    ///
    /// # Errors
    /// See [`Self::refresh`].
    pub async fn export(&self) -> Result<Map<String, Value>, SettingsError> {
        let mut all = self.view_all().await?;
        for section in self.0.registry.iter() {
            if let Some(Value::Object(fields)) = all.get_mut(section.name) {
                for secret in section.secrets {
                    overlay::take(fields, secret.path);
                }
            }
        }
        if let Some(Value::Object(profile)) = all.get_mut(ProfileSettings::NAME)
            && profile.get("avatar_url").and_then(Value::as_str).is_some_and(|url| avatar::own_file_name(url).is_some())
        {
            profile.remove("avatar_url");
        }
        Ok(all)
    }
}

/// Source of changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// Request of the owner, who can enter a secret again.
    Owner,
    /// Imported file: problems are reported with their section, and safety settings may be excluded.
    Import(SafetyScope),
}

/// Reads, merges, validates and writes changes.
pub(super) async fn write_all(
    tx: &mut Tx,
    vault: &Vault,
    changes: &[SettingsChange],
    origin: Origin,
) -> Result<WrittenSettings, SettingsError> {
    let mut problems = Vec::new();
    let mut written = WrittenSettings {
        sections: Vec::new(),
        replaced_avatar: None,
        dropped_secrets: Vec::new(),
        safety: SafetyReport::default(),
    };
    for SettingsChange { section, change } in changes {
        let unreadable = |source| SettingsError::Unreadable { section: section.name, source };
        let mut stored = store::find_section(tx, section.name).await?;
        if let Some(stored) = stored.as_mut().filter(|_| !section.secrets.is_empty()) {
            section.mark_set_secrets(stored, &store::list_set_fields(tx).await?);
        }
        let mut changed = section.apply(stored.as_ref(), change).map_err(unreadable)?;
        match origin {
            Origin::Owner => {
                problems.extend(changed.problems);
                problems.extend(changed.redirected.iter().map(WriteOnly::problem));
            }
            Origin::Import(_) => problems.extend(changed.problems.iter().map(|problem| qualify(section.name, problem))),
        }
        if !problems.is_empty() {
            continue;
        }
        if let Origin::Import(scope) = origin {
            let before = section.load(stored.as_ref()).map_err(unreadable)?.view;
            written.safety.extend(scope.resolve_section(section.safety, section.name, &before, &mut changed.value));
        }
        if section.name == ProfileSettings::NAME {
            written.replaced_avatar = replaced_avatar_file(stored.as_ref(), &changed.value);
        }
        write_secrets(tx, vault, section.name, &change.secrets).await?;
        if let Value::Object(fields) = &mut changed.value {
            for secret in &changed.redirected {
                vault.clear(tx, &secret_scope(section.name), secret.path).await?;
                overlay::put(fields, secret.path, Value::Null);
                written.dropped_secrets.push(format!("{}.{}", section.name, secret.path));
            }
        }
        store::upsert_section(tx, section.name, &changed.value).await?;
        written.sections.push(section.load(Some(&changed.value)).map_err(unreadable)?);
    }
    if problems.is_empty() { Ok(written) } else { Err(SettingsError::Invalid(problems)) }
}

pub(super) async fn all_views(
    registry: &Registry,
    others: &[Arc<dyn PortableSection>],
    read: &mut Read,
) -> Result<Map<String, Value>, SettingsError> {
    let mut views = views(registry, &load(registry, read).await?.sections);
    views.extend(other_views(others, read).await?);
    Ok(views)
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

/// Returns the avatar file that a change replaces.
fn replaced_avatar_file(before: Option<&Value>, after: &Value) -> Option<String> {
    let before = before?.get("avatar_url")?.as_str()?;
    if after.get("avatar_url").and_then(Value::as_str) == Some(before) {
        return None;
    }
    avatar::own_file_name(before).map(str::to_owned)
}

pub(super) fn qualify(section: &str, problem: &FieldProblem) -> FieldProblem {
    FieldProblem { field: format!("settings.{section}.{}", problem.field), message: problem.message.clone() }
}
