//! Sessions: listing, ending, confirming the password.

use std::net::IpAddr;
use std::time::Duration;

use agentd_base::{Secret, Timestamp};
use agentd_store::Tx;
use agentd_web::{Caller, CallerKind, PasswordProof};

use super::{Auth, CREDENTIALS};
use crate::auth::error::AuthError;
use crate::auth::model::UserSession;
use crate::auth::store;

/// How long an entered password counts as recent.
const REAUTHENTICATION_TTL: Duration = Duration::from_secs(10 * 60);

impl Auth {
    /// Every session that has not ended, the newest first.
    ///
    /// # Errors
    /// The store's.
    pub async fn list_sessions(&self) -> Result<Vec<UserSession>, AuthError> {
        Ok(store::sessions::list_sessions(&mut self.0.context.db.read().await?).await?)
    }

    /// Ends the session that asks; `false` when it is no session.
    ///
    /// # Errors
    /// The store's.
    pub async fn logout(&self, caller: &Caller) -> Result<bool, AuthError> {
        if caller.kind != CallerKind::Session {
            return Ok(false);
        }
        self.delete_session(caller.credential_id.to_string()).await
    }

    /// Confirms the password of the page session that asks; returns until when it counts as recent.
    ///
    /// # Errors
    /// `NotPageSession`, `WrongPassword`, `TooManyFailures`, `Busy`, `CredentialGone` if the session has just ended, or
    /// the store's.
    pub async fn reauthenticate(
        &self,
        caller: &Caller,
        password: Secret,
        address: Option<IpAddr>,
    ) -> Result<Timestamp, AuthError> {
        let context = &self.0.context;
        let (Some(user_id), PasswordProof::Recent | PasswordProof::Missing) = (&caller.user_id, caller.password) else {
            return Err(AuthError::NotPageSession);
        };
        let username = store::accounts::find_username(&mut context.db.read().await?, user_id).await?;
        let username = username.ok_or(AuthError::CredentialGone)?;
        if self.check_password(username, password, address).await?.is_none() {
            return Err(AuthError::WrongPassword);
        }
        let (id, until) = (caller.credential_id.to_string(), context.clock.now() + REAUTHENTICATION_TTL);
        let record = async move |tx: &mut Tx| {
            tx.touch(CREDENTIALS);
            store::sessions::update_reauthenticated(tx, &id, until).await
        };
        if context.db.write(record).await? { Ok(until) } else { Err(AuthError::CredentialGone) }
    }

    /// Ends one session, whoever asks.
    ///
    /// # Errors
    /// `SessionNotFound`, also when it has ended before, or the store's.
    pub async fn end_session(&self, id: String) -> Result<(), AuthError> {
        if self.delete_session(id).await? { Ok(()) } else { Err(AuthError::SessionNotFound) }
    }

    /// Ends every session but the one that asks, which may be none; answers how many ended.
    ///
    /// # Errors
    /// The store's.
    pub async fn end_other_sessions(&self, caller: &Caller) -> Result<u64, AuthError> {
        let kept = if caller.kind == CallerKind::Session { caller.credential_id.to_string() } else { String::new() };
        self.0
            .context
            .db
            .write(async move |tx: &mut Tx| {
                let ended = store::sessions::delete_other_sessions(tx, &kept).await?;
                store::tickets::delete_tickets_of_other_sessions(tx, &kept).await?;
                tx.touch(CREDENTIALS);
                Ok(ended)
            })
            .await
    }

    async fn delete_session(&self, id: String) -> Result<bool, AuthError> {
        self.0
            .context
            .db
            .write(async move |tx: &mut Tx| {
                let ended = store::sessions::delete_session(tx, &id).await?;
                store::tickets::delete_tickets_of(tx, &id).await?;
                tx.touch(CREDENTIALS);
                Ok(ended)
            })
            .await
    }
}
