//! Middleware wrap all routes, in order: request id and span, security headers, CORS, host, gate. It is one service
//! instead of a stack of layers, because axum clones each layer of a route with every request, which would dominate the
//! cost of a small response.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use axum::Router;
use axum::extract::{DefaultBodyLimit, MatchedPath, Request};
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::header::{ORIGIN, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS, X_XSS_PROTECTION};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use tower::{Service, ServiceExt};

use crate::address::TrustedProxies;
use crate::cookie::OwnPages;
use crate::cors::{CorsPolicy, is_preflight};
use crate::error::ApiError;
use crate::fallback::panicked;
use crate::host::HostPolicy;
use crate::limits;
use crate::observe::{CompletedRequest, Observation};
use crate::pace::Pace;
use crate::request_span::{RequestTrace, in_request_span};

/// Route that handled a request, passed to the middleware in the response's extensions.
#[derive(Debug, Clone)]
pub(crate) struct Route(pub(crate) MatchedPath);

/// Decides whether requests are currently admitted.
pub trait Gate: Send + Sync + 'static {
    /// Permit held while a request is handled.
    type Permit: Send;

    /// The response to a rejected request, which asks the client to retry later.
    fn admit(&self, method: &Method, path: &str) -> Result<Self::Permit, ApiError>;
}

/// Middleware configuration for all routes.
#[derive(Debug)]
pub struct HttpStack<G> {
    pub observation: Observation,
    pub cors: CorsPolicy,
    pub hosts: HostPolicy,
    pub trusted_proxies: TrustedProxies,
    pub own_pages: OwnPages,
    pub gate: G,
}

impl<G: Gate> HttpStack<G> {
    /// Wraps a router with the middleware.
    pub fn wrap(self, router: Router) -> GuardedRouter<G> {
        GuardedRouter { stack: Arc::new(self), router }
    }

    async fn answer(&self, router: Router, request: Request, trace: RequestTrace) -> Response {
        let started = Instant::now();
        let method = request.method().clone();
        let mut response = self.handle(router, request).await;
        let elapsed = started.elapsed();
        let route = response.extensions_mut().remove::<Route>();
        let route = route.as_ref().map_or("unmatched", |route| route.0.as_str());
        self.observation.observer.observe(&method, route, response.status(), elapsed);
        if let Some(spans) = &self.observation.spans {
            spans.record(&CompletedRequest { method: &method, route, status: response.status(), elapsed, trace });
        }
        tracing::debug!(status = response.status().as_u16(), elapsed_us = elapsed.as_micros(), "request completed");
        add_security_headers(response.headers_mut());
        response
    }

    async fn handle(&self, router: Router, request: Request) -> Response {
        let (request, pace) = Pace::monitor(request);
        let origin = request.headers().get(ORIGIN).cloned();
        let is_preflight = is_preflight(&request);
        let mut response = if is_preflight {
            StatusCode::NO_CONTENT.into_response()
        } else if let Err(rejection) = self.hosts.check(&request) {
            rejection.into_response()
        } else {
            match self.gate.admit(request.method(), request.uri().path()) {
                Ok(_permit) => pace.finish(self.call_router(router, request).await),
                Err(rejection) => rejection.into_response(),
            }
        };
        if let Some(origin) = origin {
            self.cors.add_headers(origin, is_preflight, response.headers_mut());
        }
        response
    }

    async fn call_router(&self, router: Router, mut request: Request) -> Response {
        self.trusted_proxies.record(&mut request);
        self.own_pages.record(&self.trusted_proxies, &mut request);
        DefaultBodyLimit::max(limits::BODY).apply(&mut request);
        match AssertUnwindSafe(router.oneshot(request)).catch_unwind().await {
            Ok(Ok(response)) => response,
            Err(panic) => panicked(&*panic),
        }
    }
}

/// Router with the middleware. Cheap to clone.
#[derive(Debug)]
pub struct GuardedRouter<G> {
    stack: Arc<HttpStack<G>>,
    router: Router,
}

impl<G> Clone for GuardedRouter<G> {
    fn clone(&self) -> Self {
        Self { stack: Arc::clone(&self.stack), router: self.router.clone() }
    }
}

impl<G: Gate> Service<Request> for GuardedRouter<G> {
    type Response = Response;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response, Infallible>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let Self { stack, router } = self.clone();
        Box::pin(async move {
            let answer = |request, trace| stack.answer(router, request, trace);
            Ok(in_request_span(&stack.observation.ids, request, answer).await)
        })
    }
}

/// Adds the security headers to a response. Every response has them, including rejections and preflights.
pub fn add_security_headers(headers: &mut HeaderMap) {
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    headers.insert(X_XSS_PROTECTION, HeaderValue::from_static("1; mode=block"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("strict-origin-when-cross-origin"));
}
