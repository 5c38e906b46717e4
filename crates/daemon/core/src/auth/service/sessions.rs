//! Login sessions: listing, ending, and confirming the password.

use std::net::IpAddr;
use std::time::Duration;

use agentd_base::{Secret, Timestamp};
use agentd_store::Tx;
use agentd_web::{Caller, CallerKind, PasswordProof};

use super::{Auth, CREDENTIALS};
use crate::auth::error::AuthError;
use crate::auth::model::UserSession;
use crate::auth::store;

/// Time for which a confirmed password counts as recent.
const REAUTHENTICATION_TTL: Duration = Duration::from_secs(10 * 60);

impl Auth {
    /// Lists active sessions, newest first.
    ///
    /// # Errors
    /// `Store` if the query fails.
    pub async fn list_sessions(&self) -> Result<Vec<UserSession>, AuthError> {
        Ok(store::sessions::list_sessions(&mut self.0.context.db.read().await?).await?)
    }

    /// Ends the caller's session; `false` if the caller's credential is not a session.
    ///
    /// # Errors
    /// `Store` if the session cannot be deleted.
    pub async fn logout(&self, caller: &Caller) -> Result<bool, AuthError> {
        if caller.kind != CallerKind::Session {
            return Ok(false);
        }
        self.delete_session(caller.credential_id.to_string()).await
    }

    /// Confirms the password of the caller's page session. Returns the time until which it counts as recent.
    ///
    /// # Errors
    /// `NotPageSession`, `WrongPassword`, `TooManyFailures`, `Busy`, `CredentialGone` if the session has ended
    /// meanwhile, or `Store`.
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

    /// Ends a session by id.
    ///
    /// # Errors
    /// `SessionNotFound`, also if the session has ended already, or `Store`.
    pub async fn end_session(&self, id: String) -> Result<(), AuthError> {
        if self.delete_session(id).await? { Ok(()) } else { Err(AuthError::SessionNotFound) }
    }

    /// Ends all sessions except the caller's, if it is a session. Returns the number of ended sessions.
    ///
    /// # Errors
    /// `Store` if the sessions cannot be deleted.
    pub async fn end_other_sessions(&self, caller: &Caller) -> Result<u64, AuthError> {
        let own_session =
            if caller.kind == CallerKind::Session { caller.credential_id.to_string() } else { String::new() };
        self.0
            .context
            .db
            .write(async move |tx: &mut Tx| {
                let ended = store::sessions::delete_other_sessions(tx, &own_session).await?;
                store::tickets::delete_tickets_of_other_sessions(tx, &own_session).await?;
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
