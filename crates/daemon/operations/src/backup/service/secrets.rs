//! The secrets of an archive: which there are, and whose.

use super::super::archive;
use super::super::error::BackupError;
use super::super::journal::{SealedSecret, Waiting};
use super::super::model::{DATABASE, Manifest, SecretName, StoredSecret};
use super::threads::blocking;
use super::{Backup, MARK};

impl Backup {
    pub(crate) async fn secret_names(&self) -> Result<Vec<SecretName>, BackupError> {
        let names = self.vault.names(&mut self.db.read().await?).await?;
        Ok(names.into_iter().map(|(scope, name)| SecretName { scope, name }).collect())
    }

    /// Those of the named secrets that are kept here.
    pub(super) async fn known_secrets(&self, names: &[SecretName]) -> Result<Vec<StoredSecret>, BackupError> {
        let mut read = self.db.read().await?;
        let mut found = Vec::new();
        for name in names {
            let secret = self.vault.get_in(&mut read, &name.scope, &name.name).await?;
            found.extend(secret.map(|secret| StoredSecret { name: name.clone(), secret }));
        }
        Ok(found)
    }

    pub(super) fn seal(&self, StoredSecret { name, secret }: &StoredSecret) -> SealedSecret {
        SealedSecret { name: name.clone(), sealed: self.vault.seal(&name.scope, &name.name, secret) }
    }

    /// Whether the database in an unpacked archive was written by a daemon with this key, as it is.
    pub(super) async fn is_own(&self, manifest: &Manifest, waiting: &Waiting) -> Result<bool, BackupError> {
        let sealed = manifest.database_mark.as_deref().and_then(|mark| hex::decode(mark).ok());
        let marked = sealed.and_then(|sealed| self.vault.unseal(MARK.0, MARK.1, &sealed).ok());
        let Some(marked) = marked else { return Ok(false) };
        let dump = waiting.path().join(DATABASE);
        let hashing = move || archive::sha256_of(std::fs::File::open(dump)?);
        let hash = blocking(move || hashing().map_err(BackupError::files("the unpacked database"))).await?;
        Ok(hash == marked.expose())
    }
}
