//! Who hears of finished requests.

use std::sync::Arc;
use std::time::Duration;

use agentd_base::id::IdGenerator;
use http::{Method, StatusCode};

use crate::follow::RequestTrace;

/// Hears of every finished request. `route` is the route's template, never the path, so that the
/// number of different values is bounded.
pub trait RequestObserver: Send + Sync + 'static {
    fn observe(&self, method: &Method, route: &str, status: StatusCode, elapsed: Duration);
}

/// A request whose answer's head is there.
#[derive(Debug, Clone, Copy)]
pub struct AnsweredRequest<'r> {
    pub method: &'r Method,
    /// As [`RequestObserver::observe`] has it.
    pub route: &'r str,
    pub status: StatusCode,
    pub elapsed: Duration,
    pub trace: RequestTrace,
}

/// Hears of every finished request with its place in a trace.
pub trait RequestSpans: Send + Sync + 'static {
    fn answered(&self, request: &AnsweredRequest<'_>);
}

/// How requests are named, counted and traced.
pub struct Observation {
    pub ids: IdGenerator,
    pub observer: Arc<dyn RequestObserver>,
    /// `None`: nobody collects spans.
    pub spans: Option<Arc<dyn RequestSpans>>,
}

impl std::fmt::Debug for Observation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Observation").finish_non_exhaustive()
    }
}
