//! Credentials of requests and their validation.

use std::time::Duration;

use agentd_base::Secret;
use axum::extract::Request;
use futures_util::future::BoxFuture;
use http::header::AUTHORIZATION;
use http::{HeaderMap, StatusCode, Uri};

use crate::caller::Caller;
use crate::cookie::{CookieScope, PageCredential, page_credential};
use crate::error::ApiError;

/// Credential presented by a request.
#[derive(Debug, Clone)]
pub enum Credential {
    /// API key or session token.
    Token(Secret),
    /// Single-use ticket of `POST /api/auth/ticket`, from the query.
    Ticket(Secret),
    /// Session of the daemon's own page.
    Page(PageCredential),
    /// `Authorization` header that is not `Bearer` followed by a token.
    Unreadable,
}

/// Error code of a credential that is invalid or has expired.
pub const INVALID_CREDENTIAL: &str = "invalid_credential";

/// Reason for denying access.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccessDenied {
    /// 401 with the message.
    Refused { code: &'static str, message: String },
    /// Response 429.
    TooMany { retry_after: Duration },
    /// The credential could not be checked because the database is unavailable.
    Unavailable,
}

impl From<AccessDenied> for ApiError {
    fn from(denied: AccessDenied) -> Self {
        match denied {
            AccessDenied::Refused { code, message } => Self::new(StatusCode::UNAUTHORIZED, code, message),
            AccessDenied::TooMany { retry_after } => Self::new(
                StatusCode::TOO_MANY_REQUESTS,
                "too_many_attempts",
                "Too many attempts; retry after the time in `Retry-After`",
            )
            .with_retry_after(retry_after),
            AccessDenied::Unavailable => Self::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "database_unavailable",
                "The credential cannot be checked because the database is unavailable; retry shortly",
            )
            .with_retry_after(Duration::from_secs(1)),
        }
    }
}

/// Validates credentials; implemented by the domain that stores them.
pub trait Authenticate: Send + Sync + 'static {
    /// Returns the holder of a credential; `None` is a request without one.
    fn authenticate(&self, credential: Option<Credential>) -> BoxFuture<'_, Result<Caller, AccessDenied>>;

    /// Whether a caller authenticated by a ticket is still valid. Called about once per second and open stream; returns
    /// true while the database is unavailable.
    fn is_valid<'a>(&'a self, caller: &'a Caller) -> BoxFuture<'a, bool>;

    /// Allows or rejects an anonymous request. Allowed until the first key exists. `origin` is the request's `Origin`
    /// header, which only browsers send.
    fn admit_anonymous(&self, origin: Option<&str>) -> BoxFuture<'_, Result<(), AccessDenied>>;
}

/// Reads the credential of a request: `Authorization: Bearer`, else `X-API-Key`, else the session of the daemon's own
/// page.
///
/// # Errors
/// 403 if a page session lacks the header `X-Svc-Csrf` on a request that is not read-only.
pub fn read_credential(request: &Request) -> Result<Option<Credential>, ApiError> {
    match presented_credential(request.headers()) {
        // An `Authorization` header added by a browser or proxy does not override the cookie.
        unusable @ (None | Some(Credential::Unreadable)) => {
            Ok(page_credential(request)?.map(Credential::Page).or(unusable))
        }
        token => Ok(token),
    }
}

pub(crate) fn presented_credential(headers: &HeaderMap) -> Option<Credential> {
    let bearer = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()).and_then(|value| {
        let (scheme, token) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
    });
    let header = || headers.get("x-api-key").and_then(|value| value.to_str().ok()).map(str::trim);
    match bearer.or_else(header).filter(|token| !token.is_empty()) {
        Some(token) => Some(Credential::Token(Secret::new(token.to_owned()))),
        None => headers.contains_key(AUTHORIZATION).then_some(Credential::Unreadable),
    }
}

pub(crate) fn ticket(uri: &Uri) -> Option<Credential> {
    let query = uri.query()?;
    let (_, ticket) = form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "ticket")?;
    Some(Credential::Ticket(Secret::new(ticket.into_owned())))
}

/// Authenticates a request that presents `credential`.
///
/// The response to an invalid page session deletes its cookies, including those set by another server under the
/// daemon's host name, so that the next login starts cleanly.
pub(crate) fn authenticate<'a>(
    auth: &'a dyn Authenticate,
    credential: &Option<Credential>,
    request: &Request,
) -> impl Future<Output = Result<Caller, ApiError>> + Send + use<'a> {
    let cookies = cookies_of(credential, request);
    let authenticated = auth.authenticate(credential.clone());
    async move { authenticated.await.map_err(|denied| denial_response(denied, cookies)) }
}

pub(crate) fn cookies_of(credential: &Option<Credential>, request: &Request) -> Option<CookieScope> {
    matches!(credential, Some(Credential::Page(_))).then(|| CookieScope::new(request.uri(), request.headers()))
}

pub(crate) fn denial_response(denied: AccessDenied, cookies: Option<CookieScope>) -> ApiError {
    let is_over = matches!(&denied, AccessDenied::Refused { code: INVALID_CREDENTIAL, .. });
    let error = ApiError::from(denied);
    match cookies {
        Some(cookies) if is_over => error.with_cookies(cookies.delete_sessions()),
        _ => error,
    }
}
