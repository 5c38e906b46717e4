//! The public keys that a platform signs its tokens by: fetched, kept, and fetched again when they change.
//!
//! Invariants
//! - Keys are kept for a day. A key that nobody knows makes them be fetched again, at most once in five minutes:
//!   whoever sends tokens with invented keys causes no more requests than that.
//! - While the platform does not give its keys, those of the last two days hold.
//! - One fetch at a time, which ends whether or not who caused it still waits; whoever has a key that is kept waits for
//!   none.
//! - At most [`MAX_KEYS`] keys are kept.

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

const FRESH: Duration = Duration::from_secs(24 * 60 * 60);
const USABLE: Duration = Duration::from_secs(2 * 24 * 60 * 60);
const PAUSE: Duration = Duration::from_secs(5 * 60);
/// Where there are no keys at all, nothing can be verified meanwhile.
const PAUSE_WITHOUT_KEYS: Duration = Duration::from_secs(10);
const MAX_KEYS: usize = 256;

/// What stands where keys are asked for.
#[derive(Debug)]
pub(crate) enum KeyDocument {
    /// A document of OpenID Connect, which names the address of a key set. This client reaches it where it is on
    /// another server than the document, and is to be one for what others steer.
    OpenId(GuardedClient),
    /// A key set (RFC 7517), or an object of certificates by the ids of their keys.
    Keys,
}

/// One key.
#[derive(Debug, Clone)]
pub(crate) struct Key {
    pub(crate) decoding: DecodingKey,
    /// The channels that Microsoft lets it speak for.
    pub(crate) endorsements: Vec<String>,
}

#[derive(Debug, Default)]
struct Kept {
    keys: HashMap<String, Arc<Key>>,
    fetched_at: Option<Timestamp>,
    tried_at: Option<Timestamp>,
}

/// The keys of one platform.
#[derive(Debug)]
pub(crate) struct KeyCache(Arc<Keys>);

#[derive(Debug)]
struct Keys {
    /// The platform's, for sentences.
    name: &'static str,
    document: KeyDocument,
    /// What the owner set.
    url: Option<Url>,
    /// Where the platform has it.
    usual: &'static str,
    kept: Mutex<Kept>,
    fetching: Arc<tokio::sync::Mutex<()>>,
}

impl Kept {
    fn is_younger_than(&self, age: Duration, now: Timestamp) -> bool {
        self.fetched_at.is_some_and(|at| elapsed(at, now) < age)
    }

    /// A key that is known, or `None` where fetching may bring it.
    fn fresh(&self, id: &str, now: Timestamp) -> Option<Arc<Key>> {
        self.keys.get(id).filter(|_| self.is_younger_than(FRESH, now)).cloned()
    }

    fn may_fetch(&self, now: Timestamp) -> bool {
        let pause = if self.is_younger_than(USABLE, now) { PAUSE } else { PAUSE_WITHOUT_KEYS };
        self.tried_at.is_none_or(|at| elapsed(at, now) >= pause)
    }
}

/// The time since then. What lies in the future was noted while the clock was wrong, and is long ago: else nothing
/// would be fetched until the clock comes there again. Requests that wait for one another differ by less than a pause.
fn elapsed(at: Timestamp, now: Timestamp) -> Duration {
    if at.since(now) > PAUSE { Duration::MAX } else { now.since(at) }
}

impl KeyCache {
    pub(crate) fn new(name: &'static str, document: KeyDocument, url: Option<Url>, usual: &'static str) -> Self {
        let (kept, fetching) = (Mutex::default(), Arc::default());
        Self(Arc::new(Keys { name, document, url, usual, kept, fetching }))
    }

    /// The key with this id.
    pub(crate) async fn find(&self, client: &GuardedClient, id: &str, now: Timestamp) -> Result<Arc<Key>, Rejection> {
        let keys = &self.0;
        if let Some(key) = keys.kept.lock().fresh(id, now) {
            return Ok(key);
        }
        let one_at_a_time = Arc::clone(&keys.fetching).lock_owned().await;
        let may_fetch = {
            let mut kept = keys.kept.lock();
            if let Some(key) = kept.fresh(id, now) {
                return Ok(key);
            }
            let may_fetch = kept.may_fetch(now);
            if may_fetch {
                kept.tried_at = Some(now);
            }
            may_fetch
        };
        let mut problem = None;
        if may_fetch {
            let (keys, client) = (Arc::clone(keys), client.clone());
            // In a task: were it to end with the request, whoever hangs up early could keep the keys away.
            let fetched = tokio::spawn(async move {
                let _one_at_a_time = one_at_a_time;
                keys.fetch(&client, now).await
            });
            problem = fetched.await.unwrap_or_else(|_| Err("the fetch was interrupted".to_owned())).err();
        }
        let kept = keys.kept.lock();
        if !kept.is_younger_than(USABLE, now) {
            let problem = problem.unwrap_or_else(|| "they are asked for again in some seconds".to_owned());
            return Err(Rejection::Unavailable(format!("the keys of {} cannot be had: {problem}", keys.name)));
        }
        if let Some(problem) = problem {
            tracing::warn!(platform = keys.name, problem, "the keys of a platform cannot be fetched; older ones hold");
        }
        kept.keys.get(id).cloned().ok_or(Rejection::Unverified("the token's key is none of the platform's"))
    }
}

impl Keys {
    async fn fetch(&self, client: &GuardedClient, now: Timestamp) -> Result<(), String> {
        let url = base_url(self.url.as_ref(), self.usual).map_err(|error| error.to_string())?;
        let document = self.get(client, url.clone()).await?;
        let keys = match &self.document {
            KeyDocument::Keys => read_keys(&document),
            KeyDocument::OpenId(steered) => {
                let keys_url = key_set_url(&url, &document)?;
                let client = if keys_url.origin() == url.origin() { client } else { steered };
                read_keys(&self.get(client, keys_url).await?)
            }
        };
        if keys.is_empty() {
            return Err(format!("{} answered without any", self.name));
        }
        let mut kept = self.kept.lock();
        (kept.keys, kept.fetched_at) = (keys, Some(now));
        Ok(())
    }

    async fn get(&self, client: &GuardedClient, url: Url) -> Result<Value, String> {
        let answer =
            call(client, self.name, ApiCall::new(Method::GET, url)).await.map_err(|error| error.to_string())?;
        match answer.status {
            StatusCode::OK => Ok(answer.body),
            status => Err(format!("{} answered {status}", self.name)),
        }
    }
}

/// Keys come over TLS, or from where the owner said that the document is.
fn key_set_url(document: &Url, answered: &Value) -> Result<Url, String> {
    let url = answered["jwks_uri"].as_str().and_then(|url| Url::parse(url).ok());
    url.filter(|url| url.scheme() == "https" || url.origin() == document.origin())
        .ok_or_else(|| "the document that should name their address names none".to_owned())
}

/// What cannot be read is left out: other keys may hold.
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
