//! The hooks in memory. Whoever works in a transaction asks there whether they are current, so
//! that no event is matched against what a hook was before.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use agentd_base::{Redactor, Secret};
use agentd_core::vault::{Vault, VaultError, hide_url_secrets, open_url};
use agentd_store::Read;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Value};

use super::error::HookError;
use super::model::{Action, HEADER_SECRETS, Hook, HookId, SECRET, secret_scope};
use super::store::{self, Version};

/// A hook with its secret, or why that cannot be had.
#[derive(Debug)]
pub(super) struct LoadedHook {
    pub(super) hook: Hook,
    pub(super) secret: Result<Option<Secret>, String>,
    /// The headers whose values lie in the vault, or why they cannot be had.
    pub(super) headers: Result<HeaderMap, String>,
    /// The config with its secrets, for code, or why those cannot be had.
    pub(super) code_config: Result<Map<String, Value>, String>,
    /// Where it sends to, with the credentials in its url, or why that cannot be had. `None`: it sends nowhere.
    pub(super) url: Option<Result<String, String>>,
    /// What must not be kept of what others say: they may repeat what they were sent.
    pub(super) redactor: Redactor,
    /// Where it sends to: the scheme, host and port of its url.
    pub(super) receiver: Option<Arc<str>>,
    /// Whether the receiver took the last event, and did so soon. At first nobody knows.
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

/// Every hook that is there.
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

    /// Those that go before a hook where both hear of the same event: in the same table, with a higher priority.
    pub(super) fn going_before(&self, hook: &Hook) -> Vec<&str> {
        // They are sorted so that these come first.
        let higher = self.listening(&hook.event_type).iter().take_while(|other| other.hook.priority > hook.priority);
        let goes_before = |other: &&Arc<LoadedHook>| other.hook.enabled && other.hook.is_queued() == hook.is_queued();
        higher.filter(goes_before).map(|other| other.hook.id.as_str()).collect()
    }

    /// Those that listen to a type, the highest priority first.
    pub(super) fn listening(&self, event_type: &str) -> &[Arc<LoadedHook>] {
        self.by_event.get(event_type).map(Vec::as_slice).unwrap_or_default()
    }
}

/// Headers that say nothing but what is sent.
const PUBLIC_HEADERS: [&str; 5] = ["accept", "accept-language", "content-type", "content-language", "user-agent"];

/// Of everything that a receiver or code is given: whatever its name, the owner's header may be a credential.
fn redactor(
    hook: &Hook,
    secret: &Result<Option<Secret>, String>,
    headers: &Result<HeaderMap, String>,
    code_secrets: &Result<BTreeMap<String, Secret>, String>,
    url: &Option<Result<String, String>>,
) -> Redactor {
    let mut redactor = Redactor::of(secret.iter().flatten());
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
        hide_url_secrets(&mut redactor, url);
    }
    redactor
}

async fn find_headers(read: &mut Read, vault: &Vault, hook: &Hook) -> Result<Result<HeaderMap, String>, HookError> {
    let mut headers = HeaderMap::new();
    for name in hook.sealed_headers() {
        let (key, what) = (format!("{HEADER_SECRETS}{name}"), format!("header {name}"));
        let secret = match find_secret(read, vault, &hook.id, &key, &what).await? {
            Ok(secret) => secret,
            Err(problem) => return Ok(Err(problem)),
        };
        let (Ok(header), Ok(mut value)) = (HeaderName::try_from(name.as_str()), HeaderValue::try_from(secret.expose()))
        else {
            return Ok(Err(format!("the hook's {what} cannot be written; enter it again")));
        };
        value.set_sensitive(true);
        headers.insert(header, value);
    }
    Ok(Ok(headers))
}

/// JSON texts by their names in the vault.
async fn find_code_secrets(
    read: &mut Read,
    vault: &Vault,
    hook: &Hook,
) -> Result<Result<BTreeMap<String, Secret>, String>, HookError> {
    let mut values = BTreeMap::new();
    for name in hook.sealed_values() {
        match find_secret(read, vault, &hook.id, &name, "secret in its config").await? {
            Ok(secret) => drop(values.insert(name, secret)),
            Err(problem) => return Ok(Err(problem)),
        }
    }
    Ok(Ok(values))
}

/// `what`: how people call it.
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
        Ok(None) => Ok(Err(format!("the hook's {what} is missing; enter it again"))),
        // One that does not open must not take the other hooks down.
        Err(error @ VaultError::Unsealable { .. }) => Ok(Err(error.to_string())),
        Err(error) => Err(error.into()),
    }
}
