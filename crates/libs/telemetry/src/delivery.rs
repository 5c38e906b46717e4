//! Delivery of encoded telemetry, and interpretation of the response
//! (<https://opentelemetry.io/docs/specs/otlp/#otlphttp-response>).
//!
//! Retries happen here, because the OpenTelemetry exporters would block a thread for them. URL and headers come from
//! the configuration, regardless of what an exporter has read from the environment.

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
/// Time after which a batch is dropped in favour of newer items.
const MAX_RETRY_TIME: Duration = Duration::from_secs(60);
const BACKOFF: Backoff =
    Backoff { base: Duration::from_secs(1), multiplier: 2.0, cap: Duration::from_secs(30), jitter: 0.2 };

/// HTTP client of one exporter. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Delivery(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    client: GuardedClient,
    destination: Destination,
    entropy: Entropy,
    /// Becomes true when the daemon stops; each batch then gets one last attempt.
    stops: watch::Receiver<bool>,
    /// Maximum time for retries of a batch.
    retry_time: Duration,
    /// Number of items in the last batch that the collector rejected although it accepted the request.
    rejected: AtomicUsize,
    /// Whether the last batch failed; only changes are logged.
    is_failing: AtomicBool,
}

/// Result of one request.
enum Attempt {
    Accepted(Response<Bytes>),
    /// A retry would be rejected again.
    Rejected(String),
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

    /// Returns the number of rejected items of the last batch and resets it.
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
                Attempt::Rejected(problem) => (problem, None),
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
            if error.is_refusal() { Attempt::Rejected(problem) } else { Attempt::Retry { problem, after: None } }
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
        // A truncated body does not make an accepted request fail.
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
            _ => Attempt::Rejected(problem),
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

/// Returns the number of items rejected in an accepted request, and the reason. The messages of the three signals have
/// the same encoding.
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
