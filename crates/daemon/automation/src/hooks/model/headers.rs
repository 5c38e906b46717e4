//! Credential headers of HTTP hooks. Their values are stored in the vault; the config holds the placeholder
//! `{"set": true}` instead.

use std::collections::BTreeSet;

use agentd_base::{Problems, Secret};
use agentd_core::vault::require_reentry;
use agentd_engine::tools::carries_credential;
use serde_json::{Map, Value, json};

use super::config::{HookType, is_sealed, stored_action};
use super::hook::Hook;
use super::{HookId, code_secrets};

pub(super) const HEADERS: &str = "headers";
/// Prefix of the names of headers in the vault.
pub(crate) const HEADER_SECRET_PREFIX: &str = "headers.";

/// Returns the vault scope of a hook's secrets.
pub(crate) fn secret_scope(id: &HookId) -> String {
    format!("hooks.{id}")
}

impl Hook {
    /// Returns the lowercase names of the headers whose values are stored in the vault.
    #[must_use]
    pub(crate) fn sealed_headers(&self) -> Vec<String> {
        let headers = self.config.get(HEADERS).and_then(Value::as_object).filter(|_| self.hook_type == HookType::Http);
        let headers = headers.into_iter().flatten();
        headers.filter(|(name, value)| is_sealed(name, value)).map(|(name, _)| name.to_ascii_lowercase()).collect()
    }

    /// Returns the config for display. Credential headers and config secrets show only whether they have a value,
    /// including headers that earlier versions stored in plain text.
    #[must_use]
    pub(crate) fn redacted_config(&self) -> Map<String, Value> {
        let mut config = self.config.clone();
        if self.hook_type == HookType::Http
            && let Some(Value::Object(headers)) = config.get_mut(HEADERS)
        {
            for (name, value) in headers.iter_mut().filter(|(name, _)| carries_credential(name)) {
                *value = json!({"set": !self.missing_headers.contains(&name.to_ascii_lowercase())});
            }
        }
        if self.hook_type == HookType::Python {
            code_secrets::show_missing(&mut config, &self.missing_values);
        }
        config
    }
}

fn field(name: &str) -> String {
    format!("config.{HEADERS}.{}", name.chars().take(64).collect::<String>())
}

/// Returns the headers that a request sets. A placeholder keeps the stored value, and a null credential is omitted.
pub(super) fn wanted(hook: &Hook, given: Map<String, Value>, problems: &mut Problems) -> Map<String, Value> {
    let current = hook.config.get(HEADERS).and_then(Value::as_object);
    let mut wanted = Map::new();
    for (name, value) in given {
        if carries_credential(&name) && value.is_null() {
            continue;
        }
        if !is_sealed(&name, &value) {
            wanted.insert(name, value);
            continue;
        }
        match current.into_iter().flatten().find(|(known, _)| known.eq_ignore_ascii_case(&name)) {
            Some((_, stored)) => {
                wanted.insert(name, stored.clone());
            }
            None => problems.add(field(&name), "has no stored value; enter a value"),
        }
    }
    wanted
}

/// Reports the headers that must be entered again because the hook sends to a different server. `entered` holds the
/// headers of the request.
pub(super) fn require_headers_reentry(hook: &Hook, entered: Option<&Map<String, Value>>, problems: &mut Problems) {
    let is_entered = |name: &str| {
        let mut entered = entered.into_iter().flatten();
        entered.any(|(given, value)| given.eq_ignore_ascii_case(name) && value.is_string())
    };
    let headers = hook.config.get(HEADERS).and_then(Value::as_object);
    for (name, _) in headers.into_iter().flatten() {
        if carries_credential(name) && !is_entered(name) {
            require_reentry(field(name), problems);
        }
    }
}

/// Moves plain-text credentials out of the config and returns them for the vault, by lowercase name.
pub(super) fn seal(hook: &mut Hook, problems: &mut Problems) -> Vec<(String, Secret)> {
    let Some(Value::Object(headers)) = hook.config.get_mut(HEADERS).filter(|_| hook.hook_type == HookType::Http) else {
        return Vec::new();
    };
    let (mut seen, mut taken) = (BTreeSet::new(), Vec::new());
    for (name, value) in headers.iter_mut().filter(|(name, _)| carries_credential(name)) {
        let lower = name.to_ascii_lowercase();
        if !seen.insert(lower.clone()) {
            problems.add(field(name), "is given more than once");
        }
        if let Value::String(text) = value {
            taken.push((lower, Secret::new(std::mem::take(text))));
        }
        *value = json!({"set": true});
    }
    if !taken.is_empty() {
        hook.missing_headers.retain(|missing| taken.iter().all(|(name, _)| name != missing));
        hook.action = stored_action(hook.hook_type, &hook.config);
    }
    taken
}

#[cfg(test)]
mod tests {
    use agentd_base::Timestamp;

    use super::*;
    use crate::hooks::model::{Action, HookChange, HookId};

    #[test]
    fn any_change_moves_credential_headers_to_the_vault() {
        let mut hook = Hook::empty(HookId::from("hook_1"), HookType::Http, Timestamp::from_micros(0));
        let stored = json!({"url": "https://x.example/", "headers": {"Authorization": "Bearer x", "X-Own": "1"}});
        hook.config = stored.as_object().unwrap().clone();
        hook.action = stored_action(HookType::Http, &hook.config);
        // A plain-text credential of an earlier version is sent, and not shown.
        let Action::Http(http) = &hook.action else { panic!("{:?}", hook.action) };
        assert_eq!(http.headers["authorization"], "Bearer x");
        assert_eq!(hook.redacted_config()["headers"], json!({"Authorization": {"set": true}, "X-Own": "1"}));
        let change = HookChange {
            name: Some("x".to_owned()),
            event_type: Some("memory.stored".to_owned()),
            ..HookChange::default()
        };
        let writes = change.apply(&mut hook, |_| None).unwrap();
        let [(name, value)] = &writes.headers[..] else { panic!("{writes:?}") };
        assert_eq!((name.as_str(), value.expose()), ("authorization", "Bearer x"));
        assert_eq!(hook.config["headers"], json!({"Authorization": {"set": true}, "X-Own": "1"}));
        assert_eq!(hook.sealed_headers(), ["authorization"]);
        let Action::Http(http) = &hook.action else { panic!("{:?}", hook.action) };
        assert!(!http.headers.contains_key("authorization") && http.headers.contains_key("x-own"));
    }
}
