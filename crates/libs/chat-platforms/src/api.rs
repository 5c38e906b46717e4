//! Calls of a platform's API: bounded in time and size, and read as far as all platforms have it in common.

use std::time::Duration;

use agentd_base::Secret;
use agentd_net::{GuardedClient, LONGEST_RETRY_AFTER, NetError, retry_after};
use bytes::BytesMut;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use serde_json::Value;
use url::Url;

use crate::outgoing::SendError;

const TIME_LIMIT: Duration = Duration::from_secs(15);
/// Answers are small; what is longer is not read.
const MAX_ANSWER: usize = 1 << 20;

/// A call before it is made. Without `Debug`: paths and bodies hold tokens.
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

    /// With this in the header `Authorization`, behind the name of its scheme.
    pub(crate) fn authorized(mut self, scheme: &str, token: &Secret) -> Self {
        self.authorization = Some(Secret::new(format!("{scheme} {}", token.expose())));
        self
    }

    /// With a field in the query.
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

/// What was answered, whatever the status below 500 but 429. Without `Debug`: it may hold a token.
pub(crate) struct ApiAnswer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    /// `Null` where it is no JSON.
    pub(crate) body: Value,
}

/// `base` with these segments behind its path, each encoded as one.
pub(crate) fn join(base: &Url, segments: &[&str]) -> Url {
    let mut url = base.clone();
    if let Ok(mut path) = url.path_segments_mut() {
        path.pop_if_empty().extend(segments);
    }
    url
}

/// Makes a call. `name`: the platform's, for sentences.
///
/// # Errors
/// `RateLimited` for 429, `Later` where the platform is away, slow, or answers 5xx.
pub(crate) async fn call(client: &GuardedClient, name: &str, call: ApiCall) -> Result<ApiAnswer, SendError> {
    let host = call.url.host_str().unwrap_or_default().to_owned();
    let mut request = client.request(call.method, call.url)?.timeout(call.time_limit);
    if let Some(authorization) = call.authorization {
        let mut value = HeaderValue::from_str(authorization.expose()).map_err(|_| {
            SendError::Credentials(format!("the credentials of {name} hold characters that no header takes"))
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
        if bytes.len() + chunk.len() > MAX_ANSWER {
            return Err(SendError::Later(format!("{name} answered more than {MAX_ANSWER} bytes")));
        }
        bytes.extend_from_slice(&chunk);
    }
    let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
    if status == StatusCode::TOO_MANY_REQUESTS {
        let wait = retry_after(&headers, None).or_else(|| wait_in(&body));
        return Err(SendError::RateLimited { message: format!("{name} takes no more messages just now"), wait });
    }
    if status.is_server_error() {
        return Err(SendError::Later(format!("{name} answered {status}")));
    }
    if status.is_redirection() {
        return Err(SendError::Later(format!(
            "{name} answered {status}, and redirects are not followed; set api_base_url to where it leads"
        )));
    }
    Ok(ApiAnswer { status, headers, body })
}

/// Discord (`retry_after`) and Telegram (`parameters.retry_after`) say it in the body, in seconds.
pub(crate) fn wait_in(body: &Value) -> Option<Duration> {
    let seconds = body["retry_after"].as_f64().or_else(|| body["parameters"]["retry_after"].as_f64())?;
    Duration::try_from_secs_f64(seconds).ok().map(|wait| wait.min(LONGEST_RETRY_AFTER))
}

/// What the owner set, or the platform's own address.
pub(crate) fn base_url(set: Option<&Url>, usual: &str) -> Result<Url, SendError> {
    match set {
        Some(url) => Ok(url.clone()),
        None => Url::parse(usual).map_err(|_| SendError::Refused(format!("{usual} is no address"))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn no_wait_is_longer_than_the_longest() {
        assert_eq!(wait_in(&json!({"retry_after": 1.5})), Some(Duration::from_millis(1500)));
        assert_eq!(wait_in(&json!({"parameters": {"retry_after": 7}})), Some(Duration::from_secs(7)));
        assert_eq!(wait_in(&json!({"retry_after": 1e18})), Some(LONGEST_RETRY_AFTER));
        for none in
            [json!({"retry_after": -1}), json!({"retry_after": 1e300}), json!({"retry_after": "7"}), json!(null)]
        {
            assert_eq!(wait_in(&none), None, "{none}");
        }
    }
}
