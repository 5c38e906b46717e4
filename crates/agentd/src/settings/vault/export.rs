//! Secrets on their way into a backup and out of it, under a passphrase.
//!
//! The format: a line that names it, a salt of 16 bytes, and the sealed JSON of all secrets. The
//! key comes from the passphrase by Argon2id with 64 MiB and three passes, which is above what
//! RFC 9106 calls its second choice for machines with little memory.

use agentd_base::Secret;
use agentd_store::{Read, StoreError, Tx};
use argon2::{Algorithm, Argon2, Params, Version};
use serde::{Deserialize, Serialize};

use super::seal::Key;
use super::{SealedSecret, Vault, VaultError, store};

const MAGIC: &[u8] = b"agentd-secrets-1\n";
const SALT_LENGTH: usize = 16;
const MEMORY_KIB: u32 = 64 * 1024;
const PASSES: u32 = 3;

#[derive(Serialize, Deserialize)]
struct Entry {
    scope: String,
    name: String,
    secret: String,
}

/// Secrets that a passphrase has opened, ready to be kept by a vault.
pub struct UnlockedSecrets(Vec<(String, String, Secret)>);

impl std::fmt::Debug for UnlockedSecrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "UnlockedSecrets({})", self.0.len())
    }
}

impl UnlockedSecrets {
    /// Opens what [`Vault::export`] wrote. Takes about a quarter of a second and 64 MiB, so it
    /// runs beside the runtime, never within a transaction.
    ///
    /// # Errors
    /// `WrongPassphrase` or `BadExport`.
    pub async fn unlock(bytes: Vec<u8>, passphrase: &Secret) -> Result<Self, VaultError> {
        let rest = bytes.strip_prefix(MAGIC).ok_or(VaultError::BadExport)?;
        let (salt, sealed) = rest.split_first_chunk::<SALT_LENGTH>().ok_or(VaultError::BadExport)?;
        let key = derive(passphrase, *salt).await?;
        let text = key.open(&bound_to(salt), sealed).ok_or(VaultError::WrongPassphrase)?;
        let entries: Vec<Entry> = serde_json::from_str(text.expose()).map_err(|_| VaultError::BadExport)?;
        Ok(Self(entries.into_iter().map(|entry| (entry.scope, entry.name, Secret::new(entry.secret))).collect()))
    }

    /// As they would lie in this vault.
    #[must_use]
    pub fn sealed_for(&self, vault: &Vault) -> Vec<SealedSecret> {
        let sealed = |(scope, name, secret): &(String, String, Secret)| SealedSecret {
            scope: scope.clone(),
            name: name.clone(),
            sealed: vault.seal(scope, name, secret),
        };
        self.0.iter().map(sealed).collect()
    }

    /// Scope and name of each.
    pub fn names(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(scope, name, _)| (scope.as_str(), name.as_str()))
    }
}

fn bound_to(salt: &[u8]) -> Vec<u8> {
    [MAGIC, salt].concat()
}

async fn derive(passphrase: &Secret, salt: [u8; SALT_LENGTH]) -> Result<Key, VaultError> {
    let passphrase = passphrase.clone();
    let derived = tokio::task::spawn_blocking(move || {
        let parameters = Params::new(MEMORY_KIB, PASSES, 1, Some(32)).ok()?;
        let mut key = [0; 32];
        Argon2::new(Algorithm::Argon2id, Version::V0x13, parameters)
            .hash_password_into(passphrase.expose().as_bytes(), &salt, &mut key)
            .ok()?;
        Some(Key::new(&key))
    });
    // Constant parameters are valid; what is left is a passphrase of 4 GiB.
    derived.await.ok().flatten().ok_or(VaultError::WrongPassphrase)
}

impl Vault {
    /// Every secret, sealed under a passphrase instead of this daemon's key.
    ///
    /// # Errors
    /// A secret that cannot be opened, or the database is away.
    pub async fn export(&self, read: &mut Read, passphrase: &Secret) -> Result<Vec<u8>, VaultError> {
        let mut entries = Vec::new();
        for (scope, name, sealed) in store::list_secrets(read).await? {
            let secret = self.unseal(&scope, &name, &sealed)?;
            entries.push(Entry { scope, name, secret: secret.expose().to_owned() });
        }
        let text = Secret::new(serde_json::to_string(&entries).map_err(|_| VaultError::BadExport)?);
        let salt = self.0.entropy.bytes::<SALT_LENGTH>();
        let key = derive(passphrase, salt).await?;
        let sealed = key.seal(&self.0.entropy, &bound_to(&salt), text.expose().as_bytes());
        Ok([MAGIC, &salt, &sealed].concat())
    }

    /// Keeps what a passphrase has opened, beside what is there; the same names are replaced.
    ///
    /// # Errors
    /// What the database refuses.
    pub async fn import(&self, tx: &mut Tx, secrets: &UnlockedSecrets) -> Result<(), StoreError> {
        for (scope, name, secret) in &secrets.0 {
            self.put(tx, scope, name, secret).await?;
        }
        Ok(())
    }
}
