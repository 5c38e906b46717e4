//! Cache of the public keys with which a platform signs its tokens.
//!
//! Invariants
//! - Keys are cached for a day. An unknown key ID triggers a fetch, at most once in five minutes, so that forged IDs
//!   cause no additional requests.
//! - If the platform does not return its keys, cached keys stay valid for two days.
//! - Fetches are serialized and continue if the request that caused them is dropped. Cached keys are returned without
//!   waiting.
//! - At most [`MAX_KEYS`] keys are cached.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use agentd_base::Timestamp;
use agentd_net::GuardedClient;
use aws_lc_rs::rsa::PublicKey;
use http::{Method, StatusCode};
use jsonwebtoken::DecodingKey;
use parking_lot::Mutex;
use serde_json::Value;
use url::Url;

use crate::api::{ApiCall, base_url, call};
use crate::certificate;
use crate::jwt::pem_contents;
use crate::webhook::Rejection;

const CACHE_TTL: Duration = Duration::from_secs(24 * 60 * 60);
const MAX_STALE_AGE: Duration = Duration::from_secs(2 * 24 * 60 * 60);
const FETCH_INTERVAL: Duration = Duration::from_secs(5 * 60);
/// Minimum interval between fetches while no valid keys are cached, since nothing can be verified.
const EMPTY_FETCH_INTERVAL: Duration = Duration::from_secs(10);
const MAX_KEYS: usize = 256;

/// Format of the key document.
#[derive(Debug)]
pub(crate) enum KeyDocument {
    /// OpenID Connect discovery document, which contains the URL of a key set. The client is used for a key set on
    /// another server and must be one for untrusted URLs.
    OpenId(GuardedClient),
    /// Key set (RFC 7517), or an object of certificates by key ID.
    Keys,
}

/// Public key.
#[derive(Debug, Clone)]
pub(crate) struct Key {
    pub(crate) decoding: DecodingKey,
    /// Channels that Microsoft endorses the key for.
    pub(crate) endorsements: Vec<String>,
}

#[derive(Debug, Default)]
struct CachedKeys {
    keys: HashMap<String, Arc<Key>>,
    fetched_at: Option<Timestamp>,
    tried_at: Option<Timestamp>,
}

/// Key cache of a platform.
#[derive(Debug)]
pub(crate) struct KeyCache(Arc<Keys>);

#[derive(Debug)]
struct Keys {
    /// Platform name for messages.
    name: &'static str,
    document: KeyDocument,
    /// Configured URL.
    url: Option<Url>,
    /// Default URL of the platform.
    default_url: &'static str,
    cache: Mutex<CachedKeys>,
    fetching: Arc<tokio::sync::Mutex<()>>,
}

impl CachedKeys {
    fn is_younger_than(&self, age: Duration, now: Timestamp) -> bool {
        self.fetched_at.is_some_and(|at| elapsed(at, now) < age)
    }

    /// Returns a cached key, or `None` if a fetch may return it.
    fn fresh(&self, id: &str, now: Timestamp) -> Option<Arc<Key>> {
        self.keys.get(id).filter(|_| self.is_younger_than(CACHE_TTL, now)).cloned()
    }

    fn may_fetch(&self, now: Timestamp) -> bool {
        let interval = if self.is_younger_than(MAX_STALE_AGE, now) { FETCH_INTERVAL } else { EMPTY_FETCH_INTERVAL };
        self.tried_at.is_none_or(|at| elapsed(at, now) >= interval)
    }
}

/// Returns the time since `at`. A time far in the future was recorded with a wrong clock and counts as long ago;
/// otherwise nothing would be fetched until then. Concurrent requests differ by less than the fetch interval.
fn elapsed(at: Timestamp, now: Timestamp) -> Duration {
    if at.since(now) > FETCH_INTERVAL { Duration::MAX } else { now.since(at) }
}

impl KeyCache {
    pub(crate) fn new(name: &'static str, document: KeyDocument, url: Option<Url>, default_url: &'static str) -> Self {
        let (cache, fetching) = (Mutex::default(), Arc::default());
        Self(Arc::new(Keys { name, document, url, default_url, cache, fetching }))
    }

    /// Returns the key with this ID.
    pub(crate) async fn find(&self, client: &GuardedClient, id: &str, now: Timestamp) -> Result<Arc<Key>, Rejection> {
        let keys = &self.0;
        if let Some(key) = keys.cache.lock().fresh(id, now) {
            return Ok(key);
        }
        let fetch_guard = Arc::clone(&keys.fetching).lock_owned().await;
        let may_fetch = {
            let mut cache = keys.cache.lock();
            if let Some(key) = cache.fresh(id, now) {
                return Ok(key);
            }
            let may_fetch = cache.may_fetch(now);
            if may_fetch {
                cache.tried_at = Some(now);
            }
            may_fetch
        };
        let mut problem = None;
        if may_fetch {
            let (keys, client) = (Arc::clone(keys), client.clone());
            // Spawned, so that clients that disconnect early cannot prevent the fetch.
            let fetched = tokio::spawn(async move {
                let _fetch_guard = fetch_guard;
                keys.fetch(&client, now).await
            });
            problem = fetched.await.unwrap_or_else(|_| Err("the fetch was interrupted".to_owned())).err();
        }
        let cache = keys.cache.lock();
        if !cache.is_younger_than(MAX_STALE_AGE, now) {
            let problem = problem.unwrap_or_else(|| "the next attempt follows in a few seconds".to_owned());
            return Err(Rejection::Unavailable(format!("the keys of {} are unavailable: {problem}", keys.name)));
        }
        if let Some(problem) = problem {
            tracing::warn!(platform = keys.name, problem, "failed to fetch platform keys; using cached keys");
        }
        cache.keys.get(id).cloned().ok_or(Rejection::Unverified("the token is signed with an unknown key"))
    }
}

impl Keys {
    async fn fetch(&self, client: &GuardedClient, now: Timestamp) -> Result<(), String> {
        let url = base_url(self.url.as_ref(), self.default_url).map_err(|error| error.to_string())?;
        let document = self.get(client, url.clone()).await?;
        let keys = match &self.document {
            KeyDocument::Keys => read_keys(&document),
            KeyDocument::OpenId(untrusted) => {
                let keys_url = key_set_url(&url, &document)?;
                let client = if keys_url.origin() == url.origin() { client } else { untrusted };
                read_keys(&self.get(client, keys_url).await?)
            }
        };
        if keys.is_empty() {
            return Err(format!("{} returned no keys", self.name));
        }
        let mut cache = self.cache.lock();
        (cache.keys, cache.fetched_at) = (keys, Some(now));
        Ok(())
    }

    async fn get(&self, client: &GuardedClient, url: Url) -> Result<Value, String> {
        let answer =
            call(client, self.name, ApiCall::new(Method::GET, url)).await.map_err(|error| error.to_string())?;
        match answer.status {
            StatusCode::OK => Ok(answer.body),
            status => Err(format!("{} returned {status}", self.name)),
        }
    }
}

/// Returns the key set URL, which must use TLS or have the origin of the configured document.
fn key_set_url(document: &Url, answered: &Value) -> Result<Url, String> {
    let url = answered["jwks_uri"].as_str().and_then(|url| Url::parse(url).ok());
    url.filter(|url| url.scheme() == "https" || url.origin() == document.origin())
        .ok_or_else(|| "the OpenID document contains no valid `jwks_uri`".to_owned())
}

/// Reads the keys, skipping malformed ones.
pub(crate) fn read_keys(document: &Value) -> HashMap<String, Arc<Key>> {
    let keys: Vec<(String, Key)> = match document["keys"].as_array() {
        Some(keys) => keys.iter().filter_map(read_key).take(MAX_KEYS).collect(),
        None => {
            let certificates = document.as_object().into_iter().flatten();
            certificates.filter_map(|(id, pem)| Some((id.clone(), read_certificate(pem)?))).take(MAX_KEYS).collect()
        }
    };
    keys.into_iter().map(|(id, key)| (id, Arc::new(key))).collect()
}

fn read_key(key: &Value) -> Option<(String, Key)> {
    let is_for_signatures = key["use"].is_null() || key["use"] == "sig";
    let is_rs256 = key["kty"] == "RSA" && (key["alg"].is_null() || key["alg"] == "RS256");
    if !is_for_signatures || !is_rs256 {
        return None;
    }
    let decoding = DecodingKey::from_rsa_components(key["n"].as_str()?, key["e"].as_str()?).ok()?;
    let endorsements = key["endorsements"].as_array().into_iter().flatten();
    let endorsements = endorsements.filter_map(|channel| channel.as_str().map(str::to_owned)).collect();
    Some((key["kid"].as_str()?.to_owned(), Key { decoding, endorsements }))
}

fn read_certificate(pem: &Value) -> Option<Key> {
    let certificate = pem_contents(pem.as_str()?, "CERTIFICATE")?;
    let key = certificate::public_key(&certificate)?;
    PublicKey::from_der(key).ok()?;
    Some(Key { decoding: DecodingKey::from_rsa_der(key), endorsements: Vec::new() })
}
