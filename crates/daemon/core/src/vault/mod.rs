//! Secrets at rest: XChaCha20-Poly1305 under a key that lies in a file of its own.
//!
//! Invariants: what is stored opens only with that key, and only under the scope and name it was
//! stored for; a daemon with another key than the database's does not start; no key material and
//! no plaintext is ever logged, formatted, or part of an error.

mod destination;
mod error;
mod key_file;
mod seal;
mod sealed_url;
mod store;

use std::path::Path;
use std::sync::Arc;

use agentd_base::{Entropy, Secret};
use agentd_store::{Db, Read, StoreError, Tx};

pub use destination::{ENTER_AGAIN, require_again, server_of};
pub use error::VaultError;
use seal::Key;
pub use sealed_url::{
    SealedUrl, UnknownMask, UrlSecrets, hide_url_secrets, is_named_like_a_credential, names_in_url, open_url,
    write_url_secrets,
};
pub(crate) use store::is_empty;

struct Inner {
    db: Db,
    entropy: Entropy,
    key: Key,
}

/// Keeps secrets. Cheap to clone.
#[derive(Clone)]
pub struct Vault(Arc<Inner>);

impl std::fmt::Debug for Vault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Vault")
    }
}

impl Vault {
    /// Reads the key file, making it on the first start, and holds it against the database.
    ///
    /// # Errors
    /// A key file that is missing, exposed, damaged or not this database's; each with its remedy.
    pub async fn open(db: &Db, entropy: &Entropy, key_file: &Path) -> Result<Self, VaultError> {
        let known = store::find_key_fingerprint(&mut db.read().await?).await?;
        let key = match key_file::read(key_file)? {
            Some(key) => key,
            None if known.is_some() => return Err(VaultError::KeyMissing { path: key_file.to_path_buf() }),
            None => key_file::create(key_file, entropy)?,
        };
        let fingerprint = key.fingerprint();
        let in_database = match known {
            Some(known) => known,
            // Two replicas may start at once: the first fingerprint stands.
            None => {
                let fingerprint = fingerprint.clone();
                db.write(async move |tx: &mut Tx| store::insert_key_fingerprint(tx, &fingerprint).await).await?
            }
        };
        if in_database != fingerprint {
            return Err(VaultError::WrongKey { path: key_file.to_path_buf() });
        }
        Ok(Self(Arc::new(Inner { db: db.clone(), entropy: entropy.clone(), key })))
    }

    /// The fingerprint of the key in a file, without making one; `None` when there is no file. For
    /// diagnosis: `vault_key_fingerprint` of `store_info` is what it must be.
    ///
    /// # Errors
    /// A key file that is exposed, damaged or unreadable; each with its remedy.
    pub fn fingerprint_of(key_file: &Path) -> Result<Option<String>, VaultError> {
        Ok(key_file::read(key_file)?.map(|key| key.fingerprint()))
    }

    /// The secret that is kept under `scope` and `name`.
    ///
    /// # Errors
    /// `Unsealable`, or the database is away.
    pub async fn get(&self, scope: &str, name: &str) -> Result<Option<Secret>, VaultError> {
        self.get_in(&mut self.0.db.read().await?, scope, name).await
    }

    /// As [`Self::get`], on a connection that is already open.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub async fn get_in(&self, read: &mut Read, scope: &str, name: &str) -> Result<Option<Secret>, VaultError> {
        let sealed = store::find_secret(read, scope, name).await?;
        sealed.map(|sealed| self.unseal(scope, name, &sealed)).transpose()
    }

    /// Whether there is a secret under `scope` and `name`, without opening it.
    ///
    /// # Errors
    /// What the database refuses.
    pub async fn contains(&self, read: &mut Read, scope: &str, name: &str) -> Result<bool, StoreError> {
        Ok(store::find_secret(read, scope, name).await?.is_some())
    }

    /// Keeps `secret`, in place of what was there.
    ///
    /// # Errors
    /// What the database refuses.
    pub async fn put(&self, tx: &mut Tx, scope: &str, name: &str, secret: &Secret) -> Result<(), StoreError> {
        let sealed = self.seal(scope, name, secret);
        store::upsert_secret(tx, scope, name, sealed).await
    }

    /// Forgets the secret, if there is one.
    ///
    /// # Errors
    /// What the database refuses.
    pub async fn clear(&self, tx: &mut Tx, scope: &str, name: &str) -> Result<(), StoreError> {
        store::delete_secret(tx, scope, name).await
    }

    /// Forgets every secret of a scope, as what it belongs to goes.
    ///
    /// # Errors
    /// What the database refuses.
    pub async fn clear_scope(tx: &mut Tx, scope: &str) -> Result<(), StoreError> {
        store::delete_secrets_of(tx, scope).await
    }

    /// Scope and name of every secret, in that order.
    ///
    /// # Errors
    /// What the database refuses.
    pub async fn names(&self, read: &mut Read) -> Result<Vec<(String, String)>, VaultError> {
        Ok(store::list_secrets(read).await?.into_iter().map(|(scope, name, _)| (scope, name)).collect())
    }

    /// A key for hashes of what may hold secrets; the same on every replica.
    #[must_use]
    pub fn hashing_key(&self) -> [u8; 32] {
        self.0.key.hashing()
    }

    /// The bytes that are safe to store: they open only here, and only under `scope` and `name`.
    #[must_use]
    pub fn seal(&self, scope: &str, name: &str, secret: &Secret) -> Vec<u8> {
        self.0.key.seal(&self.0.entropy, &seal::place(scope, name), secret.expose().as_bytes())
    }

    /// The reverse of [`Self::seal`].
    ///
    /// # Errors
    /// `Unsealable` for whatever was not sealed for this place with this key.
    pub fn unseal(&self, scope: &str, name: &str, sealed: &[u8]) -> Result<Secret, VaultError> {
        self.0
            .key
            .open(&seal::place(scope, name), sealed)
            .ok_or_else(|| VaultError::Unsealable { scope: scope.to_owned(), name: name.to_owned() })
    }
}
