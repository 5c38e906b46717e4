//! Access rules of routes: which credential a request presents, and whether it may enter.

use std::sync::Arc;
use std::time::Duration;

use agentd_base::Secret;
use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::future::BoxFuture;
use http::header::{AUTHORIZATION, ORIGIN, UPGRADE};
use http::{HeaderMap, Method, StatusCode, Uri};

use crate::caller::{Caller, Scope};
use crate::cookie::{CookieScope, PageCredential, page_credential};
use crate::error::ApiError;
use crate::follow::route_of;
use crate::http_stack::Route;
use crate::idempotency::{IdempotencyGuard, check_idempotency, refuse_step_done};
use crate::watch::{Opener, while_let_in};
use crate::weight::refuse_heavy;

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

fn presented_credential(headers: &HeaderMap) -> Option<Credential> {
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

fn ticket(uri: &Uri) -> Option<Credential> {
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

fn cookies_of(credential: &Option<Credential>, request: &Request) -> Option<CookieScope> {
    matches!(credential, Some(Credential::Page(_))).then(|| CookieScope::new(request.uri(), request.headers()))
}

fn refusal(denied: AccessDenied, cookies: Option<CookieScope>) -> ApiError {
    let is_over = matches!(&denied, AccessDenied::Refused { code: INVALID_CREDENTIAL, .. });
    let error = ApiError::from(denied);
    match cookies {
        Some(cookies) if is_over => error.with_cookies(cookies.delete_sessions()),
        _ => error,
    }
}

/// State of the middleware in front of each route.
#[derive(Clone)]
pub(crate) struct RouteAccess {
    pub(crate) auth: Arc<dyn Authenticate>,
    pub(crate) idempotency: Arc<IdempotencyGuard>,
    /// What bodies may weigh, in bytes; `None` where the handler reads them as they come.
    pub(crate) body_limit: Option<usize>,
    pub(crate) requirements: Requirements,
}

/// What a route requires beyond the access rule of its group.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Requirements {
    /// Whether a ticket in the query stands for a credential.
    pub(crate) accepts_ticket: bool,
    /// Whether a page session needs a recently entered password.
    pub(crate) recent_password: bool,
}

impl RouteAccess {
    pub(crate) fn streamed(self) -> Self {
        Self { body_limit: None, ..self }
    }

    fn read_credential(&self, request: &Request) -> Result<Option<Credential>, ApiError> {
        if self.requirements.accepts_ticket
            // A header that a browser or a proxy adds of its own does not replace the ticket.
            && let None | Some(Credential::Unreadable) = presented_credential(request.headers())
            && let Some(ticket) = ticket(request.uri())
        {
            return Ok(Some(ticket));
        }
        read_credential(request)
    }

    /// What every access rule ends in. One layer does it all: each layer of a route is cloned with
    /// every request.
    async fn enter(
        &self,
        credential: Option<Credential>,
        caller: Caller,
        mut request: Request,
        next: Next,
    ) -> Result<Response, ApiError> {
        if self.requirements.recent_password {
            caller.require_recent_password()?;
        }
        request = refuse_heavy(request, self.body_limit)?;
        request.extensions_mut().insert(caller.clone());
        let opener = Opener { auth: Arc::clone(&self.auth), credential, caller };
        // What a WebSocket says does not pass through here: whoever serves it looks after its opener.
        if request.headers().contains_key(UPGRADE) {
            request.extensions_mut().insert(opener.clone());
        }
        let route = request.extensions().get::<MatchedPath>().cloned();
        let response = match self.body_limit {
            Some(_) => check_idempotency(&self.idempotency, request, next).await?,
            None => next.run(request).await,
        };
        let mut response = while_let_in(response, opener);
        name_route(&mut response, route);
        Ok(response)
    }
}

fn name_route(response: &mut Response, route: Option<MatchedPath>) {
    if let Some(route) = route {
        response.extensions_mut().insert(Route(route));
    }
}

/// Nobody is asked who they are; strangers share one set of idempotency keys.
pub(crate) async fn let_everybody_in(State(access): State<RouteAccess>, request: Request, next: Next) -> Response {
    let route = route_of(&request);
    access.enter(None, Caller::anonymous(), request, next).await.unwrap_or_else(|error| refused(route, error))
}

/// A refusal is counted under the route that was asked for.
fn refused(route: Option<MatchedPath>, error: ApiError) -> Response {
    let mut response = error.into_response();
    name_route(&mut response, route);
    response
}

fn insufficient_scope() -> ApiError {
    ApiError::new(
        StatusCode::FORBIDDEN,
        "insufficient_scope",
        "This API key may only read; use a key with the scope `full`",
    )
}

/// Requires a valid credential that `may_enter`.
async fn require_credential(
    access: RouteAccess,
    request: Request,
    next: Next,
    may_enter: fn(&Caller, &Method) -> bool,
) -> Response {
    let route = route_of(&request);
    let entered = async {
        let credential = access.read_credential(&request)?;
        let caller = authenticate(&*access.auth, &credential, &request).await?;
        if !may_enter(&caller, request.method()) {
            return Err(insufficient_scope());
        }
        access.enter(credential, caller, request, next).await
    };
    entered.await.unwrap_or_else(|error| refused(route, error))
}

/// Requires a credential; a `read` key may only read.
pub(crate) async fn require_authentication(
    State(access): State<RouteAccess>,
    request: Request,
    next: Next,
) -> Response {
    let may_enter =
        |caller: &Caller, method: &Method| caller.scope == Scope::Full || matches!(*method, Method::GET | Method::HEAD);
    require_credential(access, request, next, may_enter).await
}

/// Requires a credential of the scope `full`, also to read.
pub(crate) async fn require_full_scope(State(access): State<RouteAccess>, request: Request, next: Next) -> Response {
    require_credential(access, request, next, |caller, _| caller.scope == Scope::Full).await
}

/// Requires a credential of any scope.
pub(crate) async fn require_any_scope(State(access): State<RouteAccess>, request: Request, next: Next) -> Response {
    require_credential(access, request, next, |_, _| true).await
}

/// Routes that are open while no API key was ever made: 401 when a credential is
/// presented and wrong, or none is and anonymous access is closed.
pub(crate) async fn require_or_open(State(access): State<RouteAccess>, request: Request, next: Next) -> Response {
    let route = route_of(&request);
    let entered = async {
        let credential = read_credential(&request)?;
        let is_presented = credential.is_some();
        let cookies = cookies_of(&credential, &request);
        // Asked first also without a credential: on the private socket the caller is known all the same.
        let entrance = match access.auth.authenticate(credential.clone()).await {
            Ok(caller) if caller.scope == Scope::Read => return Err(insufficient_scope()),
            Ok(caller) => Ok((credential, caller)),
            // A session of a daemon without keys opens nothing, yet must not close what is open.
            Err(denied) => match access.auth.admit_anonymous(origin(request.headers())).await {
                Ok(()) => Ok((None, Caller::anonymous())),
                Err(closed) => Err(refusal(if is_presented { denied } else { closed }, cookies)),
            },
        };
        // Only now: what closed anonymous access meanwhile is on record.
        let request = refuse_step_done(&access.idempotency, refuse_heavy(request, access.body_limit)?).await?;
        let (credential, caller) = entrance?;
        access.enter(credential, caller, request, next).await
    };
    entered.await.unwrap_or_else(|error| refused(route, error))
}

fn origin(headers: &HeaderMap) -> Option<&str> {
    // An Origin that is no text is foreign, not absent.
    headers.get(ORIGIN).map(|value| value.to_str().unwrap_or("invalid"))
}
