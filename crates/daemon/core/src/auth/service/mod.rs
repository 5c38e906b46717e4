//! The use cases.

mod account;
mod authenticate;
mod cache;
mod keys;
mod passwords;
mod sessions;
mod tickets;
mod turns;
mod uses;

use std::sync::Arc;
use std::time::Duration;

use agentd_store::{Read, Snapshot, Topic};
use agentd_web::{Caller, CallerKind};

use super::error::AuthError;
use super::model::{AnonymousAccess, BootstrapState, By, LoginPolicy};
use super::store;
use crate::parts::Detached;
use crate::runtime::AppContext;
use crate::settings::Settings;
use cache::CredentialCache;
use passwords::Passwords;
use turns::Turns;
pub(super) use uses::CredentialUses;

/// Changes when a credential stops being valid or bootstrap moves on.
pub const CREDENTIALS: Topic = Topic::new("credentials");

/// How old the state of bootstrap may be that strangers are told.
const ANONYMOUS_STATE_AGE: Duration = Duration::from_secs(1);

/// How the process was started.
#[derive(Debug, Clone)]
pub struct AuthOptions {
    /// `SVC_API_KEY_REQUIRED`: no anonymous access until the first key exists.
    pub api_key_required: bool,
    /// Strangers can reach the daemon: then anonymous access closes 15 minutes after the start.
    pub listens_beyond_loopback: bool,
    /// Origins whose pages may use anonymous access, as a browser writes them.
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
    turns: Turns,
    /// Only one account can be made: those who come meanwhile wait instead of hashing in vain.
    registering: tokio::sync::Mutex<()>,
}

/// Knows every credential. Cheap to clone.
#[derive(Clone)]
pub struct Auth(Arc<Inner>);

impl std::fmt::Debug for Auth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Auth").field("anonymous_access", &self.0.anonymous_access).finish_non_exhaustive()
    }
}

impl Auth {
    /// The time of this call is the start from which anonymous access counts its 15 minutes.
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
            turns: Turns::default(),
            registering: tokio::sync::Mutex::default(),
            context,
            settings,
            anonymous_access,
        })))
    }

    /// How far bootstrap has come. Cached; never stale.
    ///
    /// # Errors
    /// The database is away.
    pub async fn bootstrap_state(&self) -> Result<BootstrapState, AuthError> {
        let state =
            self.0.state.get(async |read| store::bootstrap::get_state(read).await.map_err(AuthError::from)).await?;
        Ok(*state)
    }

    /// The same for those whom nobody knows: on PostgreSQL what another replica did may be a second
    /// late, and the database is asked once a second, however often they come.
    ///
    /// # Errors
    /// The database is away.
    pub async fn recent_bootstrap_state(&self) -> Result<BootstrapState, AuthError> {
        let load = async |read: &mut Read| store::bootstrap::get_state(read).await.map_err(AuthError::from);
        Ok(*self.0.state.get_recent(ANONYMOUS_STATE_AGE, load).await?)
    }

    /// How many sessions of logged-in users have not expired.
    ///
    /// # Errors
    /// The database is away.
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

fn by(caller: &Caller) -> By {
    match caller.kind {
        CallerKind::Anonymous => By::Anonymous,
        CallerKind::ApiKey | CallerKind::Session => By::Credential,
        CallerKind::Local => By::Owner,
    }
}
