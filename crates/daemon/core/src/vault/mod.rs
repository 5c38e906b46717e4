//! Encryption of secrets at rest: XChaCha20-Poly1305 with a key in a separate file.
//!
//! Invariants: a stored secret can be decrypted only with that key, and only under its scope and name. A daemon whose
//! key does not match the database does not start. Key material and plaintext are never logged, formatted, or part of
//! an error.

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

pub use destination::{ENTER_AGAIN, require_reentry, server_origin};
pub use error::VaultError;
use seal::Key;
pub use sealed_url::{
    SealedUrl, UnknownMask, UrlSecrets, is_credential_parameter, names_in_url, open_url, redact_url_secrets,
    write_url_secrets,
};
pub(crate) use store::is_empty;

struct Inner {
    db: Db,
    entropy: Entropy,
    key: Key,
}

/// Store of encrypted secrets. Cheap to clone.
#[derive(Clone)]
pub struct Vault(Arc<Inner>);

impl std::fmt::Debug for Vault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Vault")
    }
}

impl Vault {
    /// Reads the key file, or creates it on the first start, and compares it with the database.
    ///
    /// # Errors
    /// `VaultError` if the key file is missing, exposed, damaged or does not match the database.
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
            // Two replicas may start concurrently; the first stored fingerprint wins.
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

    /// Returns the fingerprint of the key in a file without creating one; `None` if the file does not exist. For
    /// diagnosis: it must equal `vault_key_fingerprint` in `store_info`.
    ///
    /// # Errors
    /// `VaultError` if the key file is exposed, damaged or unreadable.
    pub fn key_file_fingerprint(key_file: &Path) -> Result<Option<String>, VaultError> {
        Ok(key_file::read(key_file)?.map(|key| key.fingerprint()))
    }

    /// Returns the secret stored under `scope` and `name`.
    ///
    /// # Errors
    /// `Unsealable` if it cannot be decrypted, `Store` if the database is unavailable.
    pub async fn get(&self, scope: &str, name: &str) -> Result<Option<Secret>, VaultError> {
        self.get_in(&mut self.0.db.read().await?, scope, name).await
    }

    /// Variant of [`Self::get`] on an open connection.
    ///
    /// # Errors
    /// See [`Self::get`].
    pub async fn get_in(&self, read: &mut Read, scope: &str, name: &str) -> Result<Option<Secret>, VaultError> {
        let sealed = store::find_secret(read, scope, name).await?;
        sealed.map(|sealed| self.unseal(scope, name, &sealed)).transpose()
    }

    /// Whether a secret is stored under `scope` and `name`, without decrypting it.
    ///
    /// # Errors
    /// `StoreError` if the query fails.
    pub async fn contains(&self, read: &mut Read, scope: &str, name: &str) -> Result<bool, StoreError> {
        Ok(store::find_secret(read, scope, name).await?.is_some())
    }

    /// Stores `secret` and replaces an existing one.
    ///
    /// # Errors
    /// `StoreError` if the write fails.
    pub async fn put(&self, tx: &mut Tx, scope: &str, name: &str, secret: &Secret) -> Result<(), StoreError> {
        let sealed = self.seal(scope, name, secret);
        store::upsert_secret(tx, scope, name, sealed).await
    }

    /// Deletes the secret, if it exists.
    ///
    /// # Errors
    /// `StoreError` if the write fails.
    pub async fn clear(&self, tx: &mut Tx, scope: &str, name: &str) -> Result<(), StoreError> {
        store::delete_secret(tx, scope, name).await
    }

    /// Deletes all secrets of a scope, when its owner is deleted.
    ///
    /// # Errors
    /// `StoreError` if the write fails.
    pub async fn clear_scope(tx: &mut Tx, scope: &str) -> Result<(), StoreError> {
        store::delete_secrets_of(tx, scope).await
    }

    /// Lists all secrets as (scope, name).
    ///
    /// # Errors
    /// `StoreError` if the query fails.
    pub async fn names(&self, read: &mut Read) -> Result<Vec<(String, String)>, VaultError> {
        Ok(store::list_secrets(read).await?.into_iter().map(|(scope, name, _)| (scope, name)).collect())
    }

    /// Returns the key for keyed hashes of values that may contain secrets. It is the same on every replica.
    #[must_use]
    pub fn hashing_key(&self) -> [u8; 32] {
        self.0.key.hashing_key()
    }

    /// Encrypts a secret, bound to `scope` and `name`.
    #[must_use]
    pub fn seal(&self, scope: &str, name: &str, secret: &Secret) -> Vec<u8> {
        self.0.key.seal(&self.0.entropy, &seal::associated_data(scope, name), secret.expose().as_bytes())
    }

    /// Decrypts the output of [`Self::seal`].
    ///
    /// # Errors
    /// `Unsealable` if the input was encrypted with another key, scope or name.
    pub fn unseal(&self, scope: &str, name: &str, sealed: &[u8]) -> Result<Secret, VaultError> {
        self.0
            .key
            .open(&seal::associated_data(scope, name), sealed)
            .ok_or_else(|| VaultError::Unsealable { scope: scope.to_owned(), name: name.to_owned() })
    }
}
