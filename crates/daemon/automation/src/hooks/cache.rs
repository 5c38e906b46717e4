//! In-memory cache of hooks. A transaction compares the cache version with the database before use, so that no event
//! is matched against an outdated hook.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use agentd_base::{Redactor, Secret};
use agentd_core::vault::{Vault, VaultError, open_url, redact_url_secrets};
use agentd_store::Read;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Value};

use super::error::HookError;
use super::model::{Action, HEADER_SECRET_PREFIX, Hook, HookId, SECRET, secret_scope};
use super::store::{self, Version};

/// A hook with its decrypted secrets. A secret that cannot be loaded is replaced by the reason.
#[derive(Debug)]
pub(super) struct LoadedHook {
    pub(super) hook: Hook,
    pub(super) secret: Result<Option<Secret>, String>,
    /// Headers whose values are stored in the vault, or the reason they cannot be loaded.
    pub(super) headers: Result<HeaderMap, String>,
    /// Config including secrets, as passed to code, or the reason the secrets cannot be loaded.
    pub(super) code_config: Result<Map<String, Value>, String>,
    /// Target URL including credentials, or the reason they cannot be loaded. `None` if the hook has no URL.
    pub(super) url: Option<Result<String, String>>,
    /// Removes the hook's secrets from stored output, because receivers and code may echo them.
    pub(super) redactor: Redactor,
    /// Scheme, host and port of the target URL.
    pub(super) receiver: Option<Arc<str>>,
    /// Whether the receiver accepted the last event quickly. False until the first attempt.
    pub(super) is_quick: AtomicBool,
}

impl LoadedHook {
    fn new(
        hook: Hook,
        secret: Result<Option<Secret>, String>,
        headers: Result<HeaderMap, String>,
        code_secrets: Result<BTreeMap<String, Secret>, String>,
        url: Option<Result<String, String>>,
    ) -> Self {
        let receiver = match &hook.action {
            Action::Http(http) => Some(http.url.origin().ascii_serialization().into()),
            _ => None,
        };
        let redactor = redactor(&hook, &secret, &headers, &code_secrets, &url);
        let code_config = code_secrets.map(|values| hook.opened_config(&values));
        Self { hook, secret, headers, code_config, url, redactor, receiver, is_quick: AtomicBool::new(false) }
    }
}

/// All hooks that are not deleted, by id and by event type.
#[derive(Debug)]
pub(super) struct HookCache {
    pub(super) version: Version,
    by_id: HashMap<HookId, Arc<LoadedHook>>,
    by_event: HashMap<String, Vec<Arc<LoadedHook>>>,
}

impl HookCache {
    pub(super) async fn load(read: &mut Read, vault: &Vault, version: Version) -> Result<Self, HookError> {
        let mut cache = Self { by_id: HashMap::new(), by_event: HashMap::new(), version };
        for hook in store::list_hooks(read, &cache.version.database).await? {
            let secret = if hook.has_secret {
                find_secret(read, vault, &hook.id, SECRET, SECRET).await?.map(Some)
            } else {
                Ok(None)
            };
            let headers = find_headers(read, vault, &hook).await?;
            let code_secrets = find_code_secrets(read, vault, &hook).await?;
            let url = match hook.stored_url() {
                Some(stored) => Some(open_url(read, vault, &secret_scope(&hook.id), stored).await?),
                None => None,
            };
            let loaded = Arc::new(LoadedHook::new(hook, secret, headers, code_secrets, url));
            cache.by_event.entry(loaded.hook.event_type.clone()).or_default().push(Arc::clone(&loaded));
            cache.by_id.insert(loaded.hook.id.clone(), loaded);
        }
        for hooks in cache.by_event.values_mut() {
            hooks.sort_by(|a, b| {
                let order = |loaded: &LoadedHook| (-loaded.hook.priority, loaded.hook.created_at);
                order(a).cmp(&order(b)).then_with(|| a.hook.id.cmp(&b.hook.id))
            });
        }
        Ok(cache)
    }

    pub(super) fn find(&self, id: &HookId) -> Option<&Arc<LoadedHook>> {
        self.by_id.get(id)
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = &HookId> {
        self.by_id.keys()
    }

    /// Returns the ids of enabled hooks of the same event type and queue that have a higher priority than `hook`.
    pub(super) fn higher_priority_hooks(&self, hook: &Hook) -> Vec<&str> {
        // Listeners are sorted by descending priority.
        let higher = self.listeners(&hook.event_type).iter().take_while(|other| other.hook.priority > hook.priority);
        let is_ahead = |other: &&Arc<LoadedHook>| other.hook.enabled && other.hook.is_queued() == hook.is_queued();
        higher.filter(is_ahead).map(|other| other.hook.id.as_str()).collect()
    }

    /// Returns the hooks that listen to an event type, highest priority first.
    pub(super) fn listeners(&self, event_type: &str) -> &[Arc<LoadedHook>] {
        self.by_event.get(event_type).map(Vec::as_slice).unwrap_or_default()
    }
}

/// Headers that never carry a credential.
const PUBLIC_HEADERS: [&str; 5] = ["accept", "accept-language", "content-type", "content-language", "user-agent"];

/// Builds a redactor for every value passed to a receiver or to code. Any header set by the owner may be a credential,
/// whatever its name.
fn redactor(
    hook: &Hook,
    secret: &Result<Option<Secret>, String>,
    headers: &Result<HeaderMap, String>,
    code_secrets: &Result<BTreeMap<String, Secret>, String>,
    url: &Option<Result<String, String>>,
) -> Redactor {
    let mut redactor = Redactor::from_secrets(secret.iter().flatten());
    let own = match &hook.action {
        Action::Http(http) => Some(&http.headers),
        _ => None,
    };
    for (name, value) in own.into_iter().chain(headers).flatten() {
        if let Ok(value) = value.to_str()
            && !PUBLIC_HEADERS.contains(&name.as_str())
        {
            redactor.add(value);
        }
    }
    for secret in code_secrets.iter().flat_map(BTreeMap::values) {
        match serde_json::from_str(secret.expose()) {
            Ok(Value::String(text)) => redactor.add(&text),
            _ => redactor.add(secret.expose()),
        }
    }
    if let Some(Ok(url)) = url {
        redact_url_secrets(&mut redactor, url);
    }
    redactor
}

async fn find_headers(read: &mut Read, vault: &Vault, hook: &Hook) -> Result<Result<HeaderMap, String>, HookError> {
    let mut headers = HeaderMap::new();
    for name in hook.sealed_headers() {
        let (key, what) = (format!("{HEADER_SECRET_PREFIX}{name}"), format!("header {name}"));
        let secret = match find_secret(read, vault, &hook.id, &key, &what).await? {
            Ok(secret) => secret,
            Err(problem) => return Ok(Err(problem)),
        };
        let (Ok(header), Ok(mut value)) = (HeaderName::try_from(name.as_str()), HeaderValue::try_from(secret.expose()))
        else {
            return Ok(Err(format!("the {what} of the hook is invalid; enter it again")));
        };
        value.set_sensitive(true);
        headers.insert(header, value);
    }
    Ok(Ok(headers))
}

/// Loads the config secrets of a Python hook: JSON texts by their names in the vault.
async fn find_code_secrets(
    read: &mut Read,
    vault: &Vault,
    hook: &Hook,
) -> Result<Result<BTreeMap<String, Secret>, String>, HookError> {
    let mut values = BTreeMap::new();
    for name in hook.sealed_values() {
        match find_secret(read, vault, &hook.id, &name, "config secret").await? {
            Ok(secret) => drop(values.insert(name, secret)),
            Err(problem) => return Ok(Err(problem)),
        }
    }
    Ok(Ok(values))
}

/// Loads a secret, or returns the reason it is missing. `what` names the secret in that message.
async fn find_secret(
    read: &mut Read,
    vault: &Vault,
    id: &HookId,
    name: &str,
    what: &str,
) -> Result<Result<Secret, String>, HookError> {
    match vault.get_in(read, &secret_scope(id), name).await {
        Ok(Some(secret)) => Ok(Ok(secret)),
        // A backup without its secrets was restored.
        Ok(None) => Ok(Err(format!("the {what} of the hook is missing; enter it again"))),
        // One secret that cannot be decrypted must not prevent the other hooks from loading.
        Err(error @ VaultError::Unsealable { .. }) => Ok(Err(error.to_string())),
        Err(error) => Err(error.into()),
    }
}
