//! The tool `http_fetch`: returns the readable text of a web page.

use std::sync::Arc;
use std::time::Duration;

use agentd_net::{FetchLimits, FetchRequest, GuardedClient, PolicyHandle, Trust};
use agentd_page_text::read_body;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::HeaderValue;
use http::header::{ACCEPT, CONTENT_TYPE};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use url::Url;

use super::input::{describe, parse};
use crate::agents::Agent;
use crate::tools::tool::{Author, Consequence, Effect, Tool, ToolCallContext, ToolDescription, ToolError, ToolOutput};
use crate::workspaces::UntrustedSource;

const LIMITS: FetchLimits = FetchLimits {
    redirects: 5,
    body_bytes: 4 << 20,
    total_timeout: Duration::from_secs(30),
    idle_timeout: Duration::from_secs(10),
};
const CALL_LIMIT: Duration = Duration::from_secs(45);
const DEFAULT_CHARACTERS: usize = 20_000;
const MAX_CHARACTERS: usize = 200_000;
const MAX_URL_BYTES: usize = 8_192;
/// Maximum length of an error page that is quoted.
const MAX_ERROR_CHARACTERS: usize = 500;

pub(super) fn http_fetch(policy: PolicyHandle) -> Arc<dyn Tool> {
    let schema = json!({
        "type": "object",
        "properties": {
            "url": {"type": "string", "minLength": 1, "maxLength": MAX_URL_BYTES, "description": "http or https"},
            "max_characters": {"type": "integer", "minimum": 100, "maximum": MAX_CHARACTERS,
                "description": "How much text at most; left out: 20000"},
        },
        "required": ["url"],
        "additionalProperties": false,
    });
    let text = "Fetches a web page and answers its title and readable text.";
    let description = describe("http_fetch", text, schema, Effect::Acts, CALL_LIMIT);
    Arc::new(HttpFetch { description, client: GuardedClient::new(policy, Trust::Untrusted) })
}

#[derive(Debug)]
struct HttpFetch {
    description: ToolDescription,
    client: GuardedClient,
}

#[derive(Deserialize)]
struct Input {
    url: String,
    max_characters: Option<usize>,
}

impl HttpFetch {
    async fn fetch(&self, input: Input, source: &UntrustedSource) -> Result<ToolOutput, ToolError> {
        let url =
            Url::parse(&input.url).map_err(|error| ToolError::Invalid(format!("the URL is not valid: {error}")))?;
        let requested_url = display_url(&url);
        let mut request = FetchRequest::get(url);
        request
            .headers
            .insert(ACCEPT, HeaderValue::from_static("text/html, text/*;q=0.9, application/json;q=0.9, */*;q=0.5"));
        let fetched = self.client.fetch(request, LIMITS).await;
        source.record(fetched.as_ref().map_or(requested_url, |fetched| display_url(&fetched.url)));
        let fetched = fetched.map_err(|error| ToolError::Failed(error.to_string()))?;
        let content_type = fetched.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let (status, url) = (fetched.status, fetched.url);
        // Parsing a large page is slow.
        let (body, base, stated) = (fetched.body, url.clone(), content_type.clone());
        let page = tokio::task::spawn_blocking(move || read_body(&body, stated.as_deref(), &base)).await;
        let page = page.map_err(|_| ToolError::Failed("the page could not be read".to_owned()))?;
        if !status.is_success() {
            let body =
                page.map(|page| page.text.chars().take(MAX_ERROR_CHARACTERS).collect::<String>()).unwrap_or_default();
            let body = if body.trim().is_empty() { String::new() } else { format!("; it said: {body}") };
            return Err(ToolError::Failed(format!("the server answered {status}{body}")));
        }
        let page = page.map_err(|error| ToolError::Failed(error.to_string()))?;
        let wanted = input.max_characters.unwrap_or(DEFAULT_CHARACTERS);
        let (mut text, more) = truncate(page.text, wanted);
        if more > 0 {
            text.push_str(&format!("\n[{more} more characters; ask again with a larger max_characters]"));
        } else if page.is_truncated || fetched.is_truncated {
            text.push_str("\n[the page is longer than what is read of one]");
        }
        Ok(ToolOutput::json(json!({
            "url": url.as_str(),
            "title": page.title,
            "text": text,
            "content_type": content_type.unwrap_or_default(),
        })))
    }
}

/// Returns the URL for display: without credentials, query and fragment.
fn display_url(url: &Url) -> String {
    format!("{}{}", url.origin().ascii_serialization(), url.path())
}

/// Truncates a text; returns the number of removed characters as well.
fn truncate(mut text: String, characters: usize) -> (String, usize) {
    let Some((end, _)) = text.char_indices().nth(characters) else { return (text, 0) };
    let more = text[end..].chars().count();
    text.truncate(end);
    (text, more)
}

impl Tool for HttpFetch {
    fn description(&self) -> &ToolDescription {
        &self.description
    }

    fn description_author(&self) -> Author {
        Author::Trusted
    }

    fn output_author(&self) -> Author {
        Author::Other("a web page".to_owned())
    }

    fn consequence<'a>(&'a self, input: &'a Map<String, Value>, _agent: &'a Agent) -> BoxFuture<'a, Consequence> {
        // An invalid URL is rejected by the call itself.
        let url = input.get("url").and_then(Value::as_str).and_then(|url| Url::parse(url).ok());
        std::future::ready(url.map_or(Consequence::Contained, Consequence::Requests)).boxed()
    }

    fn call(
        &self,
        input: Map<String, Value>,
        context: ToolCallContext,
    ) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
        async move { self.fetch(parse(input)?, &context.untrusted).await }.boxed()
    }
}
