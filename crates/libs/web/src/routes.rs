//! Which routes need a credential, and what the OpenAPI document says of them.
//!
//! A domain sorts its routes by who may call them; that decides both the check and what the document says
//! of it, so that the two cannot disagree. What the document says of an operation is a function
//! until somebody asks: a daemon that starts makes no document.

use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::handler::Handler;
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, MethodRouter};
use utoipa::__dev::{SchemaReferences, Tags};
use utoipa::openapi::path::HttpMethod;
use utoipa::openapi::security::SecurityRequirement;
use utoipa::openapi::{Components, OpenApi, OpenApiBuilder};

use crate::access::{
    Requirements, RouteAccess, let_everybody_in, require_any_scope, require_authentication, require_full_scope,
    require_or_open,
};
use crate::credential::{Authenticate, authenticate, read_credential};
use crate::error::ApiError;
use crate::idempotency::IdempotencyGuard;
use crate::limits;
use crate::openapi::error_response;

/// Puts what the document says of one operation into it.
type Describe = fn(&mut OpenApi, &[SecurityRequirement], Requirements);

/// Finds the page that a request gets that no route answers.
pub type FindPage = fn(&Request) -> Option<Response>;

#[derive(Clone)]
struct Operation<S> {
    path: String,
    answers: MethodRouter<S>,
    requirements: Requirements,
    /// Pages are in no document.
    describe: Option<Describe>,
}

/// Operations with the same access rule. `S` is the state that the handlers still miss.
pub struct ApiRouter<S>(Vec<Operation<S>>);

impl<S> std::fmt::Debug for ApiRouter<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|operation| &operation.path)).finish()
    }
}

impl<S> Default for ApiRouter<S> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<S: Clone + Send + Sync + 'static> ApiRouter<S> {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a handler under the path and the methods that its `utoipa::path` attribute names; `P` is the
    /// type that the attribute makes. [`routes!`](crate::routes!) writes this.
    #[must_use]
    pub fn with<P, H, T>(mut self, handler: H) -> Self
    where
        P: utoipa::Path + SchemaReferences + Tags<'static>,
        H: Handler<T, S>,
        T: 'static,
    {
        let answers = P::methods()
            .into_iter()
            .fold(MethodRouter::new(), |answers, method| answers.on(filter_of(&method), handler.clone()));
        let requirements = Requirements::default();
        self.0.push(Operation { path: P::path(), answers, requirements, describe: Some(describe::<P>) });
        self
    }

    /// Also accepts `?ticket=` on these routes: GET routes that a browser opens without headers, such as downloads.
    #[must_use]
    pub fn accept_tickets(mut self) -> Self {
        self.0.iter_mut().for_each(|operation| operation.requirements.accepts_ticket = true);
        self
    }

    /// Refuses page sessions whose password was not entered within the last ten minutes on these routes.
    #[must_use]
    pub fn require_recent_password(mut self) -> Self {
        self.0.iter_mut().for_each(|operation| operation.requirements.recent_password = true);
        self
    }

    #[must_use]
    pub fn routes(mut self, more: Self) -> Self {
        self.0.extend(more.0);
        self
    }

    /// A page, which the document does not mention.
    #[must_use]
    pub fn route(mut self, path: &str, answers: MethodRouter<S>) -> Self {
        let requirements = Requirements::default();
        self.0.push(Operation { path: path.to_owned(), answers, requirements, describe: None });
        self
    }
}

const fn filter_of(method: &HttpMethod) -> MethodFilter {
    match method {
        HttpMethod::Get => MethodFilter::GET,
        HttpMethod::Put => MethodFilter::PUT,
        HttpMethod::Post => MethodFilter::POST,
        HttpMethod::Head => MethodFilter::HEAD,
        HttpMethod::Patch => MethodFilter::PATCH,
        HttpMethod::Trace => MethodFilter::TRACE,
        HttpMethod::Delete => MethodFilter::DELETE,
        HttpMethod::Options => MethodFilter::OPTIONS,
    }
}

fn describe<P: utoipa::Path + SchemaReferences + Tags<'static>>(
    document: &mut OpenApi,
    security: &[SecurityRequirement],
    requirements: Requirements,
) {
    let mut operation = P::operation();
    if requirements.recent_password {
        let description = "`reauthentication_required`: a page session must enter its password first, with POST \
                           /api/auth/reauthenticate. Also if the credential may only read";
        operation.responses.responses.insert("403".to_owned(), error_response(description));
    }
    let tags = P::tags();
    if !tags.is_empty() {
        operation.tags.get_or_insert_default().extend(tags.into_iter().map(ToOwned::to_owned));
    }
    operation.security = Some(security.to_vec());
    document.paths.add_path_operation(P::path(), P::methods(), operation);
    let mut schemas = Vec::new();
    P::schemas(&mut schemas);
    let known = &mut document.components.get_or_insert_with(Components::new).schemas;
    for (name, schema) in schemas {
        debug_assert!(known.get(&name).is_none_or(|other| *other == schema), "two schemas are named {name}");
        known.insert(name, schema);
    }
}

/// The operations of handlers: `routes!(list_hooks, create_hook)`, `routes!(queue::list_deliveries)`.
#[macro_export]
macro_rules! routes {
    (@ $router:expr;) => { $router };
    (@ $router:expr; $module:ident :: $handler:ident $(, $($rest:tt)*)?) => {
        $crate::routes!(
            @ $crate::paste! { $router.with::<$module::[<__path_ $handler>], _, _>($module::$handler) };
            $($($rest)*)?
        )
    };
    (@ $router:expr; $handler:ident $(, $($rest:tt)*)?) => {
        $crate::routes!(
            @ $crate::paste! { $router.with::<[<__path_ $handler>], _, _>($handler) };
            $($($rest)*)?
        )
    };
    ($($handlers:tt)+) => { $crate::routes!(@ $crate::ApiRouter::new(); $($handlers)+) };
}

/// Which access rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Behind {
    /// No credential.
    Nothing,
    /// A credential of its own kind, which the handler checks.
    Own(&'static str),
    /// A full credential once a key exists.
    FirstKey,
    /// A credential of any scope.
    AnyScope,
    /// A credential or a ticket.
    Ticket,
    /// A full credential, whatever the method.
    FullScope,
    /// The same, and bodies that the handler reads as they come.
    FullScopeStream,
    /// A credential that may do this, and bodies of so many bytes.
    Credential { body_limit: usize },
}

impl Behind {
    fn security(self, requirements: Requirements) -> Vec<SecurityRequirement> {
        let of = |name| SecurityRequirement::new(name, Vec::<String>::new());
        // Both halves of a page session are needed.
        let page = of("session_cookie").add("page_secret", Vec::<String>::new());
        let ticket = requirements.accepts_ticket.then(|| of("ticket"));
        let credential = [of("bearer"), of("api_key"), page].into_iter().chain(ticket);
        match self {
            Self::Nothing => Vec::new(),
            Self::Own(scheme) => vec![of(scheme)],
            Self::FirstKey => [SecurityRequirement::default()].into_iter().chain(credential).collect(),
            Self::AnyScope | Self::Ticket | Self::FullScope | Self::FullScopeStream | Self::Credential { .. } => {
                credential.collect()
            }
        }
    }

    fn close(self, answers: MethodRouter, access: &RouteAccess) -> MethodRouter {
        let access = access.clone();
        match self {
            Self::Nothing | Self::Own(_) => answers.route_layer(from_fn_with_state(access, let_everybody_in)),
            Self::FirstKey => answers.route_layer(from_fn_with_state(access, require_or_open)),
            Self::AnyScope | Self::Ticket => answers.route_layer(from_fn_with_state(access, require_any_scope)),
            Self::FullScope => answers.route_layer(from_fn_with_state(access, require_full_scope)),
            Self::FullScopeStream => answers.route_layer(from_fn_with_state(access.streamed(), require_full_scope)),
            Self::Credential { body_limit: limits::BODY } => {
                answers.route_layer(from_fn_with_state(access, require_authentication))
            }
            Self::Credential { body_limit } => answers
                .route_layer(from_fn_with_state(
                    RouteAccess { body_limit: Some(body_limit), ..access },
                    require_authentication,
                ))
                .route_layer(DefaultBodyLimit::max(body_limit)),
        }
    }
}

/// The routes of a domain, sorted by who may call them. `S` is the state that the handlers still miss.
#[derive(Clone)]
pub struct Routes<S = ()>(Vec<(Behind, Operation<S>)>);

impl<S> std::fmt::Debug for Routes<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(behind, operation)| (behind, &operation.path))).finish()
    }
}

impl<S> Default for Routes<S> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<S: Clone + Send + Sync + 'static> Routes<S> {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn behind(mut self, behind: Behind, router: ApiRouter<S>) -> Self {
        self.0.extend(router.0.into_iter().map(|operation| (behind, operation)));
        self
    }

    /// No credential at all.
    #[must_use]
    pub fn public(self, router: ApiRouter<S>) -> Self {
        self.behind(Behind::Nothing, router)
    }

    /// Asks for a credential of its own kind, which the document calls `scheme`; the handler checks it.
    #[must_use]
    pub fn own_credential(self, scheme: &'static str, router: ApiRouter<S>) -> Self {
        self.behind(Behind::Own(scheme), router)
    }

    /// No credential while no API key was ever made, a full one afterwards.
    #[must_use]
    pub fn open_until_first_key(self, router: ApiRouter<S>) -> Self {
        self.behind(Behind::FirstKey, router)
    }

    /// A credential of any scope, whatever the method.
    #[must_use]
    pub fn any_scope(self, router: ApiRouter<S>) -> Self {
        self.behind(Behind::AnyScope, router)
    }

    /// A credential of scope `full`, also to read.
    #[must_use]
    pub fn full_scope(self, router: ApiRouter<S>) -> Self {
        self.behind(Behind::FullScope, router)
    }

    /// As [`Self::full_scope`], with bodies of any size: the handler reads them as they come, bounds them, and knows a
    /// repeat by what it reads, since `Idempotency-Key` would hold the whole body in memory.
    #[must_use]
    pub fn full_scope_stream(self, router: ApiRouter<S>) -> Self {
        self.behind(Behind::FullScopeStream, router)
    }

    /// GET routes that browsers open without headers: a credential, or `?ticket=`.
    #[must_use]
    pub fn streams(self, router: ApiRouter<S>) -> Self {
        self.behind(Behind::Ticket, router.accept_tickets())
    }

    /// A credential; one of scope `read` only for GET and HEAD.
    #[must_use]
    pub fn protected(self, router: ApiRouter<S>) -> Self {
        self.protected_up_to(limits::BODY, router)
    }

    /// As [`Self::protected`], with bodies of up to `bytes`. The limit is known here and not only to
    /// the handler, because idempotency reads the body before it.
    #[must_use]
    pub fn protected_up_to(self, bytes: usize, router: ApiRouter<S>) -> Self {
        self.behind(Behind::Credential { body_limit: bytes }, router)
    }

    /// Gives the handlers their state.
    pub fn with_state<T: Clone + Send + Sync + 'static>(self, state: S) -> Routes<T> {
        let served = |(behind, operation): (Behind, Operation<S>)| {
            let Operation { path, answers, requirements, describe } = operation;
            (behind, Operation { path, answers: answers.with_state(state.clone()), requirements, describe })
        };
        Routes(self.0.into_iter().map(served).collect())
    }
}

impl Routes<()> {
    pub fn merge(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// Returns a function that makes the document of these routes, and keeps nothing else of them.
    pub fn document(&self) -> impl Fn() -> OpenApi + Send + Sync + use<> {
        let described = self.0.iter().filter_map(|(behind, operation)| {
            let describe = operation.describe?;
            Some((describe, *behind, operation.requirements))
        });
        let described: Vec<_> = described.collect();
        move || {
            let mut document = OpenApiBuilder::new().build();
            for (describe, behind, requirements) in &described {
                describe(&mut document, &behind.security(*requirements), *requirements);
            }
            document
        }
    }

    /// Puts each route behind its access rule. Unknown paths and methods under `/api` answer 401 to those
    /// who have no credential, so that nothing can be explored from outside; others may show a page.
    pub fn mount(self, auth: Arc<dyn Authenticate>, idempotency: &Arc<IdempotencyGuard>, page_of: FindPage) -> Router {
        let access = RouteAccess {
            auth: Arc::clone(&auth),
            idempotency: Arc::clone(idempotency),
            body_limit: Some(limits::BODY),
            requirements: Requirements::default(),
        };
        let router = self.0.into_iter().fold(Router::new(), |router, (behind, operation)| {
            let access = RouteAccess { requirements: operation.requirements, ..access.clone() };
            router.route(&operation.path, behind.close(operation.answers, &access))
        });
        let for_missing = Arc::clone(&auth);
        router
            .method_not_allowed_fallback(move |request: Request| {
                refuse(Arc::clone(&auth), request, crate::fallback::method_not_allowed)
            })
            .fallback(move |request: Request| {
                let (auth, page) = (Arc::clone(&for_missing), page_of(&request));
                async move {
                    match page {
                        Some(page) => page,
                        None => refuse(auth, request, crate::fallback::not_found).await,
                    }
                }
            })
    }
}

async fn refuse(auth: Arc<dyn Authenticate>, request: Request, answer: fn() -> ApiError) -> Response {
    if request.uri().path().starts_with("/api/") {
        let authenticated = match read_credential(&request) {
            Ok(credential) => authenticate(&*auth, &credential, &request).await,
            Err(error) => Err(error),
        };
        if let Err(error) = authenticated {
            return error.into_response();
        }
    }
    answer().into_response()
}
