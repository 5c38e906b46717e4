//! Observers of completed requests.

use std::sync::Arc;
use std::time::Duration;

use agentd_base::id::IdGenerator;
use http::{Method, StatusCode};

use crate::request_span::RequestTrace;

/// Observes every completed request. `route` is the route template, never the path, so that the number of distinct
/// values is bounded.
pub trait RequestObserver: Send + Sync + 'static {
    fn observe(&self, method: &Method, route: &str, status: StatusCode, elapsed: Duration);
}

/// Completed request, once the response head is available.
#[derive(Debug, Clone, Copy)]
pub struct CompletedRequest<'r> {
    pub method: &'r Method,
    /// Route template, see [`RequestObserver::observe`].
    pub route: &'r str,
    pub status: StatusCode,
    pub elapsed: Duration,
    pub trace: RequestTrace,
}

/// Receives every completed request with its trace context.
pub trait RequestSpans: Send + Sync + 'static {
    fn record(&self, request: &CompletedRequest<'_>);
}

/// Ids, metrics and tracing of requests.
pub struct Observation {
    pub ids: IdGenerator,
    pub observer: Arc<dyn RequestObserver>,
    /// `None` if spans are not collected.
    pub spans: Option<Arc<dyn RequestSpans>>,
}

impl std::fmt::Debug for Observation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Observation").finish_non_exhaustive()
    }
}
