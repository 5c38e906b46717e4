//! Requests to push services and the interpretation of their responses.

use std::time::Duration;

use agentd_net::{NetError, retry_after};
use http::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};

use super::model::{Content, PushDetails, topic};
use super::{Device, Push};
use crate::notify::transport::{DeliveryFailure, Retry};

/// Result of a push request.
pub(super) type Receipt = Result<(), Failure>;

/// Reason a push service did not accept a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) failure: DeliveryFailure,
    /// Whether the subscription no longer exists at the push service.
    pub(super) is_gone: bool,
}

impl From<DeliveryFailure> for Failure {
    fn from(failure: DeliveryFailure) -> Self {
        Self { failure, is_gone: false }
    }
}

impl Push {
    /// Sends a message that the push service stores for at most `ttl`.
    pub(super) async fn post(
        &self,
        device: &Device,
        content: &Content,
        ttl: Duration,
        details: &PushDetails,
    ) -> Receipt {
        let later = |error: String| Failure::from(DeliveryFailure::later(error));
        // A policy refusal is retried too, because the owner may permit the address meanwhile.
        let failed = |error: NetError| later(error.to_string());
        let permanent = |error: agentd_web_push::PushError| DeliveryFailure::permanent(error.to_string());
        let key = self.key().await.map_err(|error| later(Self::unreadable(&error)))?;
        let service = device.endpoint.origin().ascii_serialization();
        let authorization = key.authorization(&service, &self.contact(), self.now()).map_err(permanent)?;
        let body = device.receiver.encrypt(content.bytes(), &self.0.context.entropy).map_err(permanent)?;
        let mut headers = headers(ttl, details);
        if let Ok(mut value) = HeaderValue::from_str(authorization.expose()) {
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let request = self.0.client.request(Method::POST, device.endpoint.clone()).map_err(failed)?;
        let response = request.headers(headers).body(body).timeout(self.0.time_limit).send().await;
        if matches!(response, Err(NetError::Timeout { .. })) {
            self.0.silent.suspend(&service, self.now());
        }
        let response = response.map_err(failed)?;
        let retry_after_delay = retry_after(response.headers(), Some(self.now()));
        classify(&service, response.status(), retry_after_delay)
    }
}

fn headers(ttl: Duration, details: &PushDetails) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(CONTENT_ENCODING, HeaderValue::from_static("aes128gcm"));
    headers.insert(HeaderName::from_static("ttl"), HeaderValue::from(ttl.as_secs()));
    let urgency = if details.is_urgent { "high" } else { "normal" };
    headers.insert(HeaderName::from_static("urgency"), HeaderValue::from_static(urgency));
    if let Ok(topic) = HeaderValue::from_str(&topic(&details.tag)) {
        headers.insert(HeaderName::from_static("topic"), topic);
    }
    headers
}

fn classify(service: &str, status: StatusCode, retry_after_delay: Option<Duration>) -> Receipt {
    if status.is_success() {
        return Ok(());
    }
    let answer = format!("{service} responded with {status}");
    let is_gone = matches!(status, StatusCode::NOT_FOUND | StatusCode::GONE);
    let is_transient =
        matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT) || status.is_server_error();
    let message = match status {
        _ if is_gone => {
            format!(
                "{answer}: the subscription has expired, and the device was removed; enable push notifications \
                 on the device again"
            )
        }
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            format!(
                "{answer}: the service rejected the daemon's key; disable and enable push notifications on the device"
            )
        }
        _ if status.is_redirection() => format!("{answer}; redirects are not followed"),
        _ => answer,
    };
    let retry = match retry_after_delay {
        _ if !is_transient => Retry::Never,
        Some(delay) => Retry::After(delay),
        None => Retry::Later,
    };
    Err(Failure { failure: DeliveryFailure { message, retry }, is_gone })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classified(status: u16, retry_after_delay: Option<Duration>) -> Option<(Retry, bool)> {
        let failure = classify("https://x", StatusCode::from_u16(status).unwrap(), retry_after_delay).err()?;
        Some((failure.failure.retry, failure.is_gone))
    }

    #[test]
    fn responses_map_to_retry_decisions() {
        let delay = Some(Duration::from_secs(120));
        for taken in [200, 201, 202, 204] {
            assert_eq!(classified(taken, None), None);
        }
        for gone in [404, 410] {
            assert_eq!(classified(gone, delay), Some((Retry::Never, true)));
        }
        for refused in [302, 400, 401, 403, 413] {
            assert_eq!(classified(refused, delay), Some((Retry::Never, false)), "{refused}");
        }
        for later in [408, 429, 500, 502, 503] {
            assert_eq!(classified(later, None), Some((Retry::Later, false)), "{later}");
            assert_eq!(classified(later, delay), Some((Retry::After(Duration::from_secs(120)), false)), "{later}");
        }
    }

    #[test]
    fn headers_carry_ttl_urgency_and_topic() {
        let details = PushDetails { is_urgent: true, tag: "a".to_owned(), ..PushDetails::default() };
        let sent = headers(Duration::from_secs(90), &details);
        assert_eq!((&sent["ttl"], &sent["urgency"]), (&HeaderValue::from(90), &HeaderValue::from_static("high")));
        assert_ne!(sent["topic"], headers(Duration::ZERO, &PushDetails::default())["topic"]);
        assert_eq!(headers(Duration::ZERO, &PushDetails::default())["urgency"], "normal");
    }
}
