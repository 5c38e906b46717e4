//! What answers a connection: until the daemon is composed only the probes, then everything.

use std::convert::Infallible;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use agentd_operations::monitoring::{Gate, Readiness, starting_routes};
use agentd_web::{ApiError, Guarded, add_security_headers};
use axum::Router;
use axum::body::Body;
use axum::middleware::map_response;
use axum::response::Response;
use http::{Request, StatusCode};
use hyper::body::Incoming;
use tower::ServiceExt;

/// Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Front {
    starting: Router,
    open: Arc<OnceLock<Guarded<Gate>>>,
}

impl Front {
    pub(super) fn starting(readiness: Readiness) -> Self {
        let starting = starting_routes(readiness)
            .fallback(async || {
                ApiError::new(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "starting",
                    "The daemon is starting; ask /health/ready until it answers 200",
                )
                .with_retry_after(Duration::from_secs(1))
            })
            .layer(map_response(|mut response: Response| async move {
                add_security_headers(response.headers_mut());
                response
            }));
        Self { starting, open: Arc::default() }
    }

    pub(super) fn open(&self, router: Guarded<Gate>) {
        if self.open.set(router).is_err() {
            tracing::error!("the front was opened twice");
        }
    }

    pub(super) async fn answer(&self, request: Request<Incoming>) -> Result<Response, Infallible> {
        let request = request.map(Body::new);
        match self.open.get() {
            Some(open) => open.clone().oneshot(request).await,
            None => self.starting.clone().oneshot(request).await,
        }
    }
}
