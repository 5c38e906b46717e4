//! Sends what the exporters encoded, and interprets the response
//! (<https://opentelemetry.io/docs/specs/otlp/#otlphttp-response>).
//!
//! The exporters of OpenTelemetry retry by blocking a thread, so they are told not to: retries are here. Address and
//! headers are those of the configuration, whatever the exporter itself has read from the environment.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use agentd_base::{Backoff, Entropy};
use agentd_net::{GuardedClient, NetError, retry_after};
use async_trait::async_trait;
use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, Method, StatusCode};
use opentelemetry_http::{HttpClient, HttpError, Request, Response};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::config::Destination;

const MAX_RETRY_AFTER: Duration = Duration::from_secs(60);
const MAX_RESPONSE_BYTES: usize = 64 << 10;
const MAX_SHOWN_CHARACTERS: usize = 200;
/// A batch is dropped after this time: newer items are worth more.
const MAX_RETRY_TIME: Duration = Duration::from_secs(60);
const BACKOFF: Backoff =
    Backoff { base: Duration::from_secs(1), multiplier: 2.0, cap: Duration::from_secs(30), jitter: 0.2 };

/// The HTTP client of one exporter. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Delivery(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    client: GuardedClient,
    destination: Destination,
    entropy: Entropy,
    /// Becomes true when the daemon stops. Then each batch is tried once more.
    stops: watch::Receiver<bool>,
    /// Maximum time in which a batch is tried again.
    retry_time: Duration,
    /// Number of items of the last batch that the collector rejected although it accepted the request.
    rejected: AtomicUsize,
    /// Whether the last batch failed. The log reports only changes of it.
    is_failing: AtomicBool,
}

/// Outcome of one request.
enum Attempt {
    Accepted(Response<Bytes>),
    /// The same request would be refused again.
    Refused(String),
    Retry {
        problem: String,
        after: Option<Duration>,
    },
}

impl Delivery {
    pub(crate) fn new(
        client: GuardedClient,
        destination: Destination,
        entropy: Entropy,
        stops: watch::Receiver<bool>,
    ) -> Self {
        let (rejected, is_failing) = (AtomicUsize::new(0), AtomicBool::new(false));
        let retry_time = MAX_RETRY_TIME;
        Self(Arc::new(Shared { client, destination, entropy, stops, retry_time, rejected, is_failing }))
    }

    pub(crate) fn destination(&self) -> &Destination {
        &self.0.destination
    }

    /// Returns how many items of the last batch were rejected, and begins to count again.
    pub(crate) fn take_rejected(&self) -> usize {
        self.0.rejected.swap(0, Ordering::Relaxed)
    }
}

#[async_trait]
impl HttpClient for Delivery {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (parts, body) = request.into_parts();
        let mut stops = self.0.stops.clone();
        let begun = Instant::now();
        let mut attempts = 0;
        loop {
            let (problem, pause) = match self.0.attempt(&parts.headers, body.clone()).await {
                Attempt::Accepted(response) => {
                    self.0.record_success(response.body());
                    return Ok(response);
                }
                Attempt::Refused(problem) => (problem, None),
                Attempt::Retry { problem, after } => {
                    attempts += 1;
                    (problem, Some(after.unwrap_or_else(|| BACKOFF.delay(attempts, self.0.entropy.unit()))))
                }
            };
            self.0.record_failure(&problem);
            let pause = pause.filter(|pause| !*stops.borrow() && begun.elapsed() + *pause <= self.0.retry_time);
            let Some(pause) = pause else { return Err(problem.into()) };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                _ = stops.wait_for(|is_stopped| *is_stopped) => {}
            }
        }
    }
}

impl Shared {
    async fn attempt(&self, headers: &HeaderMap, body: Bytes) -> Attempt {
        let failed = |error: NetError| {
            let problem = error.to_string();
            if error.is_refusal() { Attempt::Refused(problem) } else { Attempt::Retry { problem, after: None } }
        };
        let mut request = match self.client.request(Method::POST, self.destination.url.clone()) {
            Ok(request) => request.headers(self.destination.headers.clone()),
            Err(error) => return failed(error),
        };
        for name in [CONTENT_TYPE, CONTENT_ENCODING] {
            if let Some(value) = headers.get(&name) {
                request = request.header(name, value.clone());
            }
        }
        let response = match request.body(body).timeout(self.destination.timeout).send().await {
            Ok(response) => response,
            Err(error) => return failed(error),
        };
        let status = response.status();
        let after = retry_after(response.headers(), None).map(|after| after.min(MAX_RETRY_AFTER));
        // A body that breaks off does not turn an accepted request into a failed one.
        let body = read_start(response).await;
        if status.is_success() {
            return Attempt::Accepted(Response::new(body));
        }
        let problem = format!("the collector answered {status}");
        match status {
            StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT => Attempt::Retry { problem, after },
            _ => Attempt::Refused(problem),
        }
    }

    fn record_success(&self, body: &[u8]) {
        let (rejected, problem) = rejected(body);
        self.rejected.store(rejected, Ordering::Relaxed);
        let items = self.destination.signal.items();
        if rejected > 0 {
            if !self.is_failing.swap(true, Ordering::Relaxed) {
                tracing::warn!(items, rejected, problem, "collector rejected telemetry");
            }
        } else if self.is_failing.swap(false, Ordering::Relaxed) {
            tracing::info!(items, "collector accepts telemetry again");
        }
    }

    fn record_failure(&self, problem: &str) {
        if !self.is_failing.swap(true, Ordering::Relaxed) {
            let items = self.destination.signal.items();
            tracing::warn!(items, problem, "telemetry not delivered; items beyond the queue are dropped");
        }
    }
}

async fn read_start(mut response: reqwest::Response) -> Bytes {
    let mut body = Vec::new();
    while body.len() < MAX_RESPONSE_BYTES {
        match response.chunk().await {
            Ok(Some(piece)) => body.extend_from_slice(&piece[..piece.len().min(MAX_RESPONSE_BYTES - body.len())]),
            Ok(None) | Err(_) => break,
        }
    }
    body.into()
}

/// Number of items that a collector rejected in a request that it accepted, and why. The messages of the three signals
/// have the same form.
fn rejected(body: &[u8]) -> (usize, String) {
    let response = ExportTraceServiceResponse::decode(body).unwrap_or_default();
    let partial = response.partial_success.unwrap_or_default();
    let problem = partial.error_message.chars().filter(|c| !c.is_control()).take(MAX_SHOWN_CHARACTERS).collect();
    (usize::try_from(partial.rejected_spans).unwrap_or(0), problem)
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::collector::logs::v1::{ExportLogsPartialSuccess, ExportLogsServiceResponse};

    use super::*;

    #[test]
    fn rejected_items_are_read_from_the_response() {
        let partial_success =
            ExportLogsPartialSuccess { rejected_log_records: 3, error_message: "too\nold".to_owned() };
        let response = ExportLogsServiceResponse { partial_success: Some(partial_success) };
        assert_eq!(rejected(&response.encode_to_vec()), (3, "tooold".to_owned()));
        for body in [&b""[..], b"{}", b"no protobuf", &[0xff, 0xff, 0xff]] {
            assert_eq!(rejected(body), (0, String::new()));
        }
    }
}
