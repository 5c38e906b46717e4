//! Secrets in the config of Python hooks. Their values are stored in the vault; the config holds the placeholder
//! `{"set": true}` instead.
//!
//! A member is secret if its name is like that of a credential, or if `secret_fields` names it. All values inside such
//! a member are secret.

use std::collections::{BTreeMap, BTreeSet};

use agentd_base::{Problems, Secret, sha256};
use agentd_core::vault::{is_credential_parameter, require_reentry};
use serde_json::{Map, Value, json};

use super::config::{HookType, SECRET};
use super::hook::Hook;

/// The member that names further secret members.
pub(super) const SECRET_FIELDS: &str = "secret_fields";
/// Prefix of the names of config secrets in the vault.
pub(crate) const CODE_SECRET_PREFIX: &str = "config.";
const MAX_SECRETS: usize = 64;
const MAX_SECRET_FIELDS: usize = 32;
const MAX_SECRET_FIELD: usize = 64;
const VAULT_NAME_DIGITS: usize = 32;

/// Position of a value in a config: names and indices.
type Path = Vec<String>;

impl Hook {
    /// Returns the vault names of the secrets in the config.
    #[must_use]
    pub(crate) fn sealed_values(&self) -> BTreeSet<String> {
        if self.hook_type != HookType::Python {
            return BTreeSet::new();
        }
        placeholders(&self.config).iter().map(vault_name).collect()
    }

    /// Returns the config with its secrets filled in. `values` holds JSON texts by their vault names.
    #[must_use]
    pub(crate) fn opened_config(&self, values: &BTreeMap<String, Secret>) -> Map<String, Value> {
        let mut config = Value::Object(self.config.clone());
        visit(&mut config, &mut Vec::new(), false, &secret_fields(&self.config), &mut |path, value, _| {
            if let Some(secret) = values.get(&vault_name(path)).filter(|_| is_placeholder(value)) {
                *value = serde_json::from_str(secret.expose()).unwrap_or_default();
            }
        });
        match config {
            Value::Object(config) => config,
            _ => Map::new(),
        }
    }
}

/// Sets the placeholder of each secret without a value to `{"set": false}`.
pub(super) fn show_missing(config: &mut Map<String, Value>, missing: &BTreeSet<String>) {
    let fields = secret_fields(config);
    let mut whole = Value::Object(std::mem::take(config));
    visit(&mut whole, &mut Vec::new(), false, &fields, &mut |path, value, _| {
        if is_placeholder(value) {
            *value = json!({"set": !missing.contains(&vault_name(path))});
        }
    });
    if let Value::Object(shown) = whole {
        *config = shown;
    }
}

/// Moves plain-text secrets out of the config and returns them for the vault. A placeholder keeps the value that the
/// same path had in `before`, the previous config.
pub(super) fn seal(hook: &mut Hook, before: &Map<String, Value>, problems: &mut Problems) -> Vec<(String, Secret)> {
    if hook.hook_type != HookType::Python {
        return Vec::new();
    }
    check_secret_fields(&hook.config, problems);
    let had: BTreeSet<Path> = placeholders(before).into_iter().collect();
    let fields = secret_fields(&hook.config);
    let (mut taken, mut count) = (Vec::new(), 0);
    let mut whole = Value::Object(std::mem::take(&mut hook.config));
    visit(&mut whole, &mut Vec::new(), false, &fields, &mut |path, value, is_secret| {
        if is_placeholder(value) {
            count += 1;
            if had.contains(path) {
                *value = json!({"set": true});
            } else {
                problems.add(field(path), "has no stored value; enter a value");
            }
        } else if is_secret {
            count += 1;
            taken.push((vault_name(path), Secret::new(value.to_string())));
            *value = json!({"set": true});
        }
    });
    problems.require(count <= MAX_SECRETS, "config", format!("must contain at most {MAX_SECRETS} secrets"));
    if let Value::Object(config) = whole {
        hook.config = config;
    }
    hook.missing_values.retain(|missing| taken.iter().all(|(name, _)| name != missing));
    taken
}

/// Reports the secrets that must be entered again because code or config has changed. `entered` holds the secrets of
/// the request.
pub(super) fn require_config_secrets_reentry(hook: &Hook, entered: &[(String, Secret)], problems: &mut Problems) {
    for path in placeholders(&hook.config) {
        if entered.iter().all(|(name, _)| *name != vault_name(&path)) {
            require_reentry(field(&path), problems);
        }
    }
}

fn check_secret_fields(config: &Map<String, Value>, problems: &mut Problems) {
    let Some(given) = config.get(SECRET_FIELDS) else { return };
    let is_name = |name: &Value| name.as_str().is_some_and(|name| (1..=MAX_SECRET_FIELD).contains(&name.len()));
    let is_good = given.as_array().is_some_and(|names| names.len() <= MAX_SECRET_FIELDS && names.iter().all(is_name));
    let message =
        format!("must be a list of at most {MAX_SECRET_FIELDS} member names, each of 1 to {MAX_SECRET_FIELD} bytes");
    problems.require(is_good, &format!("config.{SECRET_FIELDS}"), message);
}

fn secret_fields(config: &Map<String, Value>) -> BTreeSet<String> {
    let names = config.get(SECRET_FIELDS).and_then(Value::as_array).into_iter().flatten();
    names.filter_map(Value::as_str).map(str::to_owned).collect()
}

fn placeholders(config: &Map<String, Value>) -> Vec<Path> {
    let (mut whole, mut found) = (Value::Object(config.clone()), Vec::new());
    visit(&mut whole, &mut Vec::new(), false, &BTreeSet::new(), &mut |path, value, _| {
        if is_placeholder(value) {
            found.push(path.clone());
        }
    });
    found
}

/// Calls `at` for every placeholder and every leaf value, with whether it is secret. Recursion is bounded by the depth
/// limit of request bodies.
fn visit(
    value: &mut Value,
    path: &mut Path,
    is_secret: bool,
    fields: &BTreeSet<String>,
    at: &mut impl FnMut(&Path, &mut Value, bool),
) {
    if is_placeholder(value) {
        return at(path, value, is_secret);
    }
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                // Reserved members are handled separately.
                if path.is_empty() && [SECRET, SECRET_FIELDS, "timeout_seconds"].contains(&name.as_str()) {
                    continue;
                }
                let is_secret = is_secret || fields.contains(name) || is_credential_parameter(&name.to_lowercase());
                path.push(name.clone());
                visit(member, path, is_secret, fields, at);
                path.pop();
            }
        }
        Value::Array(entries) => {
            for (index, entry) in entries.iter_mut().enumerate() {
                path.push(index.to_string());
                visit(entry, path, is_secret, fields, at);
                path.pop();
            }
        }
        Value::String(text) => {
            let is_secret = is_secret && !text.is_empty();
            at(path, value, is_secret);
        }
        // A number under a credential-like name, such as `max_tokens`, is secret only if `secret_fields` names it.
        Value::Number(_) => {
            let is_named = path.iter().any(|name| fields.contains(name));
            at(path, value, is_named);
        }
        Value::Null | Value::Bool(_) => at(path, value, false),
    }
}

fn is_placeholder(value: &Value) -> bool {
    value.as_object().is_some_and(|members| members.len() == 1 && members.get("set").is_some_and(Value::is_boolean))
}

/// Returns the vault name of a path: a hash, so that its length does not depend on the member names.
fn vault_name(path: &Path) -> String {
    let mut digits = hex::encode(sha256(json!(path).to_string().as_bytes()));
    digits.truncate(VAULT_NAME_DIGITS);
    format!("{CODE_SECRET_PREFIX}{digits}")
}

fn field(path: &Path) -> String {
    let path: String = path.join(".").chars().take(100).collect();
    format!("config.{path}")
}

#[cfg(test)]
mod tests {
    use agentd_base::Timestamp;

    use super::*;
    use crate::hooks::model::HookId;

    fn hook(config: &Value) -> Hook {
        let mut hook = Hook::empty(HookId::from("hook_1"), HookType::Python, Timestamp::from_micros(0));
        hook.config = config.as_object().unwrap().clone();
        hook
    }

    #[test]
    fn secrets_are_found_by_name_and_by_declaration_at_any_depth() {
        let given = json!({
            "secret_fields": ["account"], "account": 4711, "api_key": "k", "max_tokens": 100, "use_token": true,
            "smtp": {"host": "mail.example.org", "password": "p", "port": 25},
            "accessTokens": {"github": "g"}, "servers": [{"Authorization": "a"}], "empty_token": "", "note": "plain",
        });
        let mut hook = hook(&given);
        let mut problems = Problems::new();
        let taken = seal(&mut hook, &Map::new(), &mut problems);
        assert_eq!(problems.into_result(), Ok(()));
        let set = json!({"set": true});
        let expected = json!({
            "secret_fields": ["account"], "account": set, "api_key": set, "max_tokens": 100, "use_token": true,
            "smtp": {"host": "mail.example.org", "password": set, "port": 25},
            "accessTokens": {"github": set}, "servers": [{"Authorization": set}], "empty_token": "", "note": "plain",
        });
        assert_eq!(Value::Object(hook.config.clone()), expected);
        assert_eq!(hook.sealed_values(), taken.iter().map(|(name, _)| name.clone()).collect());
        assert_eq!(Value::Object(hook.opened_config(&taken.into_iter().collect())), given);
    }

    #[test]
    fn placeholder_keeps_only_a_value_that_was_there() {
        let mut problems = Problems::new();
        let before = hook(&json!({"api_key": {"set": true}}));
        let mut after = hook(&json!({"api_key": {"set": true}, "smtp": {"password": {"set": true}}}));
        assert!(seal(&mut after, &before.config, &mut problems).is_empty());
        let fields: Vec<String> = problems.into_result().unwrap_err().into_iter().map(|found| found.field).collect();
        assert_eq!(fields, ["config.smtp.password"]);
    }
}
