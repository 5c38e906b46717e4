//! API keys: creation, listing, rotation, revocation.

use std::path::Path;

use agentd_base::Secret;
use agentd_store::{Recorder, Tx};
use agentd_web::Caller;

use super::{Auth, CREDENTIALS, requester};
use crate::auth::error::AuthError;
use crate::auth::model::{ApiKey, IssuedKey, KeyId, NewKey, is_valid_bootstrap_key};
use crate::auth::store;
use crate::auth::store::bootstrap::Claim;
use crate::runtime::read_trusted;

/// Maximum number of active keys.
const MAX_KEYS: i64 = 1000;
const MAX_KEY_FILE_BYTES: u64 = 4096;

impl Auth {
    /// Creates a key. The first key ends bootstrap; an anonymous caller can create only the first one.
    ///
    /// # Errors
    /// `NeedsCredential` if the caller is anonymous and a key exists, `Invalid`, `TooManyKeys`, or `Store`.
    pub async fn create_key(
        &self,
        caller: &Caller,
        new: NewKey,
        recorder: Recorder<IssuedKey>,
    ) -> Result<IssuedKey, AuthError> {
        self.insert_new_key(caller, new, recorder, false).await
    }

    /// Creates a key only if none was ever created.
    ///
    /// # Errors
    /// `KeyExists`, or an error of [`Self::create_key`].
    pub async fn create_first_key(
        &self,
        caller: &Caller,
        new: NewKey,
        recorder: Recorder<IssuedKey>,
    ) -> Result<IssuedKey, AuthError> {
        self.insert_new_key(caller, new, recorder, true).await
    }

    async fn insert_new_key(
        &self,
        caller: &Caller,
        new: NewKey,
        recorder: Recorder<IssuedKey>,
        must_be_first: bool,
    ) -> Result<IssuedKey, AuthError> {
        new.check().into_result().map_err(AuthError::Invalid)?;
        let issued = self.issue(&new, self.0.context.entropy.secret("svc_"));
        let requester = requester(caller);
        self.0
            .context
            .db
            .write(async move |tx: &mut Tx| {
                let state = store::bootstrap::get_state(tx).await?;
                state.create_key(requester)?;
                if must_be_first && !state.bootstrap_mode {
                    return Err(AuthError::KeyExists);
                }
                insert(tx, &issued, &new).await?;
                recorder.record(tx, &issued).await?;
                Ok(issued.clone())
            })
            .await
    }

    fn issue(&self, new: &NewKey, key: Secret) -> IssuedKey {
        let context = &self.0.context;
        IssuedKey { id: KeyId::generate(&context.ids), name: new.name.clone(), key, created_at: context.clock.now() }
    }

    /// Stores the key in a file as the first key, unless a key was created before. The file is read only in that case.
    /// Returns whether the key was stored.
    ///
    /// # Errors
    /// `BootstrapKeyFile` or `BadBootstrapKey` if the file cannot be read or its key is malformed; the daemon must then
    /// not start. `Store` if the key cannot be stored.
    pub async fn adopt_bootstrap_key_file(&self, path: &Path) -> Result<bool, AuthError> {
        if !self.bootstrap_state().await?.bootstrap_mode {
            return Ok(false);
        }
        let key = Secret::new(read_trusted(path, MAX_KEY_FILE_BYTES)?.trim().to_owned());
        if !is_valid_bootstrap_key(&key) {
            return Err(AuthError::BadBootstrapKey);
        }
        let new = NewKey::named("bootstrap");
        let issued = self.issue(&new, key);
        self.0
            .context
            .db
            .write(async move |tx: &mut Tx| {
                if !store::bootstrap::get_state(tx).await?.bootstrap_mode {
                    return Ok(false);
                }
                insert(tx, &issued, &new).await?;
                Ok(true)
            })
            .await
    }

    /// Lists active keys, newest first.
    ///
    /// # Errors
    /// `Store` if the query fails.
    pub async fn list_keys(&self) -> Result<Vec<ApiKey>, AuthError> {
        Ok(store::keys::list_keys(&mut self.0.context.db.read().await?).await?)
    }

    /// Replaces the secret of a key. The old secret is invalid immediately. Id, name, scope and creation time are
    /// preserved.
    ///
    /// # Errors
    /// `KeyNotFound`, or `Store`.
    pub async fn rotate_key(&self, id: KeyId, recorder: Recorder<IssuedKey>) -> Result<IssuedKey, AuthError> {
        let key = self.0.context.entropy.secret("svc_");
        self.0
            .context
            .db
            .write(async move |tx: &mut Tx| {
                let found = store::keys::update_hash(tx, &id, &key.sha256()).await?.ok_or(AuthError::KeyNotFound)?;
                store::tickets::delete_tickets_of(tx, id.as_str()).await?;
                tx.touch(CREDENTIALS);
                let issued =
                    IssuedKey { id: found.id, name: found.name, key: key.clone(), created_at: found.created_at };
                recorder.record(tx, &issued).await?;
                Ok(issued)
            })
            .await
    }

    /// Revokes a key permanently.
    ///
    /// # Errors
    /// `KeyNotFound`, also if the key was revoked already, or `Store`.
    pub async fn revoke_key(&self, id: KeyId) -> Result<(), AuthError> {
        self.0
            .context
            .db
            .write(async move |tx: &mut Tx| {
                if !store::keys::revoke_key(tx, &id).await? {
                    return Err(AuthError::KeyNotFound);
                }
                store::tickets::delete_tickets_of(tx, id.as_str()).await?;
                tx.touch(CREDENTIALS);
                Ok(())
            })
            .await
    }
}

async fn insert(tx: &mut Tx, issued: &IssuedKey, new: &NewKey) -> Result<(), AuthError> {
    if store::keys::count_keys(tx).await? >= MAX_KEYS {
        return Err(AuthError::TooManyKeys { limit: MAX_KEYS });
    }
    if store::bootstrap::insert_claim(tx, Claim::FirstKey, issued.id.as_str()).await? {
        tx.touch(CREDENTIALS);
    }
    let key = ApiKey {
        id: issued.id.clone(),
        name: new.name.clone(),
        description: new.description.clone(),
        scope: new.scope,
        created_at: issued.created_at,
        last_used: None,
    };
    store::keys::insert_key(tx, &key, &issued.key.sha256()).await?;
    Ok(())
}
