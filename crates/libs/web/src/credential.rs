//! Which credential a request presents, and who decides whether it is valid.

use std::time::Duration;

use agentd_base::Secret;
use axum::extract::Request;
use futures_util::future::BoxFuture;
use http::header::AUTHORIZATION;
use http::{HeaderMap, StatusCode, Uri};

use crate::caller::Caller;
use crate::cookie::{CookieScope, PageCredential, page_credential};
use crate::error::ApiError;

/// The credential that a request presents.
#[derive(Debug, Clone)]
pub enum Credential {
    /// An API key or a session token.
    Token(Secret),
    /// A single-use ticket of `POST /api/auth/ticket`, from the query.
    Ticket(Secret),
    /// The session of the daemon's own page.
    Page(PageCredential),
    /// An `Authorization` header that is not `Bearer` and a token.
    Unreadable,
}

/// The code of a credential that is wrong, or was good once.
pub const INVALID_CREDENTIAL: &str = "invalid_credential";

/// Why a request is not let in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccessDenied {
    /// 401 with the sentence.
    Refused { code: &'static str, message: String },
    /// 429
    TooMany { retry_after: Duration },
    /// The credential could not be looked up; the database is away.
    Unavailable,
}

impl From<AccessDenied> for ApiError {
    fn from(denied: AccessDenied) -> Self {
        match denied {
            AccessDenied::Refused { code, message } => Self::new(StatusCode::UNAUTHORIZED, code, message),
            AccessDenied::TooMany { retry_after } => {
                Self::new(StatusCode::TOO_MANY_REQUESTS, "too_many_attempts", "Too many attempts; try again later")
                    .with_retry_after(retry_after)
            }
            AccessDenied::Unavailable => Self::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "database_unavailable",
                "The credential cannot be checked because the database is away; try again shortly",
            )
            .with_retry_after(Duration::from_secs(1)),
        }
    }
}

/// The domain that knows credentials implements this.
pub trait Authenticate: Send + Sync + 'static {
    /// Who holds this credential; `None` is a request without one.
    fn authenticate(&self, credential: Option<Credential>) -> BoxFuture<'_, Result<Caller, AccessDenied>>;

    /// Whether a credential that a ticket stood for is still good. Asked about once a second for each open stream;
    /// a database that is away is no reason to say no.
    fn is_in_force<'a>(&'a self, caller: &'a Caller) -> BoxFuture<'a, bool>;

    /// Whether an anonymous request is let in, as it is until the first key exists.
    /// `origin` is the request's `Origin` header, which only a browser sends.
    fn admit_anonymous(&self, origin: Option<&str>) -> BoxFuture<'_, Result<(), AccessDenied>>;
}

/// Reads the credential of a request: `Authorization: Bearer`, else `X-API-Key`, else the session of the daemon's own
/// page.
///
/// # Errors
/// 403 if a page session wants to change something without the header `X-Svc-Csrf`.
pub fn read_credential(request: &Request) -> Result<Option<Credential>, ApiError> {
    match presented_credential(request.headers()) {
        // A header that a browser or a proxy adds of its own stands in no cookie's way.
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
/// The response to an invalid page session deletes its cookies, including those that another server under the daemon's
/// host name set, so that signing in again starts afresh.
pub(crate) fn authenticate<'a>(
    auth: &'a dyn Authenticate,
    credential: &Option<Credential>,
    request: &Request,
) -> impl Future<Output = Result<Caller, ApiError>> + Send + use<'a> {
    let cookies = cookies_of(credential, request);
    let authenticated = auth.authenticate(credential.clone());
    async move { authenticated.await.map_err(|denied| refusal(denied, cookies)) }
}

pub(crate) fn cookies_of(credential: &Option<Credential>, request: &Request) -> Option<CookieScope> {
    matches!(credential, Some(Credential::Page(_))).then(|| CookieScope::new(request.uri(), request.headers()))
}

pub(crate) fn refusal(denied: AccessDenied, cookies: Option<CookieScope>) -> ApiError {
    let is_over = matches!(&denied, AccessDenied::Refused { code: INVALID_CREDENTIAL, .. });
    let error = ApiError::from(denied);
    match cookies {
        Some(cookies) if is_over => error.with_cookies(cookies.delete_sessions()),
        _ => error,
    }
}
