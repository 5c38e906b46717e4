//! `webhook:<url>`: sends a message as JSON with POST.
//!
//! The body has the form of an event: `{id, type: "notification", timestamp, data: {subject, body, format}}`. With the
//! format `json`, `data.body` is the parsed value. The request has the headers `X-Svc-Event`, `X-Svc-Delivery` (the id,
//! identical in every attempt) and `X-Svc-Timestamp` (seconds).

use std::time::Duration;

use agentd_base::{Clock, trace};
use agentd_core::settings::Settings;
use agentd_net::{GuardedClient, NetError, Trust, retry_after};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use serde_json::{Value, json};
use url::Url;

use super::model::{MessageFormat, Target, redact_channel};
use super::transport::{Delivered, DeliveryFailure, Outgoing, Retry, Transport};

const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct Webhook {
    settings: Settings,
    clock: Clock,
    owner: GuardedClient,
    steered: GuardedClient,
}

impl Webhook {
    pub(super) fn new(settings: Settings, clock: Clock) -> Self {
        let client = |trust| GuardedClient::new(settings.policy(), trust);
        Self { owner: client(Trust::Owner), steered: client(Trust::Untrusted), settings, clock }
    }

    /// Returns the HTTP client for a message, as permitted by the current settings.
    fn client(&self, message: &Outgoing) -> &GuardedClient {
        let is_public_only = message.is_of_hook && !self.settings.security().private_hook_targets;
        if is_public_only { &self.steered } else { &self.owner }
    }

    async fn post(&self, message: &Outgoing) -> Result<Delivered, DeliveryFailure> {
        // The target was validated, so its URL parses.
        let url = Url::parse(&message.channel)
            .map_err(|_| DeliveryFailure::permanent("the URL of the webhook is not valid"))?;
        let host = redact_channel(Target::WEBHOOK, &message.channel);
        // A policy refusal is retried too, because the owner may permit the address meanwhile.
        let failed = |error: NetError| DeliveryFailure::later(error.to_string());
        let request = self.client(message).request(Method::POST, url).map_err(failed)?;
        let request = request.headers(headers(message)).body(body(message).to_string()).timeout(REQUEST_TIMEOUT);
        let response = request.send().await.map_err(failed)?;
        let retry_after_delay = retry_after(response.headers(), Some(self.clock.now()));
        classify(&host, response.status(), retry_after_delay)
    }
}

impl Transport for Webhook {
    fn platform(&self) -> &'static str {
        Target::WEBHOOK
    }

    fn deliver<'a>(&'a self, message: &'a Outgoing) -> BoxFuture<'a, Result<Delivered, DeliveryFailure>> {
        self.post(message).boxed()
    }
}

fn body(message: &Outgoing) -> Value {
    let text = || Value::from(message.body.as_str());
    let content = match message.format {
        MessageFormat::Json => serde_json::from_str(&message.body).unwrap_or_else(|_| text()),
        _ => text(),
    };
    json!({
        "id": message.id,
        "type": "notification",
        "timestamp": message.created_at,
        "data": {"subject": message.subject, "body": content, "format": message.format},
    })
}

fn headers(message: &Outgoing) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(HeaderName::from_static("x-svc-event"), HeaderValue::from_static("notification"));
    if let Ok(id) = HeaderValue::from_str(message.id.as_str()) {
        headers.insert(HeaderName::from_static("x-svc-delivery"), id);
    }
    // Trace context of the queue item.
    if let Some(Ok(traceparent)) = trace::current().map(|trace| HeaderValue::from_str(&trace.to_header())) {
        headers.insert(HeaderName::from_static("traceparent"), traceparent);
    }
    let seconds = message.created_at.to_jiff().as_second();
    headers.insert(HeaderName::from_static("x-svc-timestamp"), HeaderValue::from(seconds));
    headers
}

fn classify(host: &str, status: StatusCode, retry_after_delay: Option<Duration>) -> Result<Delivered, DeliveryFailure> {
    if status.is_success() {
        return Ok(Delivered::default());
    }
    let message = match status {
        _ if status.is_redirection() => {
            format!("{host} responded with {status}; redirects are not followed, so set the final URL")
        }
        StatusCode::GONE => format!("{host} responded with {status}: the receiver no longer exists; set another URL"),
        _ => format!("{host} responded with {status}"),
    };
    let retry = match (status, retry_after_delay) {
        (StatusCode::GONE, _) => Retry::Never,
        (_, Some(delay)) => Retry::After(delay),
        _ => Retry::Later,
    };
    Err(DeliveryFailure { message, retry })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classified(status: u16, retry_after_delay: Option<Duration>) -> Option<Retry> {
        classify("https://x", StatusCode::from_u16(status).unwrap(), retry_after_delay)
            .err()
            .map(|failure| failure.retry)
    }

    #[test]
    fn responses_map_to_retry_decisions() {
        assert_eq!((classified(200, None), classified(204, None)), (None, None));
        assert_eq!(
            (classified(500, None), classified(404, None), classified(302, None)),
            (Some(Retry::Later), Some(Retry::Later), Some(Retry::Later))
        );
        let delay = Duration::from_secs(120);
        assert_eq!(classified(410, Some(delay)), Some(Retry::Never));
        assert_eq!(classified(503, Some(delay)), Some(Retry::After(delay)));
    }
}
