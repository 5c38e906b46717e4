//! Cache of valid credentials.
//!
//! A cache belongs to one version of the credentials. Any revocation replaces the whole cache, so entries are never
//! removed individually. Used only on SQLite, where this process makes all changes itself.

use std::collections::HashMap;
use std::sync::Arc;

use agentd_base::Timestamp;
use agentd_web::Caller;
use arc_swap::ArcSwap;

use super::uses::LastUse;
use crate::auth::model::password_proof;
use crate::auth::store::Hash;

const MAX_ENTRIES: usize = 1024;

/// Valid credential.
#[derive(Debug)]
pub(super) struct CachedCredential {
    /// Stored hash of the key or token; for a page session, of the page secret.
    pub(super) hash: Hash,
    pub(super) caller: Caller,
    /// State of a page session; `None` for other credentials.
    pub(super) page: Option<CachedPage>,
    /// `None` for keys.
    pub(super) expires_at: Option<Timestamp>,
    pub(super) last_use: LastUse,
}

/// Additional state of a page session.
#[derive(Debug)]
pub(super) struct CachedPage {
    /// Stored hash of the token in the cookie.
    pub(super) cookie_hash: Hash,
    pub(super) reauthenticated_until: Option<Timestamp>,
}

impl CachedCredential {
    /// Hash of the key or token, under which uses are recorded.
    pub(super) fn token_hash(&self) -> &Hash {
        self.page.as_ref().map_or(&self.hash, |page| &page.cookie_hash)
    }

    pub(super) fn caller_at(&self, now: Timestamp) -> Caller {
        let reauthenticated_until = self.page.as_ref().map(|page| page.reauthenticated_until);
        Caller { password: password_proof(reauthenticated_until, now), ..self.caller.clone() }
    }
}

/// Cache of one version of the credentials.
#[derive(Debug, Default)]
pub(super) struct CredentialCache(ArcSwap<HashMap<Hash, Arc<CachedCredential>>>);

impl CredentialCache {
    /// Returns a cached credential. Lock-free: writers never block readers.
    pub(super) fn find(&self, hash: &Hash) -> Option<Arc<CachedCredential>> {
        self.0.load().get(hash).map(Arc::clone)
    }

    /// Inserts a credential by copying the map, once per credential and version. A full map is cleared first.
    pub(super) fn insert(&self, known: &Arc<CachedCredential>) {
        self.0.rcu(|entries| {
            let mut entries = if entries.len() < MAX_ENTRIES { HashMap::clone(entries) } else { HashMap::new() };
            entries.insert(known.hash, Arc::clone(known));
            entries
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cache_size_is_bounded() {
        let cache = CredentialCache::default();
        for number in 0..MAX_ENTRIES * 2 + 7 {
            let hash = agentd_base::sha256(&number.to_le_bytes());
            let known = CachedCredential {
                hash,
                caller: Caller::anonymous(),
                page: None,
                expires_at: None,
                last_use: LastUse::new(None),
            };
            cache.insert(&Arc::new(known));
            assert!(cache.0.load().len() <= MAX_ENTRIES);
            assert!(cache.find(&hash).is_some());
        }
        assert!(cache.find(&[0; 32]).is_none());
    }
}
