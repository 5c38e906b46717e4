//! Settings categories and their registry.
//!
//! A change is a JSON object that is merged into the stored one, field by field, at any depth. The schema of the
//! struct, which is also in the OpenAPI document, defines the valid values; [`Section::validate`] checks what a schema
//! cannot express. A category is therefore one struct.

use std::any::{Any, TypeId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use agentd_base::{FieldProblem, Patch, Problems, SecretState, SecretUpdate};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::destination::WriteOnly;
use super::overlay;
use super::safety::SafetySetting;

/// Reset that restores the defaults of a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResetGroup {
    /// Reset by `POST /api/settings/reset`.
    General,
    /// Reset by `POST /api/settings/security/reset`.
    Security,
    Never,
}

/// Category of settings, implemented by the domain that reads it. Use `#[serde(default)]` on the struct, so that fields
/// added by later versions have a value.
pub trait Section:
    Serialize + DeserializeOwned + Default + Clone + PartialEq + ToSchema + Send + Sync + 'static
{
    /// Name in the API and in the store.
    const NAME: &'static str;
    const RESET: ResetGroup;
    /// Write-only fields, which are `Option<SecretState>` in the struct. Requests contain them as text; they are stored
    /// in the vault under the scope `settings.<NAME>`. A field inside an object is named by its path, such as
    /// `discord.bot_token`; the object is `#[schema(inline)]`. Each field declares its destination and must be entered
    /// again if that changes.
    const SECRETS: &'static [WriteOnly] = &[];
    /// Settings that an import leaves unchanged unless it includes them.
    const SAFETY: &'static [SafetySetting] = &[];
    /// Schema of a change, declared with [`section_patch!`].
    type Patch: ToSchema + 'static;

    /// Normalizes values. Runs before [`Self::validate`].
    fn normalize(&mut self) {}

    /// Reports invalid fields that the schema accepts.
    fn validate(&self, problems: &mut Problems);
}

/// Scope of a section's write-only fields in the vault.
#[must_use]
pub(super) fn secret_scope(section: &str) -> String {
    format!("settings.{section}")
}

/// Partial update: an object whose fields are validated by the schema of the section.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(transparent)]
#[schema(value_type = Object)]
pub struct PartialObject(pub Map<String, Value>);

/// Change of one section, checked by its schema. Invalid fields are reported in `problems`; the other fields are
/// retained, so that the section's own rules are checked too and all problems are reported together.
#[derive(Debug, Clone)]
pub(super) struct CheckedChange {
    fields: Map<String, Value>,
    pub(super) secrets: Vec<(&'static str, Patch<SecretUpdate>)>,
    pub(super) problems: Vec<FieldProblem>,
    /// Problems of references to missing objects, reported only if the field has no other problem.
    pub(super) unresolved: Vec<FieldProblem>,
}

/// Section after a change.
#[derive(Debug, Clone)]
pub(super) struct ChangedSection {
    /// Value to store.
    pub(super) value: Value,
    pub(super) problems: Vec<FieldProblem>,
    /// Write-only fields that retained their values although their destination changed.
    pub(super) redirected: Vec<WriteOnly>,
}

impl CheckedChange {
    pub(super) fn field(&self, name: &str) -> Option<&Value> {
        self.fields.get(name)
    }
}

fn check_change<S: Section>(mut fields: Map<String, Value>) -> CheckedChange {
    let mut whole = Value::Object(fields);
    let mut problems = Problems::new();
    agentd_web::check::<S::Patch>(&mut whole, &mut problems);
    let mut problems = problems.into_result().err().unwrap_or_default();
    fields = match whole {
        Value::Object(fields) => fields,
        _ => Map::new(),
    };
    for problem in &problems {
        overlay::prune(&mut fields, &problem.field);
    }
    let mut secrets = Vec::new();
    for WriteOnly { path, .. } in S::SECRETS {
        match overlay::take(&mut fields, path).map(serde_json::from_value) {
            Some(Ok(Patch::Set(SecretUpdate::Shown(SecretState { set: false })))) => {
                let message = "cannot be cleared with {\"set\": false}; use null".to_owned();
                problems.push(FieldProblem { field: (*path).to_owned(), message });
            }
            Some(Ok(secret)) => secrets.push((*path, secret)),
            Some(Err(_)) | None => {}
        }
    }
    CheckedChange { fields, secrets, problems, unresolved: Vec::new() }
}

fn apply_change<S: Section>(
    stored: Option<&Value>,
    change: &CheckedChange,
) -> Result<ChangedSection, serde_json::Error> {
    let mut problems = change.problems.clone();
    let mut whole = serde_json::to_value(read_stored::<S>(stored)?)?;
    let before = whole.clone();
    // An unchanged reference is accepted even if its target no longer exists.
    let is_changed = |field: &str| whole.get(field) != change.field(field);
    let unresolved: Vec<_> =
        change.unresolved.iter().filter(|unresolved| is_changed(&unresolved.field)).cloned().collect();
    if let Value::Object(whole) = &mut whole {
        overlay::merge(whole, &change.fields);
        for (path, secret) in &change.secrets {
            let state = match secret {
                Patch::Set(SecretUpdate::New(_)) => serde_json::to_value(SecretState { set: true })?,
                Patch::Clear => Value::Null,
                Patch::Keep | Patch::Set(SecretUpdate::Shown(_)) => continue,
            };
            overlay::put(whole, path, state);
        }
    }
    match serde_json::from_value::<S>(whole) {
        Ok(mut section) => {
            section.normalize();
            let mut found = Problems::new();
            section.validate(&mut found);
            problems.extend(found.into_result().err().unwrap_or_default());
            for unresolved in unresolved {
                if !problems.iter().any(|problem| problem.field == unresolved.field) {
                    problems.push(unresolved);
                }
            }
            let value = serde_json::to_value(section)?;
            let redirected = redirected::<S>(&before, &value, change);
            Ok(ChangedSection { value, problems, redirected })
        }
        // The schema accepted a value that the type cannot represent.
        Err(error) => {
            problems.push(FieldProblem { field: "body".to_owned(), message: format!("is not valid: {error}") });
            Ok(ChangedSection { value: Value::Null, problems, redirected: Vec::new() })
        }
    }
}

/// Returns the write-only fields whose values are retained although their destination changes.
fn redirected<S: Section>(before: &Value, after: &Value, change: &CheckedChange) -> Vec<WriteOnly> {
    let (Value::Object(before), Value::Object(after)) = (before, after) else { return Vec::new() };
    let is_replaced = |path: &str| {
        let mut given = change.secrets.iter().filter(|(given, _)| *given == path);
        given.any(|(_, secret)| matches!(secret, Patch::Clear | Patch::Set(SecretUpdate::New(_))))
    };
    let is_misled = |secret: &&WriteOnly| !is_replaced(secret.path) && secret.changes_destination(before, after);
    S::SECRETS.iter().filter(is_misled).copied().collect()
}

fn read_stored<S: Section>(stored: Option<&Value>) -> Result<S, serde_json::Error> {
    stored.map_or_else(|| Ok(S::default()), |value| S::deserialize(value))
}

/// Loaded section.
#[derive(Clone)]
pub(super) struct LoadedSection {
    pub(super) value: Arc<dyn Any + Send + Sync>,
    /// JSON value as returned by the API.
    pub(super) view: Value,
}

/// Type-erased registered section.
#[derive(Clone, Copy)]
pub(super) struct Registered {
    pub(super) name: &'static str,
    pub(super) reset: ResetGroup,
    pub(super) secrets: &'static [WriteOnly],
    pub(super) safety: &'static [SafetySetting],
    type_id: TypeId,
    load: fn(Option<&Value>) -> Result<LoadedSection, serde_json::Error>,
    check: fn(Map<String, Value>) -> CheckedChange,
    apply: fn(Option<&Value>, &CheckedChange) -> Result<ChangedSection, serde_json::Error>,
}

impl Registered {
    pub(super) fn of<S: Section>() -> Self {
        Self {
            name: S::NAME,
            reset: S::RESET,
            secrets: S::SECRETS,
            safety: S::SAFETY,
            type_id: TypeId::of::<S>(),
            load: |stored| {
                let section = read_stored::<S>(stored)?;
                let view = serde_json::to_value(&section)?;
                Ok(LoadedSection { value: Arc::new(section), view })
            },
            check: check_change::<S>,
            apply: apply_change::<S>,
        }
    }

    /// Sets for each write-only field whether the vault has a value. After a restore without secrets it has none,
    /// whatever the archive contains.
    pub(super) fn mark_set_secrets(&self, stored: &mut Value, set_fields: &BTreeSet<(String, String)>) {
        let Value::Object(fields) = stored else { return };
        let scope = secret_scope(self.name);
        for WriteOnly { path, .. } in self.secrets {
            let is_set = set_fields.contains(&(scope.clone(), (*path).to_owned()));
            overlay::put(fields, path, if is_set { serde_json::json!({"set": true}) } else { Value::Null });
        }
    }

    pub(super) fn load(&self, stored: Option<&Value>) -> Result<LoadedSection, serde_json::Error> {
        (self.load)(stored)
    }

    pub(super) fn check(&self, fields: Map<String, Value>) -> CheckedChange {
        (self.check)(fields)
    }

    pub(super) fn apply(
        &self,
        stored: Option<&Value>,
        change: &CheckedChange,
    ) -> Result<ChangedSection, serde_json::Error> {
        (self.apply)(stored, change)
    }
}

/// All sections of the daemon, in display order.
#[derive(Clone, Default)]
pub struct Registry(Vec<Registered>);

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|section| section.name)).finish()
    }
}

impl Registry {
    /// Adds the section of a domain, unless it is registered already.
    #[must_use]
    pub fn with<S: Section>(mut self) -> Self {
        if self.find(S::NAME).is_none() {
            self.0.push(Registered::of::<S>());
        }
        self
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Registered> {
        self.0.iter()
    }

    pub(super) fn find(&self, name: &str) -> Option<&Registered> {
        self.0.iter().find(|section| section.name == name)
    }

    pub(super) fn position<S: Section>(&self) -> Option<usize> {
        self.0.iter().position(|section| section.type_id == TypeId::of::<S>())
    }

    pub(super) fn names(&self) -> Vec<&'static str> {
        self.0.iter().map(|section| section.name).collect()
    }

    /// Loads all sections; sections that are not stored have their defaults.
    ///
    /// # Errors
    /// Name of the section that cannot be read, and the error.
    pub(super) fn load(
        &self,
        stored: &BTreeMap<String, Value>,
    ) -> Result<Vec<LoadedSection>, (&'static str, serde_json::Error)> {
        let load = |section: &Registered| section.load(stored.get(section.name)).map_err(|error| (section.name, error));
        self.0.iter().map(load).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::settings::{AgentSettings, ProfileSettings, SecuritySettings};

    fn change<S: Section>(stored: Option<&Value>, fields: &Value) -> ChangedSection {
        let section = Registered::of::<S>();
        section.apply(stored, &section.check(fields.as_object().unwrap().clone())).unwrap()
    }

    fn problems(changed: &ChangedSection) -> Vec<String> {
        changed.problems.iter().map(|problem| format!("{}: {}", problem.field, problem.message)).collect()
    }

    #[test]
    fn change_preserves_omitted_fields() {
        let first = change::<ProfileSettings>(None, &json!({"display_name": " Ada ", "theme": "dark"}));
        assert_eq!(problems(&first), [""; 0]);
        let second = change::<ProfileSettings>(Some(&first.value), &json!({"timezone": "europe/berlin"}));
        assert_eq!(
            second.value,
            json!({"display_name": "Ada", "email": "", "avatar_url": null, "timezone": "Europe/Berlin", "theme": "dark"})
        );
    }

    #[test]
    fn schema_and_rule_problems_are_reported_together() {
        let changed = change::<ProfileSettings>(
            None,
            &json!({"theme": "blue", "timezone": "Mars", "email": "x", "display_name": null, "nmae": 1}),
        );
        let found = problems(&changed).join("\n");
        for part in [
            "theme: must be one of",
            "timezone: must be the IANA",
            "email: must be an address",
            "display_name: must be a string, not null",
            "nmae: is unknown; known fields: ",
        ] {
            assert!(found.contains(part), "{part} in {found}");
        }
    }

    #[test]
    fn null_clears_only_nullable_fields() {
        let set =
            change::<AgentSettings>(None, &json!({"default_model": "m", "daily_token_limit": 5, "temperature": 1}));
        let cleared =
            change::<AgentSettings>(Some(&set.value), &json!({"default_model": null, "daily_token_limit": null}));
        assert_eq!(problems(&cleared), [""; 0]);
        assert_eq!((&cleared.value["default_model"], &cleared.value["temperature"]), (&Value::Null, &json!(1.0)));
        assert!(!change::<AgentSettings>(None, &json!({"max_tool_rounds": null})).problems.is_empty());
    }

    #[test]
    fn problems_name_list_entries() {
        let changed = change::<SecuritySettings>(None, &json!({"allowed_hosts": ["a.example", "http://x", 7]}));
        assert_eq!(problems(&changed), ["allowed_hosts[2]: must be a string, not a number"]);
        let changed = change::<SecuritySettings>(None, &json!({"blocked_hosts": ["A.example.", "http://x"]}));
        assert!(problems(&changed)[0].starts_with("blocked_hosts[1]: "));
    }

    #[test]
    fn unknown_stored_fields_are_ignored() {
        let section = Registered::of::<ProfileSettings>();
        let loaded = section.load(Some(&json!({"theme": "light", "from_the_future": 1}))).unwrap();
        assert_eq!(loaded.view["theme"], "light");
        assert_eq!(loaded.view["timezone"], "UTC");
    }
}
