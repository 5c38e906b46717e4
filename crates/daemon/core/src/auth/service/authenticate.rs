//! Authentication of requests. This is the hot path of the API.

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
use super::cache::{CachedCredential, CachedPage, CredentialCache};
use super::uses::LastUse;
use crate::auth::error::AuthError;
use crate::auth::model::{ClosedReason, is_key, is_page_secret, is_session, is_ticket};
use crate::auth::store;
use crate::auth::store::Hash;

impl Authenticate for Auth {
    fn authenticate(&self, credential: Option<Credential>) -> BoxFuture<'_, Result<Caller, AccessDenied>> {
        // Fast path of nearly all requests: avoids the allocation of a large future.
        if let Some(Credential::Token(token)) = &credential
            && let Some(caller) = self.cached_key(token)
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

    fn is_valid<'a>(&'a self, caller: &'a Caller) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            let lookup = async {
                let mut read = self.0.context.db.read().await?;
                store::tickets::is_credential_valid(&mut read, caller).await
            };
            lookup.await.unwrap_or(true)
        })
    }

    fn admit_anonymous(&self, origin: Option<&str>) -> BoxFuture<'_, Result<(), AccessDenied>> {
        let origin = origin.map(str::to_owned);
        Box::pin(async move {
            let now = self.0.context.clock.now();
            let admit = |state| self.0.anonymous_access.admit(state, origin.as_deref(), now);
            // A slightly old state suffices to reject a request, because access never reopens. Admission needs the
            // current state.
            let mut admitted = admit(self.recent_bootstrap_state().await.map_err(unavailable)?);
            if admitted.is_ok() {
                admitted = admit(self.bootstrap_state().await.map_err(unavailable)?);
            }
            match admitted {
                Ok(()) => Ok(()),
                Err(ClosedReason::ForeignOrigin) => Err(AccessDenied::Refused {
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

/// Kind of credential that was rejected.
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
                "The Authorization header contains no valid credential: it must read \
                `Bearer <API key or session token>`"
            }
            Self::Key => "The API key is invalid or revoked",
            Self::Session => "The session token is invalid or revoked, or has expired; log in again",
            Self::CookieAlone => {
                "The session cookie is valid only with the page secret of the login, sent as `X-Svc-Page`; log in again"
            }
            Self::Ticket => {
                "The ticket is invalid, was used, or has expired; create a new one with POST /api/auth/ticket"
            }
        }
    }
}

impl Auth {
    /// Returns the caller of a key, or of a session once a key exists.
    async fn find_caller(&self, token: &Secret) -> Result<Option<Caller>, AuthError> {
        let Some(known) = self.find_credential(token).await? else { return Ok(None) };
        if known.caller.kind == CallerKind::Session && self.bootstrap_state().await?.bootstrap_mode {
            return Ok(None);
        }
        Ok(Some(self.caller_of(&known)))
    }

    async fn find_page_caller(&self, page: &PageCredential) -> Result<Option<Caller>, AuthError> {
        let Some(known) = self.find_page_credential(page).await? else { return Ok(None) };
        Ok((!self.bootstrap_state().await?.bootstrap_mode).then(|| self.caller_of(&known)))
    }

    fn caller_of(&self, known: &CachedCredential) -> Caller {
        known.caller_at(self.0.context.clock.now())
    }

    /// Returns the caller of a cached key, without database access.
    fn cached_key(&self, token: &Secret) -> Option<Caller> {
        if !is_key(token) {
            return None;
        }
        let hash = token.sha256();
        let known = self.0.cache.try_get()?.find(&hash)?;
        Some(self.caller_of(&*self.verify(known, &hash)?))
    }

    /// Returns the kind of a valid credential, even if it does not grant access yet.
    ///
    /// # Errors
    /// `Store` if the database is unavailable.
    pub async fn validate(&self, credential: Option<Credential>) -> Result<Option<CallerKind>, AuthError> {
        let known = match credential {
            Some(Credential::Token(token)) => self.find_credential(&token).await?,
            Some(Credential::Page(page)) => self.find_page_credential(&page).await?,
            Some(Credential::Ticket(_) | Credential::Unreadable) | None => None,
        };
        Ok(known.map(|known| known.caller.kind))
    }

    async fn find_credential(&self, token: &Secret) -> Result<Option<Arc<CachedCredential>>, AuthError> {
        if !is_key(token) && !is_session(token) {
            return Ok(None);
        }
        self.look_up(token).await
    }

    /// Returns the session of a page secret if one of the cookies contains its token.
    ///
    /// The lookup is by the secret, so that its cost does not depend on the number of cookies.
    async fn find_page_credential(&self, page: &PageCredential) -> Result<Option<Arc<CachedCredential>>, AuthError> {
        let Some(secret) = page.secret.as_ref().filter(|secret| is_page_secret(secret)) else { return Ok(None) };
        let Some(known) = self.look_up(secret).await? else { return Ok(None) };
        let Some(expected) = known.page.as_ref().map(|page| page.cookie_hash) else { return Ok(None) };
        let is_token = |cookie: &Secret| bool::from(cookie.sha256().ct_eq(&expected));
        // All cookies are compared, so that the timing does not reveal which one matches.
        let matches = page.cookies.iter().filter(|cookie| is_token(cookie)).count();
        if matches == 0 {
            return Ok(None);
        }
        self.record_use(&known);
        Ok(Some(known))
    }

    /// Looks up a key, token or page secret by its hash.
    async fn look_up(&self, token: &Secret) -> Result<Option<Arc<CachedCredential>>, AuthError> {
        let hash = token.sha256();
        let known = match self.0.context.db.dialect() {
            Dialect::Sqlite => {
                // The cache is fetched before the row is read: after a concurrent revocation, the entry ends up in an
                // outdated cache that is no longer used.
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
            // Not cached, because another replica may have revoked the credential.
            Dialect::Postgres => Box::pin(self.load(token, &hash)).await?.map(Arc::new),
        };
        Ok(known.and_then(|known| self.verify(known, &hash)))
    }

    /// Returns the credential if the hash matches and it has not expired, and records its use.
    fn verify(&self, known: Arc<CachedCredential>, hash: &Hash) -> Option<Arc<CachedCredential>> {
        let now = self.0.context.clock.now();
        let is_valid = bool::from(known.hash.ct_eq(hash)) && known.expires_at.is_none_or(|expires_at| now < expires_at);
        if !is_valid {
            return None;
        }
        // A page secret alone does not count as a use of its session.
        if known.page.is_none() {
            self.record_use(&known);
        }
        Some(known)
    }

    fn record_use(&self, known: &CachedCredential) {
        self.0.uses.record(known.caller.kind, known.token_hash(), &known.last_use, self.0.context.clock.now());
    }

    async fn load(&self, token: &Secret, hash: &Hash) -> Result<Option<CachedCredential>, AuthError> {
        let mut read = self.0.context.db.read().await?;
        if is_key(token) {
            let found = store::keys::find_key(&mut read, hash).await?;
            return Ok(found.map(|(key, stored)| CachedCredential {
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
                last_use: LastUse::new(key.last_used),
            }));
        }
        let found = if is_page_secret(token) {
            store::sessions::find_page_session(&mut read, hash).await?
        } else {
            store::sessions::find_session(&mut read, hash).await?
        };
        Ok(found.map(|session| CachedCredential {
            hash: session.page.as_ref().map_or(session.token_hash, |page| page.secret_hash),
            caller: Caller {
                kind: CallerKind::Session,
                credential_id: session.id.as_str().into(),
                user_id: Some(session.user_id.as_str().into()),
                scope: Scope::Full,
                password: PasswordProof::NotRequired,
            },
            page: session.page.map(|page| CachedPage {
                cookie_hash: session.token_hash,
                reauthenticated_until: page.reauthenticated_until,
            }),
            expires_at: Some(session.expires_at),
            last_use: LastUse::new(session.last_used_at),
        }))
    }

    /// Consumes a ticket. Unknown tickets are rejected without a transaction, because the route is public.
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
        tracing::error!(error = &error as &dyn std::error::Error, "failed to look up credential");
    }
    AccessDenied::Unavailable
}
