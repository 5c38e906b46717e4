//! Sending an event to a URL.
//!
//! What counts is the status; of the body a little is read, so that the connection can be used again, and a
//! receiver that drips or sends without end is left alone.

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
use crate::hooks::error::shortened;
use crate::hooks::model::{HttpAction, Problem, QUICK, Sent};
use crate::hooks::service::Hooks;
use crate::hooks::store::queue::Claim;

/// From the lookup of the name to the answer's head.
const TIME_LIMIT: Duration = Duration::from_secs(10);
/// What is read of an answer's body, and how long that may take.
const BODY_BYTES: usize = 16 * 1024;
const BODY_LIMIT: Duration = Duration::from_millis(250);
const SHOWN_CHARACTERS: usize = 200;

const GONE: &str = "the receiver answered 410: nobody listens there any more";

/// Sends a claimed event once. Calls `is_slow` when that takes long.
pub(in crate::hooks) async fn send(
    hooks: &Hooks,
    hook: &LoadedHook,
    claim: &Claim,
    http: &HttpAction,
    is_slow: impl FnOnce() + Send,
) -> Sent {
    let mut request = pin!(request(hooks, hook, claim, http));
    let sent = match tokio::time::timeout(QUICK, &mut request).await {
        Ok(sent) => sent,
        Err(_) => {
            is_slow();
            request.await
        }
    };
    let is_quick = sent.problem.is_none() && u128::from(sent.duration_ms) <= QUICK.as_millis();
    hook.is_quick.store(is_quick, Ordering::Relaxed);
    sent
}

async fn request(hooks: &Hooks, hook: &LoadedHook, claim: &Claim, http: &HttpAction) -> Sent {
    let begun = Instant::now();
    let now = hooks.context().clock.now();
    let headers = match headers(hook, claim, http, now) {
        Ok(headers) => headers,
        Err(problem) => return Sent::impossible(&problem),
    };
    let url = match hook.url.as_ref().map_or_else(|| Ok(http.url.clone()), sendable) {
        Ok(url) => url,
        Err(problem) => return Sent::impossible(&problem),
    };
    let answer = async {
        let request = hooks.client().request(Method::POST, url)?;
        request.headers(headers).body(claim.payload.clone()).timeout(TIME_LIMIT).send().await
    };
    let answer = answer.await;
    let duration_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    match answer {
        Ok(response) => {
            let status = Some(response.status().as_u16());
            Sent { status, duration_ms, problem: evaluate(hook, response, hooks.context().clock.now()).await }
        }
        Err(error) => {
            let is_timeout = matches!(error, NetError::Timeout { .. });
            let problem = Problem { is_timeout, ..Problem::new(hooks.explain(&error, &http.url)) };
            Sent { status: None, duration_ms, problem: Some(problem) }
        }
    }
}

/// The owner's headers, overridden by those of the daemon.
fn headers(hook: &LoadedHook, claim: &Claim, http: &HttpAction, now: Timestamp) -> Result<HeaderMap, String> {
    let secret = hook.secret.as_ref().map_err(Clone::clone)?;
    let seconds = now.to_jiff().as_second().to_string();
    let mut headers = http.headers.clone();
    headers.extend(hook.headers.clone()?);
    headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static("application/json"));
    let mut set = |name: &'static str, value: &str| -> Result<(), String> {
        let value = HeaderValue::from_str(value).map_err(|_| format!("the header {name} cannot be written"))?;
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
    let body = beginning(response).await;
    if status.is_success() {
        return None;
    }
    let message = if status.is_redirection() {
        format!("the receiver answered {status}, and redirects are not followed; name the address it leads to")
    } else {
        // It may repeat what it was sent, and what was read of it may end anywhere.
        let said = hook.redactor.hide_piece(String::from_utf8_lossy(&body));
        let shown: String = said.trim().chars().take(SHOWN_CHARACTERS).collect();
        if shown.is_empty() {
            format!("the receiver answered {status}")
        } else {
            format!("the receiver answered {status}: {shown}")
        }
    };
    let disable = (status == StatusCode::GONE).then_some(GONE);
    Some(Problem { message: shortened(message), is_timeout: false, retry_after, disable })
}

/// A url with its credentials, as the client takes it.
fn sendable(url: &Result<String, String>) -> Result<Url, String> {
    let url = url.as_ref().map_err(|problem| format!("nothing can be sent: {problem}"))?;
    Url::parse(url).map_err(|_| "the hook's url with its credentials is no url; enter it again".to_owned())
}

/// The first part of a body, or what of it came soon.
async fn beginning(mut response: Response) -> Vec<u8> {
    let mut body = Vec::new();
    let read = async {
        while body.len() < BODY_BYTES {
            match response.chunk().await {
                Ok(Some(chunk)) => body.extend_from_slice(&chunk[..chunk.len().min(BODY_BYTES)]),
                Ok(None) | Err(_) => return,
            }
        }
    };
    // Whatever has not come by then is not waited for.
    drop(tokio::time::timeout(BODY_LIMIT, read).await);
    body
}
