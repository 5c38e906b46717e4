//! Access rules of routes.

use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{ORIGIN, UPGRADE};
use http::{HeaderMap, Method, StatusCode};

use crate::caller::{Caller, Scope};
use crate::content_length::check_content_length;
use crate::credential::{
    Authenticate, Credential, authenticate, cookies_of, denial_response, presented_credential, read_credential, ticket,
};
use crate::error::ApiError;
use crate::http_stack::Route;
use crate::idempotency::{IdempotencyGuard, check_idempotency, reject_completed_step};
use crate::request_span::route_of;
use crate::watch::{StreamCredential, end_when_revoked};

/// State of the access middleware of a route.
#[derive(Clone)]
pub(crate) struct RouteAccess {
    pub(crate) auth: Arc<dyn Authenticate>,
    pub(crate) idempotency: Arc<IdempotencyGuard>,
    /// Maximum body size in bytes; `None` if the handler streams the body.
    pub(crate) body_limit: Option<usize>,
    pub(crate) requirements: Requirements,
}

/// Requirements of a route beyond the access rule of its group.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Requirements {
    /// Whether a ticket in the query replaces a credential.
    pub(crate) accepts_ticket: bool,
    /// Whether a page session needs a recently outcome password.
    pub(crate) recent_password: bool,
}

impl RouteAccess {
    pub(crate) fn streamed(self) -> Self {
        Self { body_limit: None, ..self }
    }

    fn read_credential(&self, request: &Request) -> Result<Option<Credential>, ApiError> {
        if self.requirements.accepts_ticket
            // An `Authorization` header added by a browser or proxy does not replace the ticket.
            && let None | Some(Credential::Unreadable) = presented_credential(request.headers())
            && let Some(ticket) = ticket(request.uri())
        {
            return Ok(Some(ticket));
        }
        read_credential(request)
    }

    /// Final step of every access rule. A single layer does everything, because each layer of a route is cloned with
    /// every request.
    async fn proceed(
        &self,
        credential: Option<Credential>,
        caller: Caller,
        mut request: Request,
        next: Next,
    ) -> Result<Response, ApiError> {
        if self.requirements.recent_password {
            caller.require_recent_password()?;
        }
        request = check_content_length(request, self.body_limit)?;
        request.extensions_mut().insert(caller.clone());
        let stream_credential = StreamCredential { auth: Arc::clone(&self.auth), credential, caller };
        // WebSocket messages do not pass through here: the handler monitors the credential itself.
        if request.headers().contains_key(UPGRADE) {
            request.extensions_mut().insert(stream_credential.clone());
        }
        let route = request.extensions().get::<MatchedPath>().cloned();
        let response = match self.body_limit {
            Some(_) => check_idempotency(&self.idempotency, request, next).await?,
            None => next.run(request).await,
        };
        let mut response = end_when_revoked(response, stream_credential);
        name_route(&mut response, route);
        Ok(response)
    }
}

fn name_route(response: &mut Response, route: Option<MatchedPath>) {
    if let Some(route) = route {
        response.extensions_mut().insert(Route(route));
    }
}

/// Public access. Anonymous clients share one set of idempotency keys.
pub(crate) async fn allow_public(State(access): State<RouteAccess>, request: Request, next: Next) -> Response {
    let route = route_of(&request);
    access.proceed(None, Caller::anonymous(), request, next).await.unwrap_or_else(|error| rejected(route, error))
}

/// Rejections are counted under the matched route.
fn rejected(route: Option<MatchedPath>, error: ApiError) -> Response {
    let mut response = error.into_response();
    name_route(&mut response, route);
    response
}

fn insufficient_scope() -> ApiError {
    ApiError::new(
        StatusCode::FORBIDDEN,
        "insufficient_scope",
        "This API key is read-only; use a key with the scope `full`",
    )
}

/// Requires a valid credential that satisfies `is_allowed`.
async fn require_credential(
    access: RouteAccess,
    request: Request,
    next: Next,
    is_allowed: fn(&Caller, &Method) -> bool,
) -> Response {
    let route = route_of(&request);
    let outcome = async {
        let credential = access.read_credential(&request)?;
        let caller = authenticate(&*access.auth, &credential, &request).await?;
        if !is_allowed(&caller, request.method()) {
            return Err(insufficient_scope());
        }
        access.proceed(credential, caller, request, next).await
    };
    outcome.await.unwrap_or_else(|error| rejected(route, error))
}

/// Requires a credential; keys with the scope `read` are limited to GET and HEAD.
pub(crate) async fn require_authentication(
    State(access): State<RouteAccess>,
    request: Request,
    next: Next,
) -> Response {
    let is_allowed =
        |caller: &Caller, method: &Method| caller.scope == Scope::Full || matches!(*method, Method::GET | Method::HEAD);
    require_credential(access, request, next, is_allowed).await
}

/// Requires a credential with the scope `full` for all methods.
pub(crate) async fn require_full_scope(State(access): State<RouteAccess>, request: Request, next: Next) -> Response {
    require_credential(access, request, next, |caller, _| caller.scope == Scope::Full).await
}

/// Requires a credential with any scope.
pub(crate) async fn require_any_scope(State(access): State<RouteAccess>, request: Request, next: Next) -> Response {
    require_credential(access, request, next, |_, _| true).await
}

/// Allows anonymous access until the first API key exists. Returns 401 if a presented credential is invalid, or if none
/// is presented and anonymous access is closed.
pub(crate) async fn require_or_open(State(access): State<RouteAccess>, request: Request, next: Next) -> Response {
    let route = route_of(&request);
    let outcome = async {
        let credential = read_credential(&request)?;
        let is_presented = credential.is_some();
        let cookies = cookies_of(&credential, &request);
        // Also called without a credential: on the private socket the caller is known anyway.
        let admission = match access.auth.authenticate(credential.clone()).await {
            Ok(caller) if caller.scope == Scope::Read => return Err(insufficient_scope()),
            Ok(caller) => Ok((credential, caller)),
            // A session of a daemon without keys grants nothing, but must not block anonymous access.
            Err(denied) => match access.auth.admit_anonymous(origin(request.headers())).await {
                Ok(()) => Ok((None, Caller::anonymous())),
                Err(closed) => Err(denial_response(if is_presented { denied } else { closed }, cookies)),
            },
        };
        // Checked last, because the request that closed anonymous access may be recorded by now.
        let request =
            reject_completed_step(&access.idempotency, check_content_length(request, access.body_limit)?).await?;
        let (credential, caller) = admission?;
        access.proceed(credential, caller, request, next).await
    };
    outcome.await.unwrap_or_else(|error| rejected(route, error))
}

fn origin(headers: &HeaderMap) -> Option<&str> {
    // An Origin that is not text is foreign, not absent.
    headers.get(ORIGIN).map(|value| value.to_str().unwrap_or("invalid"))
}
