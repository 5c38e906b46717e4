//! Who is asking.

use std::sync::Arc;

use axum::extract::FromRequestParts;
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

/// The authenticated caller of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    pub kind: CallerKind,
    /// Id of the key or session; what idempotency records are kept under.
    pub credential_id: Arc<str>,
    /// The user behind a session; keys belong to the daemon.
    pub user_id: Option<Arc<str>>,
    pub scope: Scope,
}

impl Caller {
    #[must_use]
    pub fn anonymous() -> Self {
        Self { kind: CallerKind::Anonymous, credential_id: "anonymous".into(), user_id: None, scope: Scope::Full }
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
