//! Requests that Chromium asks us about, because a mock may be meant for them.

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
use crate::shared::QUICK;

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

/// Answers it, or lets it go on its way.
pub(crate) fn paused(event: &Event, environment: &Environment, connection: &Connection) {
    let Some(it) = event.read::<Paused<'_>>() else { return };
    let mock = environment.mocks.lock().find(&it.request.url);
    let (method, parameters) = match &mock {
        None => ("Fetch.continueRequest", json!({"requestId": it.request_id})),
        Some(mock) => {
            if let Some(id) = &it.network_id {
                environment.log.lock().mocked(id, &it.request.url);
                if let Some(har) = environment.har.lock().as_mut() {
                    har.mocked(id);
                }
            }
            ("Fetch.fulfillRequest", answer(mock, &it))
        }
    };
    let (connection, session) = (connection.clone(), event.session.clone());
    let id = it.request_id.into_owned();
    tokio::spawn(async move {
        let told = connection.call::<IgnoredAny>(session.as_deref(), method, parameters, QUICK).await;
        if let Err(error) = told {
            tracing::debug!(%error, "a request that was held could not be answered");
            // It is not to hang; mostly its page is gone.
            let parameters = json!({"requestId": id, "errorReason": "Failed"});
            let _ = connection.call::<IgnoredAny>(session.as_deref(), "Fetch.failRequest", parameters, QUICK).await;
        }
    });
}

fn answer(mock: &Mock, it: &Paused<'_>) -> Value {
    // Asked before a request to another site: who mocks the answer wants the request to be made.
    let asks_first = &*it.request.method == "OPTIONS" && it.request.header("access-control-request-method").is_some();
    let mut headers: Vec<(String, String)> =
        if asks_first { preflight(&it.request) } else { mock.headers.clone().into_iter().collect() };
    let has =
        |headers: &[(String, String)], name: &str| headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
    if let Some(origin) = other_origin(&it.request).filter(|_| !has(&headers, "access-control-allow-origin")) {
        headers.push(("access-control-allow-origin".to_owned(), origin.to_owned()));
        headers.push(("access-control-allow-credentials".to_owned(), "true".to_owned()));
        headers.push(("vary".to_owned(), "Origin".to_owned()));
    }
    let (status, body) = if asks_first { (204, "") } else { (mock.status_code, mock.body.as_str()) };
    if !asks_first && !has(&headers, "content-type") {
        headers.push(("content-type".to_owned(), content_type(body).to_owned()));
    }
    let headers = headers.iter().map(|(name, value)| json!({"name": name, "value": value}));
    json!({
        "requestId": it.request_id,
        "responseCode": status,
        "responseHeaders": headers.collect::<Vec<_>>(),
        "body": STANDARD.encode(body),
    })
}

/// Who asks, where that is another site than the one that is asked.
fn other_origin<'a>(request: &'a Request<'_>) -> Option<&'a str> {
    let origin = request.header("origin")?;
    let own = Url::parse(&request.url).ok()?.origin().ascii_serialization();
    (origin != own).then_some(origin)
}

fn preflight(request: &Request<'_>) -> Vec<(String, String)> {
    let method = request.header("access-control-request-method").unwrap_or("GET");
    let mut headers = vec![("access-control-allow-methods".to_owned(), method.to_owned())];
    if let Some(names) = request.header("access-control-request-headers") {
        headers.push(("access-control-allow-headers".to_owned(), names.to_owned()));
    }
    headers
}

/// Of a body without one: browsers guess otherwise, and guess texts to be pages.
fn content_type(body: &str) -> &'static str {
    match body.trim_start().chars().next() {
        Some('{' | '[') => "application/json",
        Some('<') => "text/html; charset=utf-8",
        _ => "text/plain; charset=utf-8",
    }
}
