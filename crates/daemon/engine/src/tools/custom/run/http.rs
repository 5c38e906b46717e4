//! Runs an HTTP tool: the owner's request with a model's input in its placeholders.

use std::time::Duration;

use agentd_base::{Redactor, Secret, trace};
use agentd_core::vault::redact_url_secrets;
use agentd_net::{FetchLimits, FetchRequest, GuardedClient, NetError};
use agentd_page_text::read_body;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Value, json};
use url::Url;

use super::super::model::{HttpToolRequest, is_json_type};
use super::super::template::Template;
use crate::tools::tool::{ToolError, ToolOutput};

const MAX_BODY_BYTES: usize = 1 << 20;
const MAX_URL_BYTES: usize = 16 * 1024;
const MAX_REDIRECTS: usize = 5;

/// The request before the model's input is filled in.
#[derive(Clone, Copy)]
pub(super) struct PreparedRequest<'a> {
    pub(super) request: &'a HttpToolRequest,
    /// URL with its credentials.
    pub(super) url: &'a str,
    pub(super) secrets: &'a [(String, Secret)],
}

/// Sends the request and returns the response. Secrets are redacted because the server may echo them.
pub(super) async fn run(
    client: &GuardedClient,
    request_data: PreparedRequest<'_>,
    input: &Map<String, Value>,
    timeout: Duration,
) -> Result<ToolOutput, ToolError> {
    let mut redactor = Redactor::from_secrets(request_data.secrets.iter().map(|(_, secret)| secret));
    redact_url_secrets(&mut redactor, request_data.url);
    let answer = send(client, request_data, input, timeout).await;
    let mut answer = answer.map_err(|error| match error {
        ToolError::Failed(message) => ToolError::Failed(redactor.redact(message)),
        ToolError::Invalid(message) => ToolError::Invalid(redactor.redact(message)),
        other => other,
    })?;
    redactor.redact_json(&mut answer);
    Ok(ToolOutput::json(answer))
}

async fn send(
    client: &GuardedClient,
    request_data: PreparedRequest<'_>,
    input: &Map<String, Value>,
    timeout: Duration,
) -> Result<Value, ToolError> {
    let request = request_data.request;
    let mut fetch = fill(request_data, input)?;
    // A redirect must not extend the owner's permissions to another server.
    let redirects = if request.has_model_controlled_host() { MAX_REDIRECTS } else { 0 };
    if let Some(trace) = trace::current().filter(|_| !request.has_model_controlled_host())
        && let Ok(traceparent) = HeaderValue::from_str(&trace.to_header())
    {
        fetch.headers.entry(HeaderName::from_static("traceparent")).or_insert(traceparent);
    }
    let limits = FetchLimits { redirects, body_bytes: MAX_BODY_BYTES, total_timeout: timeout, idle_timeout: timeout };
    let fetched = client.fetch(fetch, limits).await.map_err(|error| match error {
        NetError::TooManyRedirects { limit: 0, host } => ToolError::Failed(format!(
            "{host} returned a redirect, which is not followed; use the final URL in the tool"
        )),
        NetError::Timeout { .. } => ToolError::TimedOut(timeout),
        error => ToolError::Failed(error.to_string()),
    })?;
    let content_type = fetched.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let body = body(&fetched.body, content_type, &fetched.url, fetched.is_truncated);
    Ok(json!({"status": fetched.status.as_u16(), "content_type": content_type, "body": body}))
}

/// Converts a body: JSON to JSON, web pages to readable text, other text as is.
fn body(body: &[u8], content_type: &str, url: &Url, is_truncated: bool) -> Value {
    if body.is_empty() {
        return Value::Null;
    }
    if is_json_type(&content_type.to_ascii_lowercase())
        && let Ok(value) = serde_json::from_slice(body)
    {
        return value;
    }
    match read_body(body, (!content_type.is_empty()).then_some(content_type), url) {
        Ok(page) if is_truncated || page.is_truncated => Value::from(format!("{}\n[cut off]", page.text)),
        Ok(page) => Value::from(page.text),
        Err(error) => Value::from(format!("[{} bytes: {error}]", body.len())),
    }
}

fn fill(request_data: PreparedRequest<'_>, input: &Map<String, Value>) -> Result<FetchRequest, ToolError> {
    let PreparedRequest { request, url, secrets } = request_data;
    let template = |text: &str| Template::parse(text).map_err(ToolError::Failed);
    let invalid = |message: String| ToolError::Invalid(message);
    let url = template(url)?.url_encoded(input);
    if url.len() > MAX_URL_BYTES {
        return Err(invalid("the URL is too long with this input".to_owned()));
    }
    reject_dot_segments(&url)?;
    let url = Url::parse(&url).map_err(|error| invalid(format!("the URL is not valid with this input: {error}")))?;
    let mut headers = HeaderMap::new();
    let name = |name: &str| {
        HeaderName::try_from(name).map_err(|_| ToolError::Failed(format!("`{name}` is not a valid header name")))
    };
    for (header, value) in &request.headers {
        let value = HeaderValue::from_str(&template(value)?.plain(input))
            .map_err(|_| invalid(format!("the header {header} is not valid with this input")))?;
        headers.insert(name(header)?, value);
    }
    let body = match &request.body {
        None => Bytes::new(),
        Some(body) => {
            let (body, content_type) = fill_body(request, &template(body)?, input);
            headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static(content_type));
            body.into()
        }
    };
    for (header, secret) in secrets {
        let mut value = HeaderValue::from_str(secret.expose())
            .map_err(|_| ToolError::Failed(format!("the secret header {header} is not valid; enter it again")))?;
        value.set_sensitive(true);
        headers.insert(name(header)?, value);
    }
    Ok(FetchRequest { method: request.method.to_http(), url, headers, body })
}

/// Rejects values that would change the path: `..` is a parent segment, also percent-encoded.
fn reject_dot_segments(url: &str) -> Result<(), ToolError> {
    let path = url.split(['?', '#']).next().unwrap_or_default();
    for part in path.split(['/', '\\']) {
        let part = part.to_ascii_lowercase().replace("%2e", ".");
        if part == "." || part == ".." {
            return Err(ToolError::Invalid("a value in the URL's path must not be `.` or `..`".to_owned()));
        }
    }
    Ok(())
}

/// Fills the body; returns its default content type.
fn fill_body(request: &HttpToolRequest, template: &Template, input: &Map<String, Value>) -> (String, &'static str) {
    match request.content_type() {
        Some(stated) if is_json_type(&stated) => (template.json(input), "application/json"),
        Some(stated) if stated.starts_with("application/x-www-form-urlencoded") => {
            (template.url_encoded(input), "application/x-www-form-urlencoded")
        }
        Some(_) => (template.plain(input), "text/plain; charset=utf-8"),
        None if serde_json::from_str::<Value>(&template.json(&Map::new())).is_ok() => {
            (template.json(input), "application/json")
        }
        None => (template.plain(input), "text/plain; charset=utf-8"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::tools::custom::HttpMethod;

    fn request(url: &str, body: Option<&str>) -> HttpToolRequest {
        HttpToolRequest {
            method: HttpMethod::Post,
            url: url.to_owned(),
            headers: BTreeMap::from([("X-Trace".to_owned(), "{{input.id}}".to_owned())]),
            secret_headers: BTreeSet::new(),
            body: body.map(str::to_owned),
        }
    }

    fn filled(url: &str, body: Option<&str>, input: &Value) -> Result<FetchRequest, ToolError> {
        let secrets = [("authorization".to_owned(), Secret::new("Bearer s".to_owned()))];
        let request = request(url, body);
        fill(PreparedRequest { request: &request, url, secrets: &secrets }, input.as_object().unwrap())
    }

    #[test]
    fn placeholders_are_filled() {
        let filled = filled(
            "https://api.example/items/{{input.id}}?q={{input.q}}",
            Some(r#"{"q": "{{input.q}}"}"#),
            &json!({"id": "a b", "q": "x\"&y"}),
        )
        .unwrap();
        assert_eq!(filled.url.as_str(), "https://api.example/items/a%20b?q=x%22%26y");
        assert_eq!(filled.body, r#"{"q": "x\"&y"}"#);
        assert_eq!(filled.headers["content-type"], "application/json");
        assert_eq!(filled.headers["x-trace"], "a b");
        assert!(filled.headers["authorization"].is_sensitive());
    }

    #[test]
    fn values_cannot_change_host_or_path() {
        for value in ["..", ".", "%2e%2e", "../x", "..\\x"] {
            let input = json!({"id": value});
            match filled("https://api.example/items/{{input.id}}/x", None, &input) {
                Err(ToolError::Invalid(_)) => assert!(matches!(value, ".." | ".")),
                Err(error) => panic!("{error}"),
                Ok(filled) => {
                    assert_eq!(filled.url.host_str(), Some("api.example"));
                    assert_eq!(filled.url.path_segments().unwrap().count(), 3, "{value}: {}", filled.url);
                    assert!(filled.url.path().starts_with("/items/"), "{value}: {}", filled.url);
                }
            }
        }
        for value in ["a\r\nx: y", "a\nb"] {
            let input = json!({"id": value});
            assert!(matches!(filled("https://api.example/", None, &input), Err(ToolError::Invalid(_))), "{value:?}");
        }
        for host in ["evil.example/x", "evil.example#", "a@evil.example", "evil.example:80", "evil.example\\x", ""] {
            let input = json!({"id": "1", "host": host});
            let refused = filled("https://{{input.host}}.api.example/", None, &input);
            if let Ok(filled) = refused {
                assert!(filled.url.host_str().unwrap().ends_with(".api.example"), "{host}: {}", filled.url);
            }
        }
    }

    #[test]
    fn host_with_placeholders_is_model_controlled() {
        for steered in [
            "https://{{input.h}}/x",
            "https://api.{{input.h}}",
            "http://a.example:{{input.p}}/",
            "https://{{input.h}}?x",
            "https://a{{input.h}}\\x",
        ] {
            assert!(request(steered, None).has_model_controlled_host(), "{steered}");
        }
        for own in ["https://a.example/{{input.h}}", "https://a.example?{{input.h}}=1", "https://a.example#{{input.h}}"]
        {
            assert!(!request(own, None).has_model_controlled_host(), "{own}");
        }
    }
}
