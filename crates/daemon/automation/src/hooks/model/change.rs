//! Changes to a hook: validation and application of a request.

use std::collections::BTreeSet;

use agentd_base::{FieldProblem, Patch, Problems, Secret, SecretUpdate};
use agentd_core::events::CATALOGUE;
use agentd_core::vault::{UrlSecrets, require_reentry};
use agentd_engine::agents::AgentId;
use agentd_net::webhook_signature;
use serde_json::{Map, Value};

use super::config::{self, Action, HookType, SECRET};
use super::filter::Filter;
use super::hook::{AGENT_SCOPE, Hook};
use super::{code_secrets, headers, urls};

const MAX_NAME: usize = 200;
const MAX_SOURCE_BYTES: usize = 256 * 1024;
const MAX_TAGS: usize = 32;
const MAX_TAG: usize = 64;
/// Minimum length of a secret in bytes, equal to that of inbound webhooks.
const MIN_SECRET: usize = 8;
const MAX_SECRET: usize = 1024;

/// A requested change of a hook. Omitted fields keep their value.
#[derive(Debug, Clone, Default)]
pub struct HookChange {
    pub name: Option<String>,
    pub event_type: Option<String>,
    pub enabled: Option<bool>,
    pub scope: Option<String>,
    /// Merged over the current config by name; null removes a name.
    pub config: Option<Map<String, Value>>,
    pub source_code: Patch<String>,
    pub filter_expr: Patch<Value>,
    pub priority: Option<i64>,
    pub tags: Option<Vec<String>>,
    pub max_retries: Option<u32>,
    pub bundled_id: Option<String>,
}

/// Change of the signing secret.
#[derive(Debug, Clone)]
pub(crate) enum SecretWrite {
    Keep,
    Clear,
    Put(Secret),
}

/// Changes to the secrets that the vault stores for a hook.
#[derive(Debug, Clone)]
pub(crate) struct SecretWrites {
    pub(crate) secret: SecretWrite,
    /// New values of credential headers. Stored headers that the config does not name are deleted.
    pub(crate) headers: Vec<(String, Secret)>,
    /// New values of config secrets of a Python hook, by their names in the vault.
    pub(crate) code: Vec<(String, Secret)>,
    /// Changes to the credentials in the URL.
    pub(crate) url: UrlSecrets,
}

impl HookChange {
    /// Applies the change to a hook and returns the secrets to write. `agent_of` resolves an agent name.
    ///
    /// # Errors
    /// All invalid fields. The hook must then be discarded.
    pub(crate) fn apply(
        self,
        hook: &mut Hook,
        agent_of: impl Fn(&str) -> Option<AgentId>,
    ) -> Result<SecretWrites, Vec<FieldProblem>> {
        let mut problems = Problems::new();
        if let Some(name) = self.name {
            name.trim().clone_into(&mut hook.name);
        }
        problems.require(
            !hook.name.is_empty() && hook.name.chars().count() <= MAX_NAME,
            "name",
            format!("must have 1 to {MAX_NAME} characters"),
        );
        if let Some(event_type) = self.event_type {
            hook.event_type = event_type;
        }
        let is_known = CATALOGUE.iter().any(|known| known.name == hook.event_type);
        problems.require(
            is_known,
            "event_type",
            "is not a known event type; list event types with GET /api/hooks/event-types",
        );
        if let Some(scope) = self.scope {
            match scope.strip_prefix(AGENT_SCOPE).map(|name| (name, agent_of(name))) {
                None if scope == Hook::GLOBAL => hook.agent_id = None,
                Some((_, Some(id))) => hook.agent_id = Some(id),
                Some((_, None)) => problems.add("scope", "names an unknown agent; list agents with GET /api/agents"),
                None => problems.add("scope", "must be `global`, or `agent:` and the svc_name of an agent"),
            }
            hook.scope = scope;
        }
        let before = hook.config.clone();
        let source_before = hook.source_code.clone();
        let changes_config = self.config.is_some();
        let secret = change_config(hook, self.config, &mut problems);
        let headers = headers::seal(hook, &mut problems);
        let code = code_secrets::seal(hook, &before, &mut problems);
        let url = urls::seal(hook, &before, &mut problems);
        match self.source_code {
            Patch::Keep => {}
            Patch::Clear => hook.source_code = None,
            Patch::Set(source) => hook.source_code = Some(source),
        }
        check_source(hook, &mut problems);
        // The code receives the secrets, and the rest of the config may name their destination. Changing either
        // therefore requires the secrets to be entered again.
        let is_steered = hook.hook_type == HookType::Python
            && changes_config
            && (without_limit(&before) != without_limit(&hook.config) || !code.is_empty());
        if hook.source_code != source_before || is_steered {
            if hook.has_secret && matches!(secret, SecretWrite::Keep) {
                require_reentry("config.secret", &mut problems);
            }
            code_secrets::require_config_secrets_reentry(hook, &code, &mut problems);
        }
        match self.filter_expr {
            Patch::Keep => {}
            Patch::Clear => hook.filter = None,
            Patch::Set(source) => match Filter::parse(&source) {
                Ok(filter) => hook.filter = Some(filter),
                Err(found) if found.path.is_empty() => problems.add("filter_expr", found.message),
                Err(found) => problems.add(format!("filter_expr.{}", found.path), found.message),
            },
        }
        hook.priority = self.priority.unwrap_or(hook.priority);
        hook.max_retries = self.max_retries.unwrap_or(hook.max_retries);
        if let Some(tags) = self.tags {
            let tags: Vec<String> = tags.into_iter().map(|tag| tag.trim().to_owned()).collect();
            let is_good = |tag: &String| !tag.is_empty() && tag.chars().count() <= MAX_TAG;
            problems.require(
                tags.len() <= MAX_TAGS && tags.iter().all(is_good),
                "tags",
                format!("must be at most {MAX_TAGS}, each of 1 to {MAX_TAG} characters"),
            );
            let mut seen = BTreeSet::new();
            hook.tags = tags.into_iter().filter(|tag| seen.insert(tag.clone())).collect();
        }
        if let Some(enabled) = self.enabled {
            hook.set_enabled(enabled);
        }
        hook.bundled_id = self.bundled_id.or_else(|| hook.bundled_id.take());
        problems.into_result().map(|()| SecretWrites { secret, headers, code, url })
    }
}

/// Validates a secret.
///
/// # Errors
/// The problem, as a predicate that follows the field name.
fn check_secret(secret: &Secret) -> Result<(), String> {
    let text = secret.expose();
    if !(MIN_SECRET..=MAX_SECRET).contains(&text.len()) {
        return Err(format!("must have {MIN_SECRET} to {MAX_SECRET} bytes; 32 random ones or more are recommended"));
    }
    if !webhook_signature::is_valid_secret(text) {
        return Err("must be base64 after the prefix `whsec_`".to_owned());
    }
    Ok(())
}

fn change_config(hook: &mut Hook, change: Option<Map<String, Value>>, problems: &mut Problems) -> SecretWrite {
    let is_new = matches!(hook.action, Action::Broken(_));
    let Some(mut change) = change.or_else(|| is_new.then(Map::new)) else { return SecretWrite::Keep };
    let secret = match change.remove(SECRET).map(|value| (value.is_null(), serde_json::from_value(value))) {
        None | Some((false, Ok(SecretUpdate::Shown(_)))) => SecretWrite::Keep,
        Some((true, _)) => SecretWrite::Clear,
        Some((false, Ok(SecretUpdate::New(secret)))) => {
            if let Err(message) = check_secret(&secret) {
                problems.add("config.secret", message);
            }
            SecretWrite::Put(secret)
        }
        Some((false, Err(_))) => {
            problems.add("config.secret", "must be a string, null, or {\"set\": true} to keep the stored value");
            SecretWrite::Keep
        }
    };
    match &secret {
        SecretWrite::Keep => {}
        SecretWrite::Clear => (hook.has_secret, hook.is_secret_stored) = (false, false),
        SecretWrite::Put(_) => (hook.has_secret, hook.is_secret_stored) = (true, true),
    }
    let mut wanted = hook.config.clone();
    let mut entered = None;
    for (name, value) in change {
        match value {
            Value::Null => drop(wanted.remove(&name)),
            Value::Object(given) if name == headers::HEADERS && hook.hook_type == HookType::Http => {
                wanted.insert(name, Value::Object(headers::wanted(hook, given.clone(), problems)));
                entered = Some(given);
            }
            value => drop(wanted.insert(name, value)),
        }
    }
    if let Some((kept, action)) = config::parse(hook.hook_type, &wanted, problems) {
        let before = std::mem::replace(&mut hook.action, action);
        hook.config = kept;
        if before.server() != hook.action.server() {
            headers::require_headers_reentry(hook, entered.as_ref(), problems);
            // A new server must not receive signatures made with the old secret.
            if hook.has_secret && matches!(secret, SecretWrite::Keep) {
                require_reentry("config.secret", problems);
            }
        }
    }
    secret
}

fn check_source(hook: &Hook, problems: &mut Problems) {
    let source = hook.source_code.as_deref();
    match hook.hook_type {
        HookType::Python => problems.require(
            source.is_some_and(|source| !source.trim().is_empty() && source.len() <= MAX_SOURCE_BYTES),
            "source_code",
            format!("is required for python hooks and must have at most {MAX_SOURCE_BYTES} bytes"),
        ),
        HookType::Http | HookType::Builtin => {
            problems.require(source.is_none(), "source_code", "is only permitted for python hooks");
        }
    }
}

/// Returns the config without `timeout_seconds`, which does not influence the code.
fn without_limit(config: &Map<String, Value>) -> Map<String, Value> {
    let mut config = config.clone();
    config.remove("timeout_seconds");
    config
}
