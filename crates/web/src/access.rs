//! Which routes need a credential, and the door in front of them.
//!
//! A domain sorts its routes into groups; the group decides both the door and what the OpenAPI
//! document says of it, so that the two cannot disagree.

use std::sync::Arc;
use std::time::Duration;

use agentd_base::Secret;
use axum::Router;
use axum::extract::{DefaultBodyLimit, MatchedPath, Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use futures_util::future::BoxFuture;
use http::header::{AUTHORIZATION, ORIGIN};
use http::{HeaderMap, Method, StatusCode, Uri};
use utoipa::openapi::OpenApi;
use utoipa::openapi::security::SecurityRequirement;
use utoipa_axum::router::OpenApiRouter;

use crate::caller::{Caller, Scope};
use crate::doors::Route;
use crate::error::ApiError;
use crate::idempotency::{IdempotencyGuard, check_idempotency};
use crate::limits;
use crate::watch::{Opener, while_let_in};
use crate::weight::refuse_heavy;

/// What a request presents.
#[derive(Debug, Clone)]
pub enum Credential {
    /// An API key or a session token.
    Token(Secret),
    /// A ticket of `POST /api/auth/ticket`, from the query of a stream, good once.
    Ticket(Secret),
}

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

    /// Whether the doors that are open until the first key exists let an anonymous request in.
    /// `origin` is the request's `Origin` header, which only a browser sends.
    fn admit_anonymous(&self, origin: Option<&str>) -> BoxFuture<'_, Result<(), AccessDenied>>;
}

/// Reads the credential of a request: `Authorization: Bearer`, else `X-API-Key`.
#[must_use]
pub fn presented_credential(headers: &HeaderMap) -> Option<Credential> {
    let bearer = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()).and_then(|value| {
        let (scheme, token) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
    });
    let header = || headers.get("x-api-key").and_then(|value| value.to_str().ok()).map(str::trim);
    let token = bearer.or_else(header).filter(|token| !token.is_empty())?;
    Some(Credential::Token(Secret::new(token.to_owned())))
}

fn ticket(uri: &Uri) -> Option<Credential> {
    let query = uri.query()?;
    let (_, ticket) = form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "ticket")?;
    Some(Credential::Ticket(Secret::new(ticket.into_owned())))
}

/// State of the doors in front of the routes.
#[derive(Clone)]
struct Door {
    auth: Arc<dyn Authenticate>,
    idempotency: Arc<IdempotencyGuard>,
    /// What bodies may weigh, in bytes.
    body_limit: usize,
}

impl Door {
    /// What lies behind every door. One layer does it all: each layer of a route is cloned with
    /// every request.
    async fn enter(
        &self,
        credential: Option<Credential>,
        caller: Caller,
        mut request: Request,
        next: Next,
    ) -> Result<Response, ApiError> {
        request = refuse_heavy(request, self.body_limit).await?;
        request.extensions_mut().insert(caller.clone());
        let route = request.extensions().get::<MatchedPath>().cloned();
        let response = check_idempotency(&self.idempotency, request, next).await?;
        let mut response = while_let_in(response, Opener { auth: Arc::clone(&self.auth), credential, caller });
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
async fn let_everybody_in(State(door): State<Door>, request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().cloned();
    door.enter(None, Caller::anonymous(), request, next).await.unwrap_or_else(|error| refused(route, error))
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

/// 401 without a valid credential, 403 when a `read` key wants to change something.
async fn require_authentication(State(door): State<Door>, request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().cloned();
    let entered = async {
        let credential = presented_credential(request.headers());
        let caller = door.auth.authenticate(credential.clone()).await?;
        let changes = !matches!(*request.method(), Method::GET | Method::HEAD);
        if changes && caller.scope == Scope::Read {
            return Err(insufficient_scope());
        }
        door.enter(credential, caller, request, next).await
    };
    entered.await.unwrap_or_else(|error| refused(route, error))
}

async fn require_any_scope(State(door): State<Door>, request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().cloned();
    let entered = async {
        let credential = presented_credential(request.headers());
        let caller = door.auth.authenticate(credential.clone()).await?;
        door.enter(credential, caller, request, next).await
    };
    entered.await.unwrap_or_else(|error| refused(route, error))
}

async fn require_credential_or_ticket(State(door): State<Door>, request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().cloned();
    let entered = async {
        let credential = presented_credential(request.headers()).or_else(|| ticket(request.uri()));
        let caller = door.auth.authenticate(credential.clone()).await?;
        door.enter(credential, caller, request, next).await
    };
    entered.await.unwrap_or_else(|error| refused(route, error))
}

/// The door of routes that are open while no API key was ever made: 401 when a credential is
/// presented and wrong, or none is and the doors are closed.
async fn require_or_open(State(door): State<Door>, request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().cloned();
    let entered = async {
        let credential = presented_credential(request.headers());
        let is_presented = credential.is_some();
        // Asked first also without a credential: on the private socket the caller is known all the same.
        let (credential, caller) = match door.auth.authenticate(credential.clone()).await {
            Ok(caller) if caller.scope == Scope::Read => return Err(insufficient_scope()),
            Ok(caller) => (credential, caller),
            // A session of a daemon without keys opens nothing, yet must not close what is open.
            Err(denied) => {
                let admitted = door.auth.admit_anonymous(origin(request.headers())).await;
                admitted.map_err(|closed| if is_presented { denied } else { closed })?;
                (None, Caller::anonymous())
            }
        };
        door.enter(credential, caller, request, next).await
    };
    entered.await.unwrap_or_else(|error| refused(route, error))
}

fn origin(headers: &HeaderMap) -> Option<&str> {
    // An Origin that is no text is foreign, not absent.
    headers.get(ORIGIN).map(|value| value.to_str().unwrap_or("invalid"))
}

/// The routes of a domain, sorted by their door. `S` is the state that the handlers still miss;
/// the document can be had without it.
pub struct Routes<S = ()> {
    public: OpenApiRouter<S>,
    open_until_first_key: OpenApiRouter<S>,
    any_scope: OpenApiRouter<S>,
    streams: OpenApiRouter<S>,
    protected: OpenApiRouter<S>,
    /// Protected ones whose bodies may weigh so many bytes.
    protected_up_to: Vec<(usize, OpenApiRouter<S>)>,
}

impl<S> std::fmt::Debug for Routes<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Routes").finish_non_exhaustive()
    }
}

impl<S: Clone + Send + Sync + 'static> Default for Routes<S> {
    fn default() -> Self {
        Self {
            public: OpenApiRouter::new(),
            open_until_first_key: OpenApiRouter::new(),
            any_scope: OpenApiRouter::new(),
            streams: OpenApiRouter::new(),
            protected: OpenApiRouter::new(),
            protected_up_to: Vec::new(),
        }
    }
}

impl<S: Clone + Send + Sync + 'static> Routes<S> {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// No credential at all.
    #[must_use]
    pub fn public(mut self, router: OpenApiRouter<S>) -> Self {
        self.public = joined(self.public, with_security(router, &[]));
        self
    }

    /// Asks for a credential of its own kind, which the document calls `scheme`; the handler checks it.
    #[must_use]
    pub fn own_credential(mut self, scheme: &str, router: OpenApiRouter<S>) -> Self {
        let needed = [SecurityRequirement::new(scheme, Vec::<String>::new())];
        self.public = joined(self.public, with_security(router, &needed));
        self
    }

    /// No credential while no API key was ever made, a full one afterwards.
    #[must_use]
    pub fn open_until_first_key(mut self, router: OpenApiRouter<S>) -> Self {
        let mut optional = vec![SecurityRequirement::default()];
        optional.extend(credential());
        self.open_until_first_key = joined(self.open_until_first_key, with_security(router, &optional));
        self
    }

    /// A credential of any scope, whatever the method.
    #[must_use]
    pub fn any_scope(mut self, router: OpenApiRouter<S>) -> Self {
        self.any_scope = joined(self.any_scope, with_security(router, &credential()));
        self
    }

    /// GET routes that browsers open without headers: a credential, or `?ticket=`.
    #[must_use]
    pub fn streams(mut self, router: OpenApiRouter<S>) -> Self {
        let mut accepted = credential();
        accepted.push(SecurityRequirement::new("ticket", Vec::<String>::new()));
        self.streams = joined(self.streams, with_security(router, &accepted));
        self
    }

    /// A credential; one of scope `read` only for GET and HEAD.
    #[must_use]
    pub fn protected(mut self, router: OpenApiRouter<S>) -> Self {
        self.protected = joined(self.protected, with_security(router, &credential()));
        self
    }

    /// As [`Self::protected`], with bodies of up to `bytes`. The limit is known here and not only to
    /// the handler, because idempotency reads the body before it.
    #[must_use]
    pub fn protected_up_to(mut self, bytes: usize, router: OpenApiRouter<S>) -> Self {
        self.protected_up_to.push((bytes, with_security(router, &credential())));
        self
    }

    /// Gives the handlers their state. What the document says is forgotten: who serves needs no
    /// document, and merging many parts of one takes a good part of the daemon's start.
    pub fn with_state<T: Clone + Send + Sync + 'static>(self, state: S) -> Routes<T> {
        let served = |router: OpenApiRouter<S>| OpenApiRouter::from(Router::from(router).with_state(state.clone()));
        Routes {
            public: served(self.public),
            open_until_first_key: served(self.open_until_first_key),
            any_scope: served(self.any_scope),
            streams: served(self.streams),
            protected: served(self.protected),
            protected_up_to: self.protected_up_to.into_iter().map(|(bytes, router)| (bytes, served(router))).collect(),
        }
    }

    /// What the document says of these routes, which have no state yet.
    #[must_use]
    pub fn into_document(self) -> OpenApi {
        let mut document = self.public.into_openapi();
        let groups = [self.open_until_first_key, self.any_scope, self.streams, self.protected];
        for router in groups.into_iter().chain(self.protected_up_to.into_iter().map(|(_, router)| router)) {
            document.merge(router.into_openapi());
        }
        document
    }
}

impl Routes<()> {
    #[must_use]
    pub fn merge(mut self, other: Self) -> Self {
        self.protected_up_to.extend(other.protected_up_to);
        Self {
            public: self.public.merge(other.public),
            open_until_first_key: self.open_until_first_key.merge(other.open_until_first_key),
            any_scope: self.any_scope.merge(other.any_scope),
            streams: self.streams.merge(other.streams),
            protected: self.protected.merge(other.protected),
            protected_up_to: self.protected_up_to,
        }
    }

    /// Puts each group behind its door. Unknown paths and methods under `/api` answer 401 to
    /// those who have no credential, so that nothing can be explored from outside.
    pub fn mount(self, auth: Arc<dyn Authenticate>, idempotency: &Arc<IdempotencyGuard>) -> Router {
        let door = Door { auth: Arc::clone(&auth), idempotency: Arc::clone(idempotency), body_limit: limits::BODY };
        // A layer around no routes is a mistake to axum; a group may well be empty.
        let guard = |router: OpenApiRouter, close: &dyn Fn(Router) -> Router| {
            let router = router.split_for_parts().0;
            if router.has_routes() { close(router) } else { router }
        };
        let mut router =
            guard(self.public, &|router| router.route_layer(from_fn_with_state(door.clone(), let_everybody_in)))
                .merge(guard(self.open_until_first_key, &|router| {
                    router.route_layer(from_fn_with_state(door.clone(), require_or_open))
                }))
                .merge(guard(self.any_scope, &|router| {
                    router.route_layer(from_fn_with_state(door.clone(), require_any_scope))
                }))
                .merge(guard(self.streams, &|router| {
                    router.route_layer(from_fn_with_state(door.clone(), require_credential_or_ticket))
                }))
                .merge(guard(self.protected, &|router| {
                    router.route_layer(from_fn_with_state(door.clone(), require_authentication))
                }));
        for (bytes, group) in self.protected_up_to {
            router = router.merge(guard(group, &|router| {
                let (limit, door) = (DefaultBodyLimit::max(bytes), Door { body_limit: bytes, ..door.clone() });
                router.route_layer(from_fn_with_state(door, require_authentication)).route_layer(limit)
            }));
        }
        let for_missing = Arc::clone(&auth);
        router
            .method_not_allowed_fallback(move |request: Request| {
                refuse(Arc::clone(&auth), request, crate::fallback::method_not_allowed)
            })
            .fallback(move |request: Request| refuse(Arc::clone(&for_missing), request, crate::fallback::not_found))
    }
}

fn credential() -> Vec<SecurityRequirement> {
    ["bearer", "api_key"].into_iter().map(|name| SecurityRequirement::new(name, Vec::<String>::new())).collect()
}

async fn refuse(auth: Arc<dyn Authenticate>, request: Request, answer: fn() -> ApiError) -> Response {
    if request.uri().path().starts_with("/api/")
        && let Err(denied) = auth.authenticate(presented_credential(request.headers())).await
    {
        return ApiError::from(denied).into_response();
    }
    answer().into_response()
}

/// What is joined to nothing is taken as it is.
fn joined<S: Clone + Send + Sync + 'static>(group: OpenApiRouter<S>, more: OpenApiRouter<S>) -> OpenApiRouter<S> {
    let (router, document) = group.split_for_parts();
    if !router.has_routes() {
        return more;
    }
    let mut group = OpenApiRouter::from(router);
    *group.get_openapi_mut() = document;
    group.merge(more)
}

fn with_security<S: Clone + Send + Sync + 'static>(
    mut router: OpenApiRouter<S>,
    security: &[SecurityRequirement],
) -> OpenApiRouter<S> {
    for item in router.get_openapi_mut().paths.paths.values_mut() {
        let operations = [
            &mut item.get,
            &mut item.put,
            &mut item.post,
            &mut item.delete,
            &mut item.patch,
            &mut item.head,
            &mut item.options,
            &mut item.trace,
        ];
        for operation in operations.into_iter().flatten() {
            operation.security = Some(security.to_vec());
        }
    }
    router
}
