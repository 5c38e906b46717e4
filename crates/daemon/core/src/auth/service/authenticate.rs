//! The hot path: who holds this credential?

use std::sync::Arc;

use agentd_base::Secret;
use agentd_store::{Dialect, StoreError, Tx};
use agentd_web::{
    AccessDenied, Authenticate, Caller, CallerKind, Credential, INVALID_CREDENTIAL, PageCredential, PasswordProof,
    Scope,
};
use futures_util::future::BoxFuture;
use subtle::ConstantTimeEq;

use super::Auth;
use super::cache::{CredentialCache, Known, KnownPage};
use super::uses::NotedUse;
use crate::auth::error::AuthError;
use crate::auth::model::{Closed, is_key, is_page_secret, is_session, is_ticket};
use crate::auth::store;
use crate::auth::store::Hash;

impl Authenticate for Auth {
    fn authenticate(&self, credential: Option<Credential>) -> BoxFuture<'_, Result<Caller, AccessDenied>> {
        // Nearly every request; a future for all cases is several times as large as the answer.
        if let Some(Credential::Token(token)) = &credential
            && let Some(caller) = self.key_at_hand(token)
        {
            return Box::pin(std::future::ready(Ok(caller)));
        }
        Box::pin(async move {
            let refused = match &credential {
                None => Refused::Missing,
                Some(Credential::Unreadable) => Refused::Unreadable,
                Some(Credential::Token(token)) => match self.find_caller(token).await.map_err(unavailable)? {
                    Some(caller) => return Ok(caller),
                    None if is_session(token) => Refused::Session,
                    None => Refused::Key,
                },
                Some(Credential::Page(page)) => match self.find_page_caller(page).await.map_err(unavailable)? {
                    Some(caller) => return Ok(caller),
                    None if page.secret.is_none() => Refused::CookieAlone,
                    None => Refused::Session,
                },
                Some(Credential::Ticket(ticket)) => match self.take_ticket(ticket).await.map_err(unavailable)? {
                    Some(caller) => return Ok(caller),
                    None => Refused::Ticket,
                },
            };
            Err(self.refuse(refused).await)
        })
    }

    fn is_in_force<'a>(&'a self, caller: &'a Caller) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            let looked_up = async {
                let mut read = self.0.context.db.read().await?;
                store::tickets::is_in_force(&mut read, caller).await
            };
            looked_up.await.unwrap_or(true)
        })
    }

    fn admit_anonymous(&self, origin: Option<&str>) -> BoxFuture<'_, Result<(), AccessDenied>> {
        let origin = origin.map(str::to_owned);
        Box::pin(async move {
            let now = self.0.context.clock.now();
            let admit = |state| self.0.anonymous_access.admit(state, origin.as_deref(), now);
            // Access that was closed a moment ago stays closed; open access must be so now.
            let mut admitted = admit(self.recent_bootstrap_state().await.map_err(unavailable)?);
            if admitted.is_ok() {
                admitted = admit(self.bootstrap_state().await.map_err(unavailable)?);
            }
            match admitted {
                Ok(()) => Ok(()),
                Err(Closed::ForeignOrigin) => Err(AccessDenied::Refused {
                    code: "foreign_origin",
                    message: "A page of another origin must not set up this daemon; open the daemon's own address, or \
                              name the page's origin in SVC_CORS_ORIGINS"
                        .to_owned(),
                }),
                Err(_) => Err(self.refuse(Refused::Missing).await),
            }
        })
    }
}

/// What was presented, and is not good.
#[derive(Debug, Clone, Copy)]
enum Refused {
    Missing,
    Unreadable,
    Key,
    Session,
    CookieAlone,
    Ticket,
}

impl Refused {
    fn code(self) -> &'static str {
        match self {
            Self::Missing | Self::Unreadable => "missing_credential",
            Self::Key | Self::Session | Self::CookieAlone | Self::Ticket => INVALID_CREDENTIAL,
        }
    }

    fn message(self) -> &'static str {
        match self {
            Self::Missing => {
                "The Authorization header is missing: send `Authorization: Bearer <API key or session token>`"
            }
            Self::Unreadable => {
                "The Authorization header holds no credential of this daemon: it must read \
                 `Bearer <API key or session token>`"
            }
            Self::Key => "The API key is invalid or revoked",
            Self::Session => "The session token is invalid or revoked, or has expired; log in again",
            Self::CookieAlone => {
                "The session cookie is no credential without the page secret of the login, sent as `X-Svc-Page`; log in \
                 again"
            }
            Self::Ticket => {
                "The ticket is invalid, was used, or has expired; take a new one with POST /api/auth/ticket"
            }
        }
    }
}

impl Auth {
    /// Who holds a key, or a session once keys exist.
    async fn find_caller(&self, token: &Secret) -> Result<Option<Caller>, AuthError> {
        let Some(known) = self.find_known(token).await? else { return Ok(None) };
        if known.caller.kind == CallerKind::Session && self.bootstrap_state().await?.bootstrap_mode {
            return Ok(None);
        }
        Ok(Some(self.caller_of(&known)))
    }

    async fn find_page_caller(&self, page: &PageCredential) -> Result<Option<Caller>, AuthError> {
        let Some(known) = self.find_known_page(page).await? else { return Ok(None) };
        Ok((!self.bootstrap_state().await?.bootstrap_mode).then(|| self.caller_of(&known)))
    }

    fn caller_of(&self, known: &Known) -> Caller {
        known.caller_at(self.0.context.clock.now())
    }

    /// Who holds a key that was presented before.
    fn key_at_hand(&self, token: &Secret) -> Option<Caller> {
        if !is_key(token) {
            return None;
        }
        let hash = token.sha256();
        let known = self.0.cache.at_hand()?.find(&hash)?;
        Some(self.caller_of(&*self.checked(known, &hash)?))
    }

    /// What kind of credential this is, if it is valid, whether or not it opens anything yet.
    ///
    /// # Errors
    /// The database is away.
    pub async fn validate(&self, credential: Option<Credential>) -> Result<Option<CallerKind>, AuthError> {
        let known = match credential {
            Some(Credential::Token(token)) => self.find_known(&token).await?,
            Some(Credential::Page(page)) => self.find_known_page(&page).await?,
            Some(Credential::Ticket(_) | Credential::Unreadable) | None => None,
        };
        Ok(known.map(|known| known.caller.kind))
    }

    async fn find_known(&self, token: &Secret) -> Result<Option<Arc<Known>>, AuthError> {
        if !is_key(token) && !is_session(token) {
            return Ok(None);
        }
        self.look_up(token).await
    }

    /// The session of a page secret, if one of the cookies is its token.
    ///
    /// Looked up by the secret, so that the number of cookies does not multiply the lookups.
    async fn find_known_page(&self, page: &PageCredential) -> Result<Option<Arc<Known>>, AuthError> {
        let Some(secret) = page.secret.as_ref().filter(|secret| is_page_secret(secret)) else { return Ok(None) };
        let Some(known) = self.look_up(secret).await? else { return Ok(None) };
        let Some(expected) = known.page.as_ref().map(|page| page.cookie_hash) else { return Ok(None) };
        let is_token = |cookie: &Secret| bool::from(cookie.sha256().ct_eq(&expected));
        // Every cookie is compared, so that the time does not tell which one matches.
        let matches = page.cookies.iter().filter(|cookie| is_token(cookie)).count();
        if matches == 0 {
            return Ok(None);
        }
        self.note_use(&known);
        Ok(Some(known))
    }

    /// Looks a key, token or page secret up by its hash.
    async fn look_up(&self, token: &Secret) -> Result<Option<Arc<Known>>, AuthError> {
        let hash = token.sha256();
        let known = match self.0.context.db.dialect() {
            Dialect::Sqlite => {
                // The cache of this state first, then the row: a revocation in between leaves the
                // entry in a cache that nobody asks any more.
                let cache = self.0.cache.get(async |_| Ok::<_, AuthError>(CredentialCache::default())).await?;
                match cache.find(&hash) {
                    Some(known) => Some(known),
                    None => {
                        let loaded = Box::pin(self.load(token, &hash)).await?.map(Arc::new);
                        if let Some(known) = &loaded {
                            cache.insert(known);
                        }
                        loaded
                    }
                }
            }
            // Another replica may have revoked it a moment ago.
            Dialect::Postgres => Box::pin(self.load(token, &hash)).await?.map(Arc::new),
        };
        Ok(known.and_then(|known| self.checked(known, &hash)))
    }

    /// The credential, if it is the one that was presented and has not expired; its use is noted.
    fn checked(&self, known: Arc<Known>, hash: &Hash) -> Option<Arc<Known>> {
        let now = self.0.context.clock.now();
        let is_good = bool::from(known.hash.ct_eq(hash)) && known.expires_at.is_none_or(|expires_at| now < expires_at);
        if !is_good {
            return None;
        }
        // A page secret alone is no use of its session.
        if known.page.is_none() {
            self.note_use(&known);
        }
        Some(known)
    }

    fn note_use(&self, known: &Known) {
        self.0.uses.note(known.caller.kind, known.token_hash(), &known.noted_use, self.0.context.clock.now());
    }

    async fn load(&self, token: &Secret, hash: &Hash) -> Result<Option<Known>, AuthError> {
        let mut read = self.0.context.db.read().await?;
        if is_key(token) {
            let found = store::keys::find_key(&mut read, hash).await?;
            return Ok(found.map(|(key, stored)| Known {
                hash: stored,
                caller: Caller {
                    kind: CallerKind::ApiKey,
                    credential_id: key.id.as_str().into(),
                    user_id: None,
                    scope: key.scope,
                    password: PasswordProof::NotRequired,
                },
                page: None,
                expires_at: None,
                noted_use: NotedUse::new(key.last_used),
            }));
        }
        let found = if is_page_secret(token) {
            store::sessions::find_page_session(&mut read, hash).await?
        } else {
            store::sessions::find_session(&mut read, hash).await?
        };
        Ok(found.map(|session| Known {
            hash: session.page.as_ref().map_or(session.token_hash, |page| page.secret_hash),
            caller: Caller {
                kind: CallerKind::Session,
                credential_id: session.id.as_str().into(),
                user_id: Some(session.user_id.as_str().into()),
                scope: Scope::Full,
                password: PasswordProof::NotRequired,
            },
            page: session.page.map(|page| KnownPage {
                cookie_hash: session.token_hash,
                reauthenticated_until: page.reauthenticated_until,
            }),
            expires_at: Some(session.expires_at),
            noted_use: NotedUse::new(session.last_used_at),
        }))
    }

    /// Only a ticket that is there costs a transaction: this route is open to everybody.
    async fn take_ticket(&self, ticket: &Secret) -> Result<Option<Caller>, AuthError> {
        if !is_ticket(ticket) {
            return Ok(None);
        }
        let hash = ticket.sha256();
        if !store::tickets::has_ticket(&mut self.0.context.db.read().await?, &hash).await? {
            return Ok(None);
        }
        let taken = self
            .0
            .context
            .db
            .write_relaxed(async move |tx: &mut Tx| store::tickets::take_ticket(tx, &hash).await)
            .await;
        Ok(taken?)
    }

    async fn refuse(&self, refused: Refused) -> AccessDenied {
        match self.recent_bootstrap_state().await {
            Err(error) => unavailable(error),
            Ok(state) if state.bootstrap_mode => AccessDenied::Refused {
                code: "bootstrap",
                message: self.0.anonymous_access.next_step(state, self.0.context.clock.now()).to_owned(),
            },
            Ok(_) => AccessDenied::Refused { code: refused.code(), message: refused.message().to_owned() },
        }
    }
}

fn unavailable(error: AuthError) -> AccessDenied {
    let is_outage =
        matches!(&error, AuthError::Store(error) if error.is_unavailable() || matches!(error, StoreError::Contended));
    if !is_outage {
        tracing::error!(error = &error as &dyn std::error::Error, "a credential could not be looked up");
    }
    AccessDenied::Unavailable
}
