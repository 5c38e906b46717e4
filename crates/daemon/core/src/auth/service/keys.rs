//! API keys: made, listed, rotated, revoked.

use std::path::Path;

use agentd_base::Secret;
use agentd_store::{Recorder, Tx};
use agentd_web::Caller;

use super::{Auth, CREDENTIALS, by};
use crate::auth::error::AuthError;
use crate::auth::model::{ApiKey, IssuedKey, KeyId, NewKey, check_bootstrap_key};
use crate::auth::store;
use crate::auth::store::bootstrap::Claim;
use crate::runtime::read_trusted;

/// More keys than this are a mistake of some script.
const MOST_KEYS: i64 = 1000;
const MAX_KEY_FILE_BYTES: u64 = 4096;

impl Auth {
    /// Makes a key. The first one ends bootstrap; an anonymous caller can make only that.
    ///
    /// # Errors
    /// `NeedsCredential` when an anonymous caller was not the first, `Invalid`, `TooManyKeys`, or
    /// the store's.
    pub async fn create_key(
        &self,
        caller: &Caller,
        new: NewKey,
        recorder: Recorder<IssuedKey>,
    ) -> Result<IssuedKey, AuthError> {
        self.make_key(caller, new, recorder, false).await
    }

    /// Makes a key only if none was ever made.
    ///
    /// # Errors
    /// `KeyExists`, and as [`Self::create_key`].
    pub async fn create_first_key(
        &self,
        caller: &Caller,
        new: NewKey,
        recorder: Recorder<IssuedKey>,
    ) -> Result<IssuedKey, AuthError> {
        self.make_key(caller, new, recorder, true).await
    }

    async fn make_key(
        &self,
        caller: &Caller,
        new: NewKey,
        recorder: Recorder<IssuedKey>,
        must_be_first: bool,
    ) -> Result<IssuedKey, AuthError> {
        new.check().into_result().map_err(AuthError::Invalid)?;
        let issued = self.issue(&new, self.0.context.entropy.secret("svc_"));
        let by = by(caller);
        self.0
            .context
            .db
            .write(async move |tx: &mut Tx| {
                let state = store::bootstrap::get_state(tx).await?;
                state.create_key(by)?;
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

    /// Stores the key in a file as the first key, unless there has been a key before. The file is read only if
    /// there has been none. Returns whether it stored the key.
    ///
    /// # Errors
    /// The file cannot be read, or its key has the wrong form; the daemon must then not start.
    pub async fn adopt_bootstrap_key_file(&self, path: &Path) -> Result<bool, AuthError> {
        if !self.bootstrap_state().await?.bootstrap_mode {
            return Ok(false);
        }
        let key = Secret::new(read_trusted(path, MAX_KEY_FILE_BYTES)?.trim().to_owned());
        if !check_bootstrap_key(&key) {
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

    /// Every key in force, the newest first.
    ///
    /// # Errors
    /// The store's.
    pub async fn list_keys(&self) -> Result<Vec<ApiKey>, AuthError> {
        Ok(store::keys::list_keys(&mut self.0.context.db.read().await?).await?)
    }

    /// Puts a new key in the place of an old one, which is invalid at once. Id, name, scope and
    /// time of creation stay.
    ///
    /// # Errors
    /// `KeyNotFound`, or the store's.
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

    /// Revokes a key for good.
    ///
    /// # Errors
    /// `KeyNotFound`, also when it was revoked before, or the store's.
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
    if store::keys::count_keys(tx).await? >= MOST_KEYS {
        return Err(AuthError::TooManyKeys { limit: MOST_KEYS });
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
