//! Authentication service.

mod account;
mod authenticate;
mod cache;
mod keys;
mod login_queue;
mod passwords;
mod sessions;
mod tickets;
mod uses;

use std::sync::Arc;
use std::time::Duration;

use agentd_store::{Read, Snapshot, Topic};
use agentd_web::{Caller, CallerKind};

use super::error::AuthError;
use super::model::{AnonymousAccess, BootstrapState, LoginPolicy, Requester};
use super::store;
use crate::parts::Detached;
use crate::runtime::AppContext;
use crate::settings::Settings;
use cache::CredentialCache;
use login_queue::LoginQueue;
use passwords::Passwords;
pub(super) use uses::CredentialUses;

/// Topic that changes when a credential becomes invalid or the bootstrap state changes.
pub const CREDENTIALS: Topic = Topic::new("credentials");

/// Maximum age of the bootstrap state for anonymous requests.
const ANONYMOUS_STATE_TTL: Duration = Duration::from_secs(1);

/// Options of the process.
#[derive(Debug, Clone)]
pub struct AuthOptions {
    /// Disables anonymous access until the first key exists (`SVC_API_KEY_REQUIRED`).
    pub api_key_required: bool,
    /// Whether the daemon listens beyond loopback, in which case anonymous access closes 15 minutes after the start.
    pub listens_beyond_loopback: bool,
    /// Origins whose pages may use anonymous access, in the format of the `Origin` header.
    pub own_origins: Vec<String>,
}

struct Inner {
    context: AppContext,
    settings: Settings,
    anonymous_access: AnonymousAccess,
    state: Snapshot<BootstrapState>,
    cache: Snapshot<CredentialCache>,
    uses: Arc<CredentialUses>,
    passwords: Passwords,
    login_queue: LoginQueue,
    /// Serializes registrations, because only one account can be created and hashing for the others would be wasted.
    registration: tokio::sync::Mutex<()>,
}

/// Authentication service. Cheap to clone.
#[derive(Clone)]
pub struct Auth(Arc<Inner>);

impl std::fmt::Debug for Auth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Auth").field("anonymous_access", &self.0.anonymous_access).finish_non_exhaustive()
    }
}

impl Auth {
    /// Creates the service. The 15 minutes of anonymous access start with this call.
    pub fn new(context: AppContext, settings: Settings, options: AuthOptions) -> Detached<Self> {
        const TOPICS: &[Topic] = &[CREDENTIALS];
        let anonymous_access = AnonymousAccess {
            api_key_required: options.api_key_required,
            listens_beyond_loopback: options.listens_beyond_loopback,
            started_at: context.clock.now(),
            own_origins: options
                .own_origins
                .into_iter()
                .map(|origin| origin.trim_end_matches('/').to_owned())
                .collect(),
        };
        Detached::new(Self(Arc::new(Inner {
            state: Snapshot::new(&context.db, TOPICS),
            cache: Snapshot::new(&context.db, TOPICS),
            uses: Arc::default(),
            passwords: Passwords::default(),
            login_queue: LoginQueue::default(),
            registration: tokio::sync::Mutex::default(),
            context,
            settings,
            anonymous_access,
        })))
    }

    /// Returns the bootstrap state. Cached, but never stale.
    ///
    /// # Errors
    /// `Store` if the database is unavailable.
    pub async fn bootstrap_state(&self) -> Result<BootstrapState, AuthError> {
        let state =
            self.0.state.get(async |read| store::bootstrap::get_state(read).await.map_err(AuthError::from)).await?;
        Ok(*state)
    }

    /// Returns the bootstrap state for anonymous requests. On PostgreSQL it may be one second old, and the database is
    /// queried at most once per second.
    ///
    /// # Errors
    /// `Store` if the database is unavailable.
    pub async fn recent_bootstrap_state(&self) -> Result<BootstrapState, AuthError> {
        let load = async |read: &mut Read| store::bootstrap::get_state(read).await.map_err(AuthError::from);
        Ok(*self.0.state.get_recent(ANONYMOUS_STATE_TTL, load).await?)
    }

    /// Returns the number of active login sessions.
    ///
    /// # Errors
    /// `Store` if the database is unavailable.
    pub async fn active_sessions(&self) -> Result<i64, AuthError> {
        Ok(store::sessions::count_sessions(&mut self.0.context.db.read().await?).await?)
    }

    pub(super) fn uses(&self) -> &Arc<CredentialUses> {
        &self.0.uses
    }

    pub(super) fn context(&self) -> &AppContext {
        &self.0.context
    }

    pub(super) fn login_policy(&self) -> LoginPolicy {
        let security = self.0.settings.security();
        LoginPolicy {
            session_ttl: Duration::from_secs(security.session_ttl_seconds.into()),
            max_failures: security.login_max_failures,
            window: Duration::from_secs(security.login_window_seconds.into()),
        }
    }
}

fn requester(caller: &Caller) -> Requester {
    match caller.kind {
        CallerKind::Anonymous => Requester::Anonymous,
        CallerKind::ApiKey | CallerKind::Session => Requester::Credential,
        CallerKind::Local => Requester::Owner,
    }
}
