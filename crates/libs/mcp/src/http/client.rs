//! HTTP client of the protocol library, implemented with the guarded client.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use agentd_net::{GuardedClient, GuardedRequest, NetError};
use futures_util::stream::BoxStream;
use http::{HeaderName, HeaderValue, Method, StatusCode, header};
use parking_lot::Mutex;
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorData, RequestId, RequestParamsMeta as _, ServerJsonRpcMessage,
};
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream_for_rmcp::Sse;
use tokio::time::Instant;
use url::Url;

use super::OwnerHeaders;
use super::answer::{Answer, HttpFault};
use crate::CloseReason;
use crate::message::{Parsed, numeric_id, parse};
use crate::session::Session;

const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const JSON: &str = "application/json";
const EVENT_STREAM: &str = "text/event-stream";
const JSON_OR_EVENT_STREAM: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");

const MAX_ERROR_BODY: usize = 64 * 1024;
const MAX_SESSION_ID: usize = 1_024;
/// Minimum time between two openings of an event stream, whatever the server requests.
const STREAM_RECONNECT_INTERVAL: Duration = Duration::from_secs(1);
/// Number of consecutive connection failures after which the server counts as unreachable.
const MAX_FAILURES: u32 = 3;

type Failure = StreamableHttpError<HttpFault>;

/// Client of one session. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct GuardedHttp(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    client: GuardedClient,
    url: Url,
    headers: OwnerHeaders,
    session: Session,
    max_message_bytes: usize,
    next_stream: Mutex<Option<Instant>>,
    failures: AtomicU32,
}

impl GuardedHttp {
    pub(crate) fn new(
        client: GuardedClient,
        url: Url,
        headers: OwnerHeaders,
        session: Session,
        max_message_bytes: usize,
    ) -> Self {
        Self(Arc::new(Shared {
            client,
            url,
            headers,
            session,
            max_message_bytes,
            next_stream: Mutex::default(),
            failures: AtomicU32::new(0),
        }))
    }

    /// Builds a request to the registered address, the only one that is used.
    fn request(
        &self,
        method: Method,
        session_id: Option<&str>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<GuardedRequest, Failure> {
        let mut request =
            self.0.client.request(method, self.0.url.clone()).map_err(|error| fail(HttpFault::Net(error)))?;
        for (name, value) in headers {
            request = request.header(name, value);
        }
        if let Some(value) = session_id.and_then(|id| HeaderValue::try_from(id).ok()) {
            request = request.header(SESSION_ID, value);
        }
        Ok(self.0.headers.apply(request.header(header::ACCEPT, JSON_OR_EVENT_STREAM)))
    }

    async fn send(&self, request: GuardedRequest) -> Result<Answer, Failure> {
        let response = match request.send().await {
            Ok(response) => response,
            Err(error) => {
                let failures = self.0.failures.fetch_add(1, Ordering::Relaxed) + 1;
                if failures >= MAX_FAILURES || is_refused(&error) {
                    self.0.session.close(CloseReason::Unreachable);
                }
                return Err(fail(HttpFault::Net(error)));
            }
        };
        self.0.failures.store(0, Ordering::Relaxed);
        Ok(Answer {
            response,
            host: self.0.url.host_str().unwrap_or_default().to_owned(),
            session: self.0.session.clone(),
            max_message_bytes: self.0.max_message_bytes,
        })
    }

    async fn post(
        &self,
        message: &ClientJsonRpcMessage,
        session_id: Option<&str>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let body = serde_json::to_vec(message)?;
        if body.len() > self.0.max_message_bytes {
            return Err(fail(HttpFault::RequestTooLarge));
        }
        let mut request = self.request(Method::POST, session_id, headers)?;
        if let Some(traceparent) = traceparent_of(message) {
            request = request.header(TRACEPARENT, traceparent);
        }
        let request = request.header(header::CONTENT_TYPE, HeaderValue::from_static(JSON)).body(body);
        let answer = self.send(request).await?;
        let status = answer.response.status();
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if status == StatusCode::NOT_FOUND && session_id.is_some() {
            return Err(StreamableHttpError::SessionExpired);
        }
        let request_id = match message {
            ClientJsonRpcMessage::Request(request) => Some(&request.id),
            _ => None,
        };
        if !status.is_success() {
            return convert_error_response(answer, status, message, session_id.is_some()).await;
        }
        let new_session_id = session_id_of(&answer);
        match content_type(&answer) {
            // A response to a notification is ignored.
            _ if request_id.is_none() => Ok(StreamableHttpPostResponse::Accepted),
            Some(ContentType::Json) => {
                let message = answer.message().await.map_err(fail)?;
                let answers_this = match &message {
                    ServerJsonRpcMessage::Response(response) => {
                        numeric_id(&response.id) == request_id.and_then(numeric_id)
                    }
                    ServerJsonRpcMessage::Error(error) => {
                        error.id.as_ref().is_none_or(|id| numeric_id(id) == request_id.and_then(numeric_id))
                    }
                    ServerJsonRpcMessage::Request(_) | ServerJsonRpcMessage::Notification(_) => false,
                };
                if !answers_this {
                    return Err(fail(HttpFault::Malformed));
                }
                Ok(StreamableHttpPostResponse::Json(message, new_session_id))
            }
            Some(ContentType::EventStream) => {
                Ok(StreamableHttpPostResponse::Sse(answer.events(request_id.and_then(numeric_id)), new_session_id))
            }
            None => Err(fail(HttpFault::ContentType)),
        }
    }

    /// Waits until another event stream may be opened.
    async fn pause(&self) {
        let at = {
            let now = Instant::now();
            let mut next = self.0.next_stream.lock();
            let at = next.map_or(now, |next| next.max(now));
            *next = Some(at + STREAM_RECONNECT_INTERVAL);
            at
        };
        tokio::time::sleep_until(at).await;
    }
}

/// Returns the trace context of a tool call.
fn traceparent_of(message: &ClientJsonRpcMessage) -> Option<HeaderValue> {
    let ClientJsonRpcMessage::Request(request) = message else { return None };
    let ClientRequest::CallToolRequest(call) = &request.request else { return None };
    HeaderValue::from_str(call.params.traceparent()?).ok()
}

fn fail(fault: HttpFault) -> Failure {
    StreamableHttpError::Client(fault)
}

enum ContentType {
    Json,
    EventStream,
}

fn content_type(answer: &Answer) -> Option<ContentType> {
    let value = answer.response.headers().get(header::CONTENT_TYPE)?.to_str().ok()?;
    let essence = value.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case(JSON) {
        Some(ContentType::Json)
    } else if essence.eq_ignore_ascii_case(EVENT_STREAM) {
        Some(ContentType::EventStream)
    } else {
        None
    }
}

fn session_id_of(answer: &Answer) -> Option<String> {
    let value = answer.response.headers().get(SESSION_ID)?.to_str().ok()?;
    (value.len() <= MAX_SESSION_ID).then(|| value.to_owned())
}

/// Whether the connection was refused, which means that the program has ended, unlike a slow network.
fn is_refused(error: &NetError) -> bool {
    let NetError::Connect { source, .. } = error else { return false };
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&**source);
    while let Some(inner) = cause {
        if let Some(error) = inner.downcast_ref::<std::io::Error>() {
            return error.kind() == std::io::ErrorKind::ConnectionRefused;
        }
        cause = inner.source();
    }
    false
}

/// Whether the error reports an unknown session. Some servers send one instead of status 404.
fn is_session_lost(error: &ErrorData, names_session: bool) -> bool {
    let is_server_error_code = matches!(error.code.0, -32_000 | -32_001);
    (is_server_error_code && !names_session) || error.message.to_ascii_lowercase().contains("session")
}

/// Converts an unsuccessful response: to its JSON-RPC error if it contains one, else to its status.
async fn convert_error_response(
    answer: Answer,
    status: StatusCode,
    message: &ClientJsonRpcMessage,
    has_session: bool,
) -> Result<StreamableHttpPostResponse, Failure> {
    let fault = || fail(HttpFault::Status(status.as_u16()));
    let ClientJsonRpcMessage::Request(request) = message else { return Err(fault()) };
    // Authentication comes first: the status must not be reported as a protocol error.
    let may_contain_error = (status.is_client_error() || status.is_server_error())
        && !matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS);
    if !may_contain_error {
        return Err(fault());
    }
    let names_session = answer.response.headers().contains_key(SESSION_ID);
    let body = answer.body(MAX_ERROR_BODY).await.unwrap_or_default();
    let error = match parse(&body) {
        Parsed::Messages(messages) => messages.into_iter().find_map(|message| match message {
            ServerJsonRpcMessage::Error(error) => Some(error.error),
            _ => None,
        }),
        _ => None,
    };
    if has_session
        && status == StatusCode::BAD_REQUEST
        && error.as_ref().is_some_and(|error| is_session_lost(error, names_session))
    {
        // The request was not processed, so it may be repeated in a new session.
        return Err(StreamableHttpError::SessionExpired);
    }
    let is_probe = matches!(request.request, ClientRequest::DiscoverRequest(_));
    let error = match error {
        Some(error) => error,
        // A server of the older protocol rejects anything but `initialize`, each in its own way.
        None if is_probe && status.is_client_error() => {
            ErrorData::invalid_request(format!("HTTP {}", status.as_u16()), None)
        }
        None => return Err(fault()),
    };
    // A server that could not read the request could not read its id.
    let id: RequestId = request.id.clone();
    Ok(StreamableHttpPostResponse::Json(ServerJsonRpcMessage::error(error, Some(id)), None))
}

impl StreamableHttpClient for GuardedHttp {
    type Error = HttpFault;

    async fn post_message(
        &self,
        _uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        self.post(&message, session_id.as_deref(), custom_headers).await
    }

    async fn delete_session(
        &self,
        _uri: Arc<str>,
        session_id: Arc<str>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Failure> {
        // The session ends regardless of the result, and the library would log its id.
        let request = self.request(Method::DELETE, Some(&session_id), custom_headers)?;
        let _ = self.send(request).await;
        Ok(())
    }

    async fn get_stream(
        &self,
        _uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failure> {
        self.pause().await;
        let mut request = self.request(Method::GET, session_id.as_deref(), custom_headers)?;
        if let Some(value) = last_event_id.and_then(|id| HeaderValue::try_from(id).ok()) {
            request = request.header(LAST_EVENT_ID, value);
        }
        let answer = self.send(request).await?;
        match (answer.response.status(), content_type(&answer)) {
            (status, Some(ContentType::EventStream)) if status.is_success() => Ok(answer.events(None)),
            // The library interprets this error as: do not retry.
            (status, _) if status.is_success() || status.is_client_error() => {
                Err(StreamableHttpError::ServerDoesNotSupportSse)
            }
            (status, _) => Err(fail(HttpFault::Status(status.as_u16()))),
        }
    }
}
