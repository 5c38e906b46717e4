//! One request to the collector, and what its answer means
//! (<https://opentelemetry.io/docs/specs/otlp/#otlphttp-response>).

use std::time::Duration;

use agentd_net::{GuardedClient, NetError, retry_after};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, StatusCode};
use serde::Deserialize;
use serde_json::Value;

use crate::options::Collector;

const TIME_LIMIT: Duration = Duration::from_secs(10);
/// Nobody is put off for longer.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
const MAX_ANSWER_BYTES: usize = 64 << 10;
const SHOWN_CHARACTERS: usize = 200;

pub(crate) enum Answer {
    /// `rejected` spans were not taken all the same, and will not be.
    Taken {
        rejected: usize,
        problem: String,
    },
    /// The same again would be refused again.
    Refused(String),
    Later {
        problem: String,
        after: Option<Duration>,
    },
}

pub(crate) async fn deliver(client: &GuardedClient, collector: &Collector, body: Bytes) -> Answer {
    let later = |error: NetError| {
        let problem = error.to_string();
        if error.is_refusal() { Answer::Refused(problem) } else { Answer::Later { problem, after: None } }
    };
    let request = match client.request(Method::POST, collector.url.clone()) {
        Ok(request) => request.headers(collector.headers.clone()),
        Err(error) => return later(error),
    };
    let request = request.header(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let response = match request.body(body).timeout(TIME_LIMIT).send().await {
        Ok(response) => response,
        Err(error) => return later(error),
    };
    let status = response.status();
    let after = retry_after(response.headers(), None).map(|after| after.min(LONGEST_PAUSE));
    // What was said besides is not worth failing for.
    let answer = beginning(response).await;
    if status.is_success() {
        let (rejected, problem) = rejected(&answer);
        return Answer::Taken { rejected, problem };
    }
    let problem = format!("the collector answered {status}");
    match status {
        StatusCode::TOO_MANY_REQUESTS
        | StatusCode::BAD_GATEWAY
        | StatusCode::SERVICE_UNAVAILABLE
        | StatusCode::GATEWAY_TIMEOUT => Answer::Later { problem, after },
        _ => Answer::Refused(problem),
    }
}

async fn beginning(mut response: reqwest::Response) -> Vec<u8> {
    let mut answer = Vec::new();
    while answer.len() < MAX_ANSWER_BYTES {
        match response.chunk().await {
            Ok(Some(piece)) => answer.extend_from_slice(&piece[..piece.len().min(MAX_ANSWER_BYTES - answer.len())]),
            Ok(None) | Err(_) => break,
        }
    }
    answer
}

/// How many spans a collector did not take though it answered well, and why.
fn rejected(answer: &[u8]) -> (usize, String) {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Body {
        partial_success: Option<PartialSuccess>,
    }
    #[derive(Deserialize, Default)]
    #[serde(rename_all = "camelCase", default)]
    struct PartialSuccess {
        /// Text, as 64-bit integers are; some write a number.
        rejected_spans: Value,
        error_message: String,
    }
    let body: Option<Body> = serde_json::from_slice(answer).ok();
    let partial = body.and_then(|body| body.partial_success).unwrap_or_default();
    let count = match &partial.rejected_spans {
        Value::String(text) => text.parse().ok(),
        value => value.as_u64(),
    };
    let count = count.and_then(|count| usize::try_from(count).ok()).unwrap_or(0);
    let problem = partial.error_message.chars().filter(|c| !c.is_control()).take(SHOWN_CHARACTERS).collect();
    (count, problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_collector_did_not_take_is_read() {
        let said = br#"{"partialSuccess": {"rejectedSpans": "3", "errorMessage": "too\nold"}}"#;
        assert_eq!(rejected(said), (3, "tooold".to_owned()));
        assert_eq!(rejected(br#"{"partialSuccess": {"rejectedSpans": 2}}"#), (2, String::new()));
        for nothing in [&b""[..], b"{}", b"no json", br#"{"partialSuccess": {}}"#, br#"{"partialSuccess": null}"#] {
            assert_eq!(rejected(nothing), (0, String::new()));
        }
    }
}
