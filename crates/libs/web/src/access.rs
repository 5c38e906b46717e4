//! Access rules of routes: whether a request may enter.

use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{ORIGIN, UPGRADE};
use http::{HeaderMap, Method, StatusCode};

use crate::caller::{Caller, Scope};
use crate::credential::{
    Authenticate, Credential, authenticate, cookies_of, presented_credential, read_credential, refusal, ticket,
};
use crate::error::ApiError;
use crate::follow::route_of;
use crate::http_stack::Route;
use crate::idempotency::{IdempotencyGuard, check_idempotency, refuse_step_done};
use crate::watch::{Opener, while_let_in};
use crate::weight::refuse_heavy;

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
