//! Platform API calls with time and size limits, and the response handling that all platforms share.

use std::time::Duration;

use agentd_base::Secret;
use agentd_net::{GuardedClient, MAX_RETRY_AFTER, NetError, retry_after};
use bytes::BytesMut;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use serde_json::Value;
use url::Url;

use crate::outgoing::SendError;

const TIME_LIMIT: Duration = Duration::from_secs(15);
/// Maximum size of a response body in bytes.
const MAX_RESPONSE_BYTES: usize = 1 << 20;

/// API request. Has no `Debug` implementation, since paths and bodies contain tokens.
#[derive(Clone)]
pub(crate) struct ApiCall {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) authorization: Option<Secret>,
    pub(crate) content: Option<(&'static str, Vec<u8>)>,
    pub(crate) time_limit: Duration,
}

impl ApiCall {
    pub(crate) fn new(method: Method, url: Url) -> Self {
        Self { method, url, authorization: None, content: None, time_limit: TIME_LIMIT }
    }

    /// Sets the `Authorization` header to this scheme and token.
    pub(crate) fn authorized(mut self, scheme: &str, token: &Secret) -> Self {
        self.authorization = Some(Secret::new(format!("{scheme} {}", token.expose())));
        self
    }

    /// Adds a query parameter.
    pub(crate) fn query(mut self, field: Option<(&str, &str)>) -> Self {
        if let Some((name, value)) = field {
            self.url.query_pairs_mut().append_pair(name, value);
        }
        self
    }

    pub(crate) fn json(mut self, body: &Value) -> Self {
        self.content = Some(("application/json; charset=utf-8", body.to_string().into_bytes()));
        self
    }

    pub(crate) fn form(mut self, fields: &[(&str, &str)]) -> Self {
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        self.content = Some(("application/x-www-form-urlencoded", body.into_bytes()));
        self
    }
}

/// API response with a status below 500 other than 429. Has no `Debug` implementation, since it may contain a token.
pub(crate) struct ApiAnswer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    /// Body, or `Null` if it is not JSON.
    pub(crate) body: Value,
}

/// Appends path segments to `base`, percent-encoding each.
pub(crate) fn join(base: &Url, segments: &[&str]) -> Url {
    let mut url = base.clone();
    if let Ok(mut path) = url.path_segments_mut() {
        path.pop_if_empty().extend(segments);
    }
    url
}

/// Sends a request. `name` is the platform name for messages.
///
/// # Errors
/// `RateLimited` for 429; `Later` if the platform is unavailable, slow, or responds with 5xx.
pub(crate) async fn call(client: &GuardedClient, name: &str, call: ApiCall) -> Result<ApiAnswer, SendError> {
    let host = call.url.host_str().unwrap_or_default().to_owned();
    let mut request = client.request(call.method, call.url)?.timeout(call.time_limit);
    if let Some(authorization) = call.authorization {
        let mut value = HeaderValue::from_str(authorization.expose()).map_err(|_| {
            SendError::Credentials(format!(
                "the credentials of {name} contain characters that are not allowed in a header"
            ))
        })?;
        value.set_sensitive(true);
        request = request.header(AUTHORIZATION, value);
    }
    if let Some((content_type, body)) = call.content {
        request = request.header(CONTENT_TYPE, HeaderValue::from_static(content_type)).body(body);
    }
    let mut response = request.send().await?;
    let (status, headers) = (response.status(), response.headers().clone());
    let mut bytes = BytesMut::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| NetError::from_reqwest(&host, error))? {
        if bytes.len() + chunk.len() > MAX_RESPONSE_BYTES {
            return Err(SendError::Later(format!("the response of {name} exceeds {MAX_RESPONSE_BYTES} bytes")));
        }
        bytes.extend_from_slice(&chunk);
    }
    let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
    if status == StatusCode::TOO_MANY_REQUESTS {
        let wait = retry_after(&headers, None).or_else(|| wait_in(&body));
        return Err(SendError::RateLimited { message: format!("{name} is rate limiting messages"), wait });
    }
    if status.is_server_error() {
        return Err(SendError::Later(format!("{name} returned {status}")));
    }
    if status.is_redirection() {
        return Err(SendError::Later(format!(
            "{name} returned {status}, and redirects are not followed; set `api_base_url` to the target"
        )));
    }
    Ok(ApiAnswer { status, headers, body })
}

/// Returns the retry delay in the body, in seconds: `retry_after` (Discord) or `parameters.retry_after` (Telegram).
pub(crate) fn wait_in(body: &Value) -> Option<Duration> {
    let seconds = body["retry_after"].as_f64().or_else(|| body["parameters"]["retry_after"].as_f64())?;
    Duration::try_from_secs_f64(seconds).ok().map(|wait| wait.min(MAX_RETRY_AFTER))
}

/// Returns the configured URL, or else the default URL of the platform.
pub(crate) fn base_url(set: Option<&Url>, default_url: &str) -> Result<Url, SendError> {
    match set {
        Some(url) => Ok(url.clone()),
        None => Url::parse(default_url).map_err(|_| SendError::Refused(format!("{default_url} is not a valid URL"))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn wait_is_capped_at_the_maximum() {
        assert_eq!(wait_in(&json!({"retry_after": 1.5})), Some(Duration::from_millis(1500)));
        assert_eq!(wait_in(&json!({"parameters": {"retry_after": 7}})), Some(Duration::from_secs(7)));
        assert_eq!(wait_in(&json!({"retry_after": 1e18})), Some(MAX_RETRY_AFTER));
        for none in
            [json!({"retry_after": -1}), json!({"retry_after": 1e300}), json!({"retry_after": "7"}), json!(null)]
        {
            assert_eq!(wait_in(&none), None, "{none}");
        }
    }
}
