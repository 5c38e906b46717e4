//! Request ids, the access log, and the numbers of each request.

use std::sync::Arc;
use std::time::{Duration, Instant};

use agentd_base::id::IdGenerator;
use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::{HeaderName, HeaderValue, Method, StatusCode};
use tracing::Instrument;

const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The id of a request, taken from the client when it is well-formed.
#[derive(Debug, Clone)]
pub struct RequestId(pub HeaderValue);

/// Hears of every finished request. `route` is the route's template, never the path, so that the
/// number of different values is bounded.
pub trait RequestObserver: Send + Sync + 'static {
    fn observe(&self, method: &Method, route: &str, status: StatusCode, elapsed: Duration);
}

/// State of the layer.
pub struct Observation {
    pub ids: IdGenerator,
    pub observer: Arc<dyn RequestObserver>,
}

impl std::fmt::Debug for Observation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Observation").finish_non_exhaustive()
    }
}

fn is_well_formed(value: &HeaderValue) -> bool {
    let bytes = value.as_bytes();
    (1..=128).contains(&bytes.len()) && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
}

/// Outermost of all: nothing leaves without an id.
pub async fn observe(State(observation): State<Arc<Observation>>, mut request: Request, next: Next) -> Response {
    let started = Instant::now();
    let given = request.headers().get(&X_REQUEST_ID).filter(|value| is_well_formed(value)).cloned();
    let id = given.unwrap_or_else(|| {
        HeaderValue::try_from(format!("req_{}", observation.ids.next_ulid()))
            .unwrap_or_else(|_| HeaderValue::from_static("req_unknown"))
    });
    request.extensions_mut().insert(RequestId(id.clone()));
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let route_text = route.as_ref().map_or("unmatched", MatchedPath::as_str);
    // The route's template and not the address: a query may carry a ticket.
    let span = tracing::debug_span!("request", id = id.to_str().unwrap_or_default(), %method, route = route_text);
    let mut response = next.run(request).instrument(span.clone()).await;
    let elapsed = started.elapsed();
    response.headers_mut().insert(X_REQUEST_ID, id);
    observation.observer.observe(&method, route_text, response.status(), elapsed);
    span.in_scope(|| {
        tracing::debug!(status = response.status().as_u16(), elapsed_us = elapsed.as_micros(), "answered");
    });
    response
}
