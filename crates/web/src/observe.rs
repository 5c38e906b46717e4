//! Request ids, and who hears of finished requests.

use std::sync::Arc;
use std::time::Duration;

use agentd_base::id::IdGenerator;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};

pub(crate) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The id of a request, taken from the client when it is well-formed.
#[derive(Debug, Clone)]
pub struct RequestId(pub HeaderValue);

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

fn is_well_formed(value: &HeaderValue) -> bool {
    let bytes = value.as_bytes();
    (1..=128).contains(&bytes.len()) && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
}

impl Observation {
    /// The id of a request: the client's when it is well-formed, else a new one.
    pub(crate) fn id_of(&self, headers: &HeaderMap) -> HeaderValue {
        let given = headers.get(&X_REQUEST_ID).filter(|value| is_well_formed(value)).cloned();
        given.unwrap_or_else(|| {
            HeaderValue::try_from(format!("req_{}", self.ids.next_ulid()))
                .unwrap_or_else(|_| HeaderValue::from_static("req_unknown"))
        })
    }
}
