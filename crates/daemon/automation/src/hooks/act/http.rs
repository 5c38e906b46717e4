//! Sending an event to a URL.
//!
//! Only the status decides the outcome. A bounded prefix of the body is read, so that the connection can be reused.
//! The bound also keeps a receiver that sends slowly or endlessly from blocking the worker.

use std::pin::pin;
use std::sync::atomic::Ordering;
use std::time::Duration;

use agentd_base::Timestamp;
use agentd_net::webhook_signature::{SignedMessage, sign_body, sign_message};
use agentd_net::{NetError, retry_after};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use reqwest::Response;
use tokio::time::Instant;
use url::Url;

use crate::hooks::cache::LoadedHook;
use crate::hooks::error::truncate_error;
use crate::hooks::model::{HttpAction, Problem, SLOW_THRESHOLD, SendOutcome};
use crate::hooks::service::Hooks;
use crate::hooks::store::queue::Claim;

/// Timeout of a request, from name resolution to the response head.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of response body bytes that are read.
const MAX_BODY_BYTES: usize = 16 * 1024;
/// Maximum time spent reading a response body.
const BODY_READ_TIMEOUT: Duration = Duration::from_millis(250);
/// Maximum length of the response excerpt in an error, in characters.
const MAX_EXCERPT_CHARACTERS: usize = 200;

const GONE_REASON: &str = "the receiver responded with 410 Gone; set another URL and enable the hook";

/// Sends a claimed event once. Calls `on_slow` when the receiver does not respond quickly.
pub(in crate::hooks) async fn send(
    hooks: &Hooks,
    hook: &LoadedHook,
    claim: &Claim,
    http: &HttpAction,
    on_slow: impl FnOnce() + Send,
) -> SendOutcome {
    let mut request = pin!(request(hooks, hook, claim, http));
    let sent = match tokio::time::timeout(SLOW_THRESHOLD, &mut request).await {
        Ok(sent) => sent,
        Err(_) => {
            on_slow();
            request.await
        }
    };
    let is_quick = sent.problem.is_none() && u128::from(sent.duration_ms) <= SLOW_THRESHOLD.as_millis();
    hook.is_quick.store(is_quick, Ordering::Relaxed);
    sent
}

async fn request(hooks: &Hooks, hook: &LoadedHook, claim: &Claim, http: &HttpAction) -> SendOutcome {
    let begun = Instant::now();
    let now = hooks.context().clock.now();
    let headers = match headers(hook, claim, http, now) {
        Ok(headers) => headers,
        Err(problem) => return SendOutcome::unsendable(&problem),
    };
    let url = match hook.url.as_ref().map_or_else(|| Ok(http.url.clone()), parse_target_url) {
        Ok(url) => url,
        Err(problem) => return SendOutcome::unsendable(&problem),
    };
    let answer = async {
        let request = hooks.client().request(Method::POST, url)?;
        request.headers(headers).body(claim.payload.clone()).timeout(REQUEST_TIMEOUT).send().await
    };
    let answer = answer.await;
    let duration_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    match answer {
        Ok(response) => {
            let status = Some(response.status().as_u16());
            SendOutcome { status, duration_ms, problem: evaluate(hook, response, hooks.context().clock.now()).await }
        }
        Err(error) => {
            let is_timeout = matches!(error, NetError::Timeout { .. });
            let problem = Problem { is_timeout, ..Problem::new(hooks.explain(&error, &http.url)) };
            SendOutcome { status: None, duration_ms, problem: Some(problem) }
        }
    }
}

/// Builds the request headers: those of the owner, overridden by those of the daemon.
fn headers(hook: &LoadedHook, claim: &Claim, http: &HttpAction, now: Timestamp) -> Result<HeaderMap, String> {
    let secret = hook.secret.as_ref().map_err(Clone::clone)?;
    let seconds = now.to_jiff().as_second().to_string();
    let mut headers = http.headers.clone();
    headers.extend(hook.headers.clone()?);
    headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static("application/json"));
    let mut set = |name: &'static str, value: &str| -> Result<(), String> {
        let value = HeaderValue::from_str(value).map_err(|_| format!("the value of the header {name} is invalid"))?;
        headers.insert(HeaderName::from_static(name), value);
        Ok(())
    };
    if let Some(trace) = claim.trace {
        set("traceparent", &trace.to_header())?;
    }
    set("x-svc-event", &claim.event_type)?;
    set("x-svc-delivery", &claim.id)?;
    set("x-svc-timestamp", &seconds)?;
    set("webhook-id", &claim.id)?;
    set("webhook-timestamp", &seconds)?;
    if let Some(secret) = secret {
        let body = claim.payload.as_bytes();
        set("x-svc-signature", &sign_body(secret, body))?;
        let message = SignedMessage { id: &claim.id, timestamp: &seconds, body };
        set("webhook-signature", &sign_message(secret, message))?;
    }
    Ok(headers)
}

async fn evaluate(hook: &LoadedHook, response: Response, now: Timestamp) -> Option<Problem> {
    let status = response.status();
    let retry_after = retry_after(response.headers(), Some(now));
    let body = read_body_prefix(response).await;
    if status.is_success() {
        return None;
    }
    let message = if status.is_redirection() {
        format!("the receiver responded with {status}; redirects are not followed, so set the final URL")
    } else {
        // The body may echo secrets, and the prefix may end in the middle of one.
        let redacted = hook.redactor.redact_excerpt(String::from_utf8_lossy(&body));
        let shown: String = redacted.trim().chars().take(MAX_EXCERPT_CHARACTERS).collect();
        if shown.is_empty() {
            format!("the receiver responded with {status}")
        } else {
            format!("the receiver responded with {status}: {shown}")
        }
    };
    let disable = (status == StatusCode::GONE).then_some(GONE_REASON);
    Some(Problem { message: truncate_error(message), is_timeout: false, retry_after, disable })
}

/// Parses a target URL with its credentials.
fn parse_target_url(url: &Result<String, String>) -> Result<Url, String> {
    let url = url.as_ref().map_err(|problem| format!("the event cannot be sent: {problem}"))?;
    Url::parse(url)
        .map_err(|_| "the URL of the hook is invalid with its stored credentials; enter the URL again".to_owned())
}

/// Reads the prefix of a body that arrives within the limits.
async fn read_body_prefix(mut response: Response) -> Vec<u8> {
    let mut body = Vec::new();
    let read = async {
        while body.len() < MAX_BODY_BYTES {
            match response.chunk().await {
                Ok(Some(chunk)) => body.extend_from_slice(&chunk[..chunk.len().min(MAX_BODY_BYTES)]),
                Ok(None) | Err(_) => return,
            }
        }
    };
    // Keeps what arrived before the timeout.
    drop(tokio::time::timeout(BODY_READ_TIMEOUT, read).await);
    body
}
