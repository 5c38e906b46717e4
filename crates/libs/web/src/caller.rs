//! Authenticated caller of a request.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use http::StatusCode;
use http::request::Parts;

use crate::error::ApiError;

/// Scope of a credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    Full,
    /// GET and HEAD only.
    Read,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallerKind {
    ApiKey,
    Session,
    /// Anonymous client, allowed until the first key exists.
    Anonymous,
    /// Owner on the daemon's own machine, connected through its private socket.
    Local,
}

/// Whether the caller has proven knowledge of the owner's password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PasswordProof {
    /// The credential is not a page session, so no operation requires the password.
    NotRequired,
    /// The password was entered in this page session within the last ten minutes.
    Recent,
    /// The password must be entered again in this page session.
    Missing,
}

/// The authenticated caller of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    pub kind: CallerKind,
    /// Id of the key or session, which idempotency records belong to.
    pub credential_id: Arc<str>,
    /// User of the session; keys belong to the daemon.
    pub user_id: Option<Arc<str>>,
    pub scope: Scope,
    pub password: PasswordProof,
}

impl Caller {
    #[must_use]
    pub fn anonymous() -> Self {
        Self {
            kind: CallerKind::Anonymous,
            credential_id: "anonymous".into(),
            user_id: None,
            scope: Scope::Full,
            password: PasswordProof::NotRequired,
        }
    }

    /// Rejects a page session whose password was not entered within the last ten minutes.
    ///
    /// Routes that always require a recent password declare it in their group. Handlers call this method if the
    /// requirement depends on the request.
    ///
    /// # Errors
    /// 403 `reauthentication_required`.
    pub fn require_recent_password(&self) -> Result<(), ApiError> {
        match self.password {
            PasswordProof::NotRequired | PasswordProof::Recent => Ok(()),
            PasswordProof::Missing => Err(ApiError::new(
                StatusCode::FORBIDDEN,
                "reauthentication_required",
                "Enter your password again with POST /api/auth/reauthenticate, then repeat this request within ten \
                 minutes",
            )),
        }
    }

    /// Returns the id of the API key, if the caller used one.
    #[must_use]
    pub fn key_id(&self) -> Option<String> {
        (self.kind == CallerKind::ApiKey).then(|| self.credential_id.to_string())
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, ApiError> {
        // Absent only if a route was mounted without its access rule, which is a bug.
        parts.extensions.get::<Self>().cloned().ok_or_else(|| {
            ApiError::internal(&std::io::Error::other("`Caller` was extracted on a route without authentication"))
        })
    }
}
