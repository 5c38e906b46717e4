//! Intercepted requests that a mock may answer.

use std::borrow::Cow;
use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use url::Url;

use super::events::RequestId;
use super::mocks::Mock;
use crate::Environment;
use crate::cdp::{Connection, Event};
use crate::shared::COMMAND_TIMEOUT;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Paused<'a> {
    #[serde(borrow)]
    request_id: Cow<'a, str>,
    #[serde(borrow)]
    request: Request<'a>,
    #[serde(default)]
    network_id: Option<RequestId>,
}

#[derive(Deserialize)]
struct Request<'a> {
    #[serde(borrow)]
    url: Cow<'a, str>,
    #[serde(borrow)]
    method: Cow<'a, str>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
}

impl Request<'_> {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

/// Fulfills a paused request from a mock, or continues paused.
pub(crate) fn handle_paused_request(event: &Event, environment: &Environment, connection: &Connection) {
    let Some(paused) = event.read::<Paused<'_>>() else { return };
    let mock = environment.mocks.lock().find(&paused.request.url);
    let (method, parameters) = match &mock {
        None => ("Fetch.continueRequest", json!({"requestId": paused.request_id})),
        Some(mock) => {
            if let Some(id) = &paused.network_id {
                environment.log.lock().mocked(id, &paused.request.url);
                if let Some(har) = environment.har.lock().as_mut() {
                    har.mocked(id);
                }
            }
            ("Fetch.fulfillRequest", answer(mock, &paused))
        }
    };
    let (connection, session) = (connection.clone(), event.session.clone());
    let id = paused.request_id.into_owned();
    tokio::spawn(async move {
        let outcome = connection.call::<IgnoredAny>(session.as_deref(), method, parameters, COMMAND_TIMEOUT).await;
        if let Err(error) = outcome {
            tracing::debug!(%error, "failed to answer intercepted request");
            // Do not leave the request hanging; usually its page is gone.
            let parameters = json!({"requestId": id, "errorReason": "Failed"});
            let _ = connection
                .call::<IgnoredAny>(session.as_deref(), "Fetch.failRequest", parameters, COMMAND_TIMEOUT)
                .await;
        }
    });
}

fn answer(mock: &Mock, paused: &Paused<'_>) -> Value {
    // A CORS preflight: a mock for the request implies that it is permitted.
    let is_preflight =
        &*paused.request.method == "OPTIONS" && paused.request.header("access-control-request-method").is_some();
    let mut headers: Vec<(String, String)> =
        if is_preflight { preflight_headers(&paused.request) } else { mock.headers.clone().into_iter().collect() };
    let has =
        |headers: &[(String, String)], name: &str| headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
    if let Some(origin) = cross_origin(&paused.request).filter(|_| !has(&headers, "access-control-allow-origin")) {
        headers.push(("access-control-allow-origin".to_owned(), origin.to_owned()));
        headers.push(("access-control-allow-credentials".to_owned(), "true".to_owned()));
        headers.push(("vary".to_owned(), "Origin".to_owned()));
    }
    let (status, body) = if is_preflight { (204, "") } else { (mock.status_code, mock.body.as_str()) };
    if !is_preflight && !has(&headers, "content-type") {
        headers.push(("content-type".to_owned(), content_type(body).to_owned()));
    }
    let headers = headers.iter().map(|(name, value)| json!({"name": name, "value": value}));
    json!({
        "requestId": paused.request_id,
        "responseCode": status,
        "responseHeaders": headers.collect::<Vec<_>>(),
        "body": STANDARD.encode(body),
    })
}

/// Returns the origin of a cross-origin request.
fn cross_origin<'a>(request: &'a Request<'_>) -> Option<&'a str> {
    let origin = request.header("origin")?;
    let own = Url::parse(&request.url).ok()?.origin().ascii_serialization();
    (origin != own).then_some(origin)
}

fn preflight_headers(request: &Request<'_>) -> Vec<(String, String)> {
    let method = request.header("access-control-request-method").unwrap_or("GET");
    let mut headers = vec![("access-control-allow-methods".to_owned(), method.to_owned())];
    if let Some(names) = request.header("access-control-request-headers") {
        headers.push(("access-control-allow-headers".to_owned(), names.to_owned()));
    }
    headers
}

/// Returns the content type for a body without one. Otherwise browsers would sniff text as HTML.
fn content_type(body: &str) -> &'static str {
    match body.trim_start().chars().next() {
        Some('{' | '[') => "application/json",
        Some('<') => "text/html; charset=utf-8",
        _ => "text/plain; charset=utf-8",
    }
}
