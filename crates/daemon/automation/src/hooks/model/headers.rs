//! Headers of http hooks that carry a credential. Their values lie in the vault; where they stand in the config, it
//! says `{"set": true}`.

use std::collections::BTreeSet;

use agentd_base::{Problems, Secret};
use agentd_core::vault::require_again;
use agentd_engine::tools::carries_credential;
use serde_json::{Map, Value, json};

use super::config::{HookType, is_sealed, stored_action};
use super::hook::Hook;
use super::{HookId, code_secrets};

pub(super) const HEADERS: &str = "headers";
/// What the names of headers begin with in the vault.
pub(crate) const HEADER_SECRETS: &str = "headers.";

/// Under which a hook's secrets lie in the vault.
pub(crate) fn secret_scope(id: &HookId) -> String {
    format!("hooks.{id}")
}

impl Hook {
    /// Names of the headers whose values lie in the vault, in small letters.
    #[must_use]
    pub(crate) fn sealed_headers(&self) -> Vec<String> {
        let headers = self.config.get(HEADERS).and_then(Value::as_object).filter(|_| self.hook_type == HookType::Http);
        let headers = headers.into_iter().flatten();
        headers.filter(|(name, value)| is_sealed(name, value)).map(|(name, _)| name.to_ascii_lowercase()).collect()
    }

    /// The config as it is shown: of headers that carry a credential and of secrets for code whether they have a value,
    /// of headers also where the value still stands in the clear.
    #[must_use]
    pub(crate) fn shown_config(&self) -> Map<String, Value> {
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

/// The headers that a request wants. Those that come back as they were shown keep their values, and null is as if
/// they were left out.
pub(super) fn wanted(hook: &Hook, given: Map<String, Value>, problems: &mut Problems) -> Map<String, Value> {
    let there = hook.config.get(HEADERS).and_then(Value::as_object);
    let mut wanted = Map::new();
    for (name, value) in given {
        if carries_credential(&name) && value.is_null() {
            continue;
        }
        if !is_sealed(&name, &value) {
            wanted.insert(name, value);
            continue;
        }
        match there.into_iter().flatten().find(|(known, _)| known.eq_ignore_ascii_case(&name)) {
            Some((_, kept)) => {
                wanted.insert(name, kept.clone());
            }
            None => problems.add(field(&name), "has no value yet; give it one"),
        }
    }
    wanted
}

/// Names the headers that must be entered again, because the hook sends to another server now. `entered` are those of
/// the request.
pub(super) fn enter_again(hook: &Hook, entered: Option<&Map<String, Value>>, problems: &mut Problems) {
    let is_entered = |name: &str| {
        let mut entered = entered.into_iter().flatten();
        entered.any(|(given, value)| given.eq_ignore_ascii_case(name) && value.is_string())
    };
    let headers = hook.config.get(HEADERS).and_then(Value::as_object);
    for (name, _) in headers.into_iter().flatten() {
        if carries_credential(name) && !is_entered(name) {
            require_again(field(name), problems);
        }
    }
}

/// Takes what still stands in the clear out of the config, for the vault: names in small letters with their values.
pub(super) fn seal(hook: &mut Hook, problems: &mut Problems) -> Vec<(String, Secret)> {
    let Some(Value::Object(headers)) = hook.config.get_mut(HEADERS).filter(|_| hook.hook_type == HookType::Http) else {
        return Vec::new();
    };
    let (mut seen, mut taken) = (BTreeSet::new(), Vec::new());
    for (name, value) in headers.iter_mut().filter(|(name, _)| carries_credential(name)) {
        let lower = name.to_ascii_lowercase();
        if !seen.insert(lower.clone()) {
            problems.add(field(name), "stands there twice");
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
    fn what_carries_a_credential_leaves_the_config_at_any_change() {
        let mut hook = Hook::empty(HookId::from("hook_1"), HookType::Http, Timestamp::from_micros(0));
        let stored = json!({"url": "https://x.example/", "headers": {"Authorization": "Bearer x", "X-Own": "1"}});
        hook.config = stored.as_object().unwrap().clone();
        hook.action = stored_action(HookType::Http, &hook.config);
        // As it was stored before: it is sent, and not shown.
        let Action::Http(http) = &hook.action else { panic!("{:?}", hook.action) };
        assert_eq!(http.headers["authorization"], "Bearer x");
        assert_eq!(hook.shown_config()["headers"], json!({"Authorization": {"set": true}, "X-Own": "1"}));
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
