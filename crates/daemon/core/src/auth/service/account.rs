//! Registration, login and password checks.

use std::net::IpAddr;
use std::sync::Arc;

use agentd_base::{Secret, sha256};
use agentd_store::{Recorder, StoreError, StoredResponse, Tx};
use agentd_web::Caller;

use super::{Auth, CREDENTIALS, requester};
use crate::auth::error::AuthError;
use crate::auth::model::{
    AttemptDecision, LoggedIn, LoginOrigin, LoginPolicy, Network, PAGE_SECRET_PREFIX, SESSION_PREFIX, User, UserId,
    UserSessionId, check_account, evaluate,
};
use crate::auth::store;
use crate::auth::store::Hash;
use crate::auth::store::bootstrap::Claim;

/// Maximum number of sessions of a user; a further login ends the oldest.
const MAX_SESSIONS: u32 = 100;

/// Idempotent login. The client has no credential before the login, so idempotency keys belong to the user and are
/// checked only after the password was verified.
struct IdempotentLogin {
    ledger: String,
    key: String,
}

impl IdempotentLogin {
    /// The fingerprint covers only the user name, because a fast hash of the password must not be stored.
    fn recorder(&self, username_hash: Hash) -> Recorder<LoggedIn> {
        let answer = |login: &LoggedIn| StoredResponse::AlreadyDone { id: login.session.to_string() };
        Recorder::new(&self.ledger, &self.key, "POST /api/auth/login", username_hash, Arc::new(answer))
    }
}

/// Attempt whose password may be checked.
struct Attempt {
    id: String,
    delay: std::time::Duration,
    user: Option<(User, String)>,
}

impl Auth {
    /// Creates the account and logs it in.
    ///
    /// # Errors
    /// `Invalid`, `AccountExists`, `NeedsCredential` if a key was created meanwhile, or `Store`.
    pub async fn register(
        &self,
        caller: &Caller,
        username: String,
        password: Secret,
        origin: LoginOrigin,
        recorder: Recorder<LoggedIn>,
    ) -> Result<LoggedIn, AuthError> {
        check_account(&username, &password).into_result().map_err(AuthError::Invalid)?;
        let requester = requester(caller);
        let _guard = self.0.registration.lock().await;
        self.bootstrap_state().await?.register(requester)?;
        self.0.settings.refresh().await?;
        let context = &self.0.context;
        let password_hash = self.0.passwords.hash(password, &context.entropy).await?;
        let user = User { id: UserId::generate(&context.ids), username, created_at: context.clock.now() };
        let new = self.new_session(user, &origin);
        context
            .db
            .write(async move |tx: &mut Tx| {
                // Checked again, because another replica may have been faster.
                let state = store::bootstrap::get_state(tx).await?.register(requester)?;
                if !store::bootstrap::insert_claim(tx, Claim::FirstUser, new.user.id.as_str()).await? {
                    return Err(AuthError::AccountExists);
                }
                store::accounts::insert_user(tx, &new.user, &password_hash).await?;
                tx.touch(CREDENTIALS);
                let logged_in = LoggedIn { bootstrap_mode: state.bootstrap_mode, ..new.clone() };
                start_session(tx, &logged_in, &origin).await?;
                recorder.record(tx, &logged_in).await?;
                Ok(logged_in)
            })
            .await
    }

    /// Starts a session.
    ///
    /// # Errors
    /// `WrongCredentials` for an unknown user or a wrong password, `TooManyFailures`, `Busy`, `AlreadyLoggedIn` if the
    /// idempotency key was used, or `Store`.
    pub async fn login(
        &self,
        username: String,
        password: Secret,
        origin: LoginOrigin,
        once: Option<String>,
    ) -> Result<LoggedIn, AuthError> {
        let username_hash = sha256(username.as_bytes());
        let Some(user) = self.check_password(username, password, origin.address).await? else {
            return Err(AuthError::WrongCredentials);
        };
        let once = once.map(|key| IdempotentLogin { ledger: format!("login {}", user.id), key });
        let recorder = once.as_ref().map_or_else(Recorder::none, |once| once.recorder(username_hash));
        let new = self.new_session(user, &origin);
        let result = self
            .0
            .context
            .db
            .write(async move |tx: &mut Tx| {
                start_session(tx, &new, &origin).await?;
                let state = store::bootstrap::get_state(tx).await?;
                let logged_in = LoggedIn { bootstrap_mode: state.bootstrap_mode, ..new.clone() };
                recorder.record(tx, &logged_in).await?;
                Ok(logged_in)
            })
            .await;
        match (result, once) {
            (Err(AuthError::Store(StoreError::IdempotencyConflict)), Some(once)) => {
                Err(self.already_done(&once).await?)
            }
            (result, _) => result,
        }
    }

    /// Checks a password and counts a failure if it is wrong. Returns the user if it is correct.
    ///
    /// # Errors
    /// `TooManyFailures`, `Busy`, or `Store`.
    pub(super) async fn check_password(
        &self,
        username: String,
        password: Secret,
        address: Option<IpAddr>,
    ) -> Result<Option<User>, AuthError> {
        let (username_hash, network) = (sha256(username.as_bytes()), Network::from_address(address));
        // Another replica may have changed the settings.
        self.0.settings.refresh().await?;
        let policy = self.login_policy();
        let slot = self.0.login_queue.enter(username_hash, network)?;
        let _guard = slot.acquire().await;
        let attempt = self.register_attempt(username, username_hash, network, policy).await?;
        tokio::time::sleep(attempt.delay).await;
        let (user, stored) = attempt.user.unzip();
        let db = &self.0.context.db;
        match self.0.passwords.verify(password, stored).await {
            Ok(true) => {
                let forgive =
                    async move |tx: &mut Tx| store::failures::delete_failures(tx, &username_hash, &network).await;
                db.write_relaxed(forgive).await?;
                Ok(user)
            }
            Ok(false) => Ok(None),
            Err(error) => {
                let undo = async move |tx: &mut Tx| store::failures::delete_failure(tx, &attempt.id).await;
                db.write_relaxed(undo).await?;
                Err(error)
            }
        }
    }

    /// Returns the error for a repeated login. Only clients with the correct password learn the session's id.
    async fn already_done(&self, once: &IdempotentLogin) -> Result<AuthError, AuthError> {
        let found = self.0.context.db.read().await?.find_response(&once.ledger, &once.key).await?;
        Ok(match found.map(|found| found.answer) {
            Some(StoredResponse::AlreadyDone { id }) => AuthError::AlreadyLoggedIn { id },
            _ => StoreError::Contended.into(),
        })
    }

    /// Counts the attempt as failed before its password is checked, so that no check goes uncounted. Success deletes
    /// the failures.
    async fn register_attempt(
        &self,
        username: String,
        username_hash: Hash,
        network: Network,
        policy: LoginPolicy,
    ) -> Result<Attempt, AuthError> {
        let id = self.0.context.ids.next_ulid();
        self.0
            .context
            .db
            .write_relaxed(async move |tx: &mut Tx| {
                let now = tx.clock().now();
                let since = now - policy.window;
                let limit = policy.deciding_failures();
                let here = store::failures::list_failures(tx, &username_hash, &network, since, limit).await?;
                let everywhere = store::failures::count_failures(tx, &username_hash, since).await?;
                let delay = match evaluate(&policy, &here, everywhere, now) {
                    AttemptDecision::Refused { retry_after } => return Err(AuthError::TooManyFailures { retry_after }),
                    AttemptDecision::Checked { delay } => delay,
                };
                store::failures::insert_failure(tx, &id, &username_hash, &network).await?;
                let user = store::accounts::find_user(tx, &username).await?;
                Ok(Attempt { id: id.clone(), delay, user })
            })
            .await
    }

    fn new_session(&self, user: User, origin: &LoginOrigin) -> LoggedIn {
        let entropy = &self.0.context.entropy;
        LoggedIn {
            user,
            session: UserSessionId::generate(&self.0.context.ids),
            token: entropy.secret(SESSION_PREFIX),
            page_secret: origin.is_page.then(|| entropy.secret(PAGE_SECRET_PREFIX)),
            expires_in_seconds: self.login_policy().session_ttl.as_secs(),
            bootstrap_mode: true,
        }
    }
}

async fn start_session(tx: &mut Tx, logged_in: &LoggedIn, origin: &LoginOrigin) -> Result<(), AuthError> {
    let LoggedIn { user, expires_in_seconds, .. } = logged_in;
    let expires_at = tx.clock().now() + std::time::Duration::from_secs(*expires_in_seconds);
    store::sessions::insert_session(tx, logged_in, expires_at, origin).await?;
    for former in &origin.replaces {
        if let Some(id) = store::sessions::delete_session_of_token(tx, &user.id, &former.sha256()).await? {
            store::tickets::delete_tickets_of(tx, &id).await?;
            tx.touch(CREDENTIALS);
        }
    }
    if store::sessions::trim_sessions(tx, &user.id, MAX_SESSIONS).await? > 0 {
        tx.touch(CREDENTIALS);
    }
    Ok(())
}
