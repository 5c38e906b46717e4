//! Credentials that were found valid, kept until any credential stops being so.
//!
//! A whole cache belongs to one state of the credentials: a revocation leaves it behind with all
//! that is in it, so nothing in it is ever taken out one by one. Only used on SQLite, where this
//! process makes every change itself.

use std::collections::HashMap;
use std::sync::Arc;

use agentd_base::Timestamp;
use agentd_web::Caller;
use arc_swap::ArcSwap;

use super::uses::NotedUse;
use crate::auth::model::password_proof;
use crate::auth::store::Hash;

const MOST_ENTRIES: usize = 1024;

/// A valid credential.
#[derive(Debug)]
pub(super) struct Known {
    /// Stored hash of the key or token, or of the page secret of a page session.
    pub(super) hash: Hash,
    pub(super) caller: Caller,
    /// `None` unless it is a page session.
    pub(super) page: Option<KnownPage>,
    /// `None` for keys.
    pub(super) expires_at: Option<Timestamp>,
    pub(super) noted_use: NotedUse,
}

/// What a page session has beyond other sessions.
#[derive(Debug)]
pub(super) struct KnownPage {
    /// Stored hash of the token in the cookie.
    pub(super) cookie_hash: Hash,
    pub(super) reauthenticated_until: Option<Timestamp>,
}

impl Known {
    /// The hash under which uses are recorded: that of the key or token.
    pub(super) fn token_hash(&self) -> &Hash {
        self.page.as_ref().map_or(&self.hash, |page| &page.cookie_hash)
    }

    pub(super) fn caller_at(&self, now: Timestamp) -> Caller {
        let reauthenticated_until = self.page.as_ref().map(|page| page.reauthenticated_until);
        Caller { password: password_proof(reauthenticated_until, now), ..self.caller.clone() }
    }
}

#[derive(Debug, Default)]
pub(super) struct CredentialCache(ArcSwap<HashMap<Hash, Arc<Known>>>);

impl CredentialCache {
    /// Without a lock; writers never make readers wait.
    pub(super) fn find(&self, hash: &Hash) -> Option<Arc<Known>> {
        self.0.load().get(hash).map(Arc::clone)
    }

    /// Copies the map, which happens once for each credential and state. A full one starts anew.
    pub(super) fn insert(&self, known: &Arc<Known>) {
        self.0.rcu(|entries| {
            let mut entries = if entries.len() < MOST_ENTRIES { HashMap::clone(entries) } else { HashMap::new() };
            entries.insert(known.hash, Arc::clone(known));
            entries
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stays_within_its_bound() {
        let cache = CredentialCache::default();
        for number in 0..MOST_ENTRIES * 2 + 7 {
            let hash = agentd_base::sha256(&number.to_le_bytes());
            let known = Known {
                hash,
                caller: Caller::anonymous(),
                page: None,
                expires_at: None,
                noted_use: NotedUse::new(None),
            };
            cache.insert(&Arc::new(known));
            assert!(cache.0.load().len() <= MOST_ENTRIES);
            assert!(cache.find(&hash).is_some());
        }
        assert!(cache.find(&[0; 32]).is_none());
    }
}
