//! Sealed secrets as they lie in the database: what may be put into a file of the data directory
//! while the database is replaced.

use agentd_store::{Read, StoreError, Tx};
use serde::{Deserialize, Serialize};

use super::{Vault, VaultError, store};

/// A secret that only the vault which sealed it can open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealedSecret {
    pub scope: String,
    pub name: String,
    pub sealed: Vec<u8>,
}

impl Vault {
    /// Everything that is kept, in the order of scope and name.
    ///
    /// # Errors
    /// What the database refuses.
    pub async fn list_sealed(&self, read: &mut Read) -> Result<Vec<SealedSecret>, VaultError> {
        let rows = store::list_secrets(read).await?;
        Ok(rows.into_iter().map(|(scope, name, sealed)| SealedSecret { scope, name, sealed }).collect())
    }

    /// Keeps what this vault sealed before; the same names are replaced.
    ///
    /// # Errors
    /// What the database refuses.
    pub async fn put_sealed(&self, tx: &mut Tx, secrets: &[SealedSecret]) -> Result<(), StoreError> {
        for SealedSecret { scope, name, sealed } in secrets {
            store::upsert_secret(tx, scope, name, sealed.clone()).await?;
        }
        Ok(())
    }
}
