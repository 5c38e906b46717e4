//! Request handling during the start: only probes respond until the daemon is composed, then the full router.

use std::convert::Infallible;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use agentd_operations::monitoring::{Gate, Readiness, starting_routes};
use agentd_web::{ApiError, GuardedRouter, add_security_headers};
use axum::Router;
use axum::body::Body;
use axum::middleware::map_response;
use axum::response::Response;
use http::{Request, StatusCode};
use hyper::body::Incoming;
use tower::ServiceExt;

/// Service that switches from the startup routes to the full router. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct StartupSwitch {
    starting: Router,
    router: Arc<OnceLock<GuardedRouter<Gate>>>,
}

impl StartupSwitch {
    pub(super) fn starting(readiness: Readiness) -> Self {
        let starting = starting_routes(readiness)
            .fallback(async || {
                ApiError::new(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "starting",
                    "The daemon is starting; poll /health/ready until it returns 200",
                )
                .with_retry_after(Duration::from_secs(1))
            })
            .layer(map_response(|mut response: Response| async move {
                add_security_headers(response.headers_mut());
                response
            }));
        Self { starting, router: Arc::default() }
    }

    pub(super) fn set_router(&self, router: GuardedRouter<Gate>) {
        if self.router.set(router).is_err() {
            tracing::error!("router set twice");
        }
    }

    pub(super) async fn handle(&self, request: Request<Incoming>) -> Result<Response, Infallible> {
        let request = request.map(Body::new);
        match self.router.get() {
            Some(router) => router.clone().oneshot(request).await,
            None => self.starting.clone().oneshot(request).await,
        }
    }
}
