//! Model calls to a vendor over HTTP.

use std::time::Duration;

use agentd_base::Secret;
use agentd_net::{GuardedClient, GuardedRequest, NetError};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderName, HeaderValue, Method, StatusCode};
use serde_json::Value;
use tokio::time::{Instant, timeout_at};
use url::Url;

use crate::answer::{self, ErrorContext};
use crate::body::{BodyError, TimedBody};
use crate::vendor_error::VendorError;
use crate::{
    ConnectivityReport, ModelBackend, ModelError, ModelErrorCode, ModelRequest, ModelStream, Vendor,
    separate_think_tags, wire,
};

/// Maximum time without a byte from the server during a response.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
const TEST_TIMEOUT: Duration = Duration::from_secs(15);
const MAX_ERROR_BYTES: usize = 64 * 1024;
const MAX_MODELS_BYTES: usize = 8 * 1024 * 1024;

/// Version of the Anthropic API that the requests and decoders implement.
const ANTHROPIC_VERSION: HeaderValue = HeaderValue::from_static("2023-06-01");

/// Backend for one vendor, or for a server that is compatible with it at another base URL. Cheap to clone.
#[derive(Debug, Clone)]
pub struct VendorBackend {
    vendor: Vendor,
    client: GuardedClient,
    base_url: Option<Url>,
    key: Option<Secret>,
}

impl VendorBackend {
    /// Creates a backend. `base_url` has the form that the vendor's own SDK accepts (see [`Vendor::default_base_url`]);
    /// it may already contain the version path. Without a `key` no credential is sent: Ollama or vLLM behind `openai`
    /// need none.
    #[must_use]
    pub fn new(vendor: Vendor, client: GuardedClient, base_url: Option<Url>, key: Option<Secret>) -> Self {
        Self { vendor, client, base_url, key: key.filter(|key| !key.is_empty()) }
    }

    #[must_use]
    pub fn vendor(&self) -> Vendor {
        self.vendor
    }

    /// Verifies address and key by listing the vendor's models. OpenRouter lists models without authentication, so its
    /// key is verified first. Each request takes at most 15 seconds.
    ///
    /// # Errors
    /// Returns the same errors as a model call.
    pub async fn test(&self) -> Result<ConnectivityReport, ModelError> {
        let started = Instant::now();
        if self.vendor == Vendor::Openrouter && self.key.is_some() {
            match self.get(&["key"], None).await {
                // A proxy compatible with OpenRouter may not implement the key endpoint.
                Ok(_) => {}
                Err(error) if error.code == ModelErrorCode::Internal => {}
                Err(error) => return Err(error),
            }
        }
        let query = match self.vendor {
            Vendor::Anthropic => Some(("limit", "1000")),
            Vendor::Google => Some(("pageSize", "1000")),
            _ => None,
        };
        let body = self.get(&["models"], query).await?;
        let latency_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let Some(models) = serde_json::from_slice(&body).ok().and_then(|list| model_names(&list)) else {
            let vendor_error = VendorError::broken_format("the response is not a list of models; check base_url");
            return Err(self.error_context().classify(vendor_error));
        };
        Ok(ConnectivityReport { latency_ms, models })
    }

    async fn call(&self, request: ModelRequest) -> Result<ModelStream, ModelError> {
        let deadline = Instant::now() + request.timeout;
        let idle = request.timeout.min(IDLE_TIMEOUT);
        let call = wire::call(self.vendor, self.is_official_endpoint(), &request);
        drop(request);
        let body = call.body.map_err(|error| {
            ModelError::new(ModelErrorCode::Internal, "failed to serialize the request").with_source(error)
        })?;
        let path: Vec<&str> = call.path.iter().map(String::as_str).collect();
        let request = self
            .request(Method::POST, self.endpoint(&path, call.query)?)?
            .header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
            .header(ACCEPT, HeaderValue::from_static("text/event-stream"))
            .body(body);
        let response = self.send(request, deadline).await?;
        // Some gateways report a failure as a plain document with status 200.
        let is_document = response
            .headers()
            .get(CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .is_some_and(|text| text.starts_with("application/json") || text.starts_with("text/html"));
        let body = TimedBody::new(response, idle, deadline);
        if is_document {
            let bytes = read_whole(body, MAX_ERROR_BYTES).await;
            let parse_error_event = serde_json::from_slice::<Value>(&bytes.unwrap_or_default()).ok();
            let vendor_error =
                parse_error_event.and_then(|value| VendorError::from_value(&value)).unwrap_or_else(|| {
                    VendorError::broken_format("the response is a document instead of a stream; check base_url")
                });
            return Err(self.error_context().classify(vendor_error));
        }
        let events = answer::stream(body, call.decoder, self.error_context());
        Ok(if call.may_have_think_tags { separate_think_tags(events) } else { events })
    }

    async fn get(&self, path: &[&str], query: Option<(&str, &str)>) -> Result<Bytes, ModelError> {
        let deadline = Instant::now() + TEST_TIMEOUT;
        let request = self.request(Method::GET, self.endpoint(path, query)?)?;
        let response = self.send(request, deadline).await?;
        let body = TimedBody::new(response, TEST_TIMEOUT, deadline);
        read_whole(body, MAX_MODELS_BYTES).await.map_err(|error| match error {
            BodyError::TimedOut => self.error_context().timed_out(),
            other => self.error_context().classify(VendorError::broken_format(other.to_string())),
        })
    }

    /// Sends the request; any status other than 2xx becomes an error.
    async fn send(&self, request: GuardedRequest, deadline: Instant) -> Result<reqwest::Response, ModelError> {
        let sent = timeout_at(deadline, request.send()).await.map_err(|_| self.error_context().timed_out())?;
        let response = sent.map_err(|error| unreachable(self.vendor, error))?;
        let status = response.status();
        if status.is_success() && status != StatusCode::NO_CONTENT {
            return Ok(response);
        }
        let in_header = agentd_net::retry_after(response.headers(), None);
        let body = TimedBody::new(response, IDLE_TIMEOUT, deadline);
        let bytes = read_whole(body, MAX_ERROR_BYTES).await.unwrap_or_default();
        let vendor_error = VendorError::from_body(status.as_u16(), &bytes);
        let retry_after = in_header.or(vendor_error.retry_after);
        Err(self.error_context().classify(vendor_error).with_retry_after(retry_after))
    }

    fn request(&self, method: Method, url: Url) -> Result<GuardedRequest, ModelError> {
        let mut request = self.client.request(method, url).map_err(|error| unreachable(self.vendor, error))?;
        if self.vendor == Vendor::Anthropic {
            request = request.header(HeaderName::from_static("anthropic-version"), ANTHROPIC_VERSION);
        }
        let Some(key) = &self.key else { return Ok(request) };
        let (name, text) = match self.vendor {
            Vendor::Anthropic => (HeaderName::from_static("x-api-key"), key.expose().to_owned()),
            Vendor::Google => (HeaderName::from_static("x-goog-api-key"), key.expose().to_owned()),
            _ => (AUTHORIZATION, format!("Bearer {}", key.expose())),
        };
        let mut value = HeaderValue::try_from(text).map_err(|_| {
            let message = format!("the API key of {} contains invalid characters; enter it again", self.vendor);
            ModelError::new(ModelErrorCode::Auth, message)
        })?;
        value.set_sensitive(true);
        Ok(request.header(name, value))
    }

    fn endpoint(&self, path: &[&str], query: Option<(&str, &str)>) -> Result<Url, ModelError> {
        let invalid_base_url =
            || ModelError::new(ModelErrorCode::Internal, format!("the base_url of {} is not a valid URL", self.vendor));
        let mut url = match &self.base_url {
            Some(url) => url.clone(),
            None => Url::parse(self.vendor.default_base_url()).map_err(|_| invalid_base_url())?,
        };
        url.set_fragment(None);
        let segments: Vec<&str> =
            url.path_segments().ok_or_else(invalid_base_url)?.filter(|part| !part.is_empty()).collect();
        let version = self.vendor.version_path();
        // An address that ends with the version was copied from the vendor's documentation and already contains the
        // prefix.
        let added = if segments.last() == version.last() { &[] } else { version };
        url.path_segments_mut().map_err(|()| invalid_base_url())?.pop_if_empty().extend(added).extend(path);
        if let Some((name, value)) = query {
            url.query_pairs_mut().append_pair(name, value);
        }
        Ok(url)
    }

    /// Whether requests go to the vendor itself rather than to a compatible server.
    fn is_official_endpoint(&self) -> bool {
        let host = |url: &Url| url.host_str().map(str::to_owned);
        let own = Url::parse(self.vendor.default_base_url()).ok();
        self.base_url.as_ref().is_none_or(|url| host(url) == own.as_ref().and_then(host))
    }

    fn error_context(&self) -> ErrorContext {
        ErrorContext { vendor: self.vendor, key: self.key.clone() }
    }
}

impl ModelBackend for VendorBackend {
    fn generate(&self, request: ModelRequest) -> BoxFuture<'_, Result<ModelStream, ModelError>> {
        self.call(request).boxed()
    }
}

fn unreachable(vendor: Vendor, error: NetError) -> ModelError {
    let code = match &error {
        NetError::Timeout { .. } => ModelErrorCode::Timeout,
        NetError::Request { .. } => ModelErrorCode::Internal,
        _ => ModelErrorCode::ProviderUnavailable,
    };
    let message = match &error {
        refusal if refusal.is_refusal() => refusal.to_string(),
        other => format!("{vendor} cannot be reached: {other}"),
    };
    ModelError::new(code, message).with_source(error)
}

async fn read_whole(mut body: TimedBody, limit: usize) -> Result<Bytes, BodyError> {
    let mut whole = Vec::new();
    while let Some(chunk) = body.next().await {
        let chunk = chunk?;
        if whole.len() + chunk.len() > limit {
            return Err(BodyError::TooLarge);
        }
        whole.extend_from_slice(&chunk);
    }
    Ok(whole.into())
}

/// Extracts `data[].id`, or Google's `models[].name` of the models that generate text.
fn model_names(list: &Value) -> Option<Vec<String>> {
    let generates = |model: &&Value| {
        let methods = model.get("supportedGenerationMethods").and_then(Value::as_array);
        methods.is_none_or(|methods| methods.iter().any(|method| method == "generateContent"))
    };
    let models = list.get("data").or_else(|| list.get("models"))?.as_array()?;
    let names = models.iter().filter(generates).filter_map(|model| {
        let name = model.get("id").or_else(|| model.get("name"))?.as_str()?;
        Some(name.strip_prefix("models/").unwrap_or(name).to_owned())
    });
    Some(names.take(ConnectivityReport::MAX_MODELS).collect())
}
