//! Who is asking.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use http::StatusCode;
use http::request::Parts;

use crate::error::ApiError;

/// What a credential may do.
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
    /// Came anonymously, as is allowed until the first key exists.
    Anonymous,
    /// The owner on the daemon's own machine, through its private socket.
    Local,
}

/// Whether the holder of a credential has shown to know the owner's password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PasswordProof {
    /// The credential is no page session, so no operation asks for the password.
    NotRequired,
    /// The password was entered in this page session within the last ten minutes.
    Recent,
    /// A page session in which the password must be entered again first.
    Missing,
}

/// The authenticated caller of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    pub kind: CallerKind,
    /// Id of the key or session; what idempotency records are kept under.
    pub credential_id: Arc<str>,
    /// The user behind a session; keys belong to the daemon.
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

    /// Refuses a page session whose password was not entered within the last ten minutes.
    ///
    /// Routes that always require it declare so in their group; handlers call this where it depends on the request.
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

    /// The API key that was presented, if it was one.
    #[must_use]
    pub fn key_id(&self) -> Option<String> {
        (self.kind == CallerKind::ApiKey).then(|| self.credential_id.to_string())
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, ApiError> {
        // Absent only where a route was mounted without its access rule, which is a mistake of ours.
        parts.extensions.get::<Self>().cloned().ok_or_else(|| {
            ApiError::internal(&std::io::Error::other("a handler asked for its caller on a public route"))
        })
    }
}
