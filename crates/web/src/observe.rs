//! Who hears of finished requests.

use std::sync::Arc;
use std::time::Duration;

use agentd_base::id::IdGenerator;
use http::{Method, StatusCode};

/// Hears of every finished request. `route` is the route's template, never the path, so that the
/// number of different values is bounded.
pub trait RequestObserver: Send + Sync + 'static {
    fn observe(&self, method: &Method, route: &str, status: StatusCode, elapsed: Duration);
}

/// How requests are named and counted.
pub struct Observation {
    pub ids: IdGenerator,
    pub observer: Arc<dyn RequestObserver>,
}

impl std::fmt::Debug for Observation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Observation").finish_non_exhaustive()
    }
}
