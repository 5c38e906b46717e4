//! Common server of the fakes: records requests on loopback, validates them against the vendor's API description,
//! injects faults, and delegates the rest to a [`Vendor`].

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use bytes::Bytes;
use futures_util::future::{BoxFuture, ready};
use futures_util::{FutureExt, stream};
use http::header::{AUTHORIZATION, CONTENT_TYPE, LOCATION, RETRY_AFTER};
use http::{HeaderMap, Method, Uri};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::AbortHandle;
use url::Url;

use crate::api_description::ApiDescription;

/// Response that overrides the regular one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behaviour {
    /// Rate limit with the requested delay; in whole seconds on platforms that use a header.
    RateLimited(Duration),
    /// Internal error of the platform.
    ServerError,
    /// No response.
    Hang,
    /// The user blocked the bot.
    Blocked,
    /// The chat no longer exists.
    Gone,
    /// The messaging window is closed; like [`Self::Blocked`] on platforms without one.
    WindowClosed,
    /// The token is rejected.
    CredentialsRefused,
}

/// File served by a fake, or the fault that replaces it.
#[derive(Debug, Clone)]
pub enum FakeFile {
    Bytes(Bytes),
    /// This number of bytes without a `Content-Length`.
    Unannounced(usize),
    /// Redirect to another URL.
    Redirect(Url),
    /// An HTML page instead of the file.
    Page,
    /// Only response headers, then no more data.
    Hang,
}

/// Files of a fake by ID.
#[derive(Debug, Clone, Default)]
pub(crate) struct FakeFiles(Arc<Mutex<BTreeMap<String, FakeFile>>>);

impl FakeFiles {
    pub(crate) fn put(&self, id: &str, file: FakeFile) {
        self.0.lock().insert(id.to_owned(), file);
    }

    pub(crate) fn get(&self, id: &str) -> Option<FakeFile> {
        self.0.lock().get(id).cloned()
    }
}

/// Request received by a fake.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedRequest {
    pub method: Method,
    /// Path without tokens.
    pub path: String,
    /// JSON body; `Null` without one.
    pub body: Value,
}

/// Request passed to a [`Vendor`].
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) method: Method,
    /// Decoded segments of the path.
    pub(crate) segments: Vec<String>,
    pub(crate) query: String,
    pub(crate) authorization: Option<String>,
    /// JSON body; `Null` for other content types.
    pub(crate) body: Value,
    bytes: Bytes,
}

impl Call {
    pub(crate) fn path(&self) -> Vec<&str> {
        self.segments.iter().map(String::as_str).collect()
    }

    pub(crate) fn bearer(&self) -> Option<&str> {
        self.authorization.as_deref()?.strip_prefix("Bearer ")
    }

    /// Returns the value of a form field.
    pub(crate) fn field(&self, name: &str) -> Option<String> {
        let mut fields = form_urlencoded::parse(&self.bytes);
        fields.find(|(field, _)| field == name).map(|(_, value)| value.into_owned())
    }
}

/// Response to a call.
#[derive(Debug)]
pub(crate) struct Answer {
    status: u16,
    retry_after: Option<Duration>,
    /// JSON body; `Null` for an empty one.
    pub(crate) body: Value,
    file: Option<Box<FakeFile>>,
}

impl Answer {
    pub(crate) fn file(file: FakeFile) -> Self {
        let status = if matches!(file, FakeFile::Redirect(_)) { 302 } else { 200 };
        Self { file: Some(Box::new(file)), ..Self::new(status, Value::Null) }
    }

    pub(crate) fn ok(body: Value) -> Self {
        Self::new(200, body)
    }

    pub(crate) fn new(status: u16, body: Value) -> Self {
        Self { status, retry_after: None, body, file: None }
    }

    /// Adds a `Retry-After` header.
    pub(crate) fn retry_after(self, wait: Duration) -> Self {
        Self { retry_after: Some(wait), ..self }
    }
}

/// Platform-specific part of a fake.
pub(crate) trait Vendor: std::fmt::Debug + Send + Sync + 'static {
    /// Whether it is an API call, which is recorded and can be overridden, rather than a request for keys or tokens.
    fn is_api_call(&self, _call: &Call) -> bool {
        true
    }

    /// Returns the path to record, without secrets.
    fn recorded_path(&self, call: &Call) -> String {
        call.segments.join("/")
    }

    /// Returns the API description; `None` if the vendor provides no usable one.
    fn description(&self) -> Option<&'static ApiDescription> {
        None
    }

    fn misbehave(&self, behaviour: Behaviour) -> Answer;

    /// Waits until the call may be answered.
    fn hold<'a>(&'a self, _call: &'a Call) -> BoxFuture<'a, ()> {
        ready(()).boxed()
    }

    /// Returns the response; `Err` is an error response.
    fn answer(&self, call: &Call) -> Result<Answer, Answer>;
}

/// Running fake, which stops when dropped, and fails the test if it accepted a call that violates the vendor's API
/// description.
#[derive(Debug)]
pub(crate) struct FakeServer<V> {
    address: SocketAddr,
    shared: Arc<Shared<V>>,
    accepting: AbortHandle,
}

#[derive(Debug)]
struct Shared<V> {
    vendor: V,
    behaviours: Mutex<VecDeque<Behaviour>>,
    requests: Mutex<Vec<RecordedRequest>>,
    /// Accepted calls that violate the vendor's API description.
    violations: Mutex<Vec<String>>,
}

impl<V> Drop for FakeServer<V> {
    fn drop(&mut self) {
        self.accepting.abort();
        if !std::thread::panicking() {
            self.shared.assert_described();
        }
    }
}

impl<V> Shared<V> {
    fn assert_described(&self) {
        let violations = self.violations.lock();
        assert!(violations.is_empty(), "not as the vendor describes its API: {}", violations.join("\n"));
    }
}

impl<V: Vendor> Shared<V> {
    /// Validates an accepted call. Rejected calls are intended by the test.
    fn check(&self, call: &Call, is_accepted: bool) {
        let Some(description) = self.vendor.description().filter(|_| is_accepted) else { return };
        let path = self.vendor.recorded_path(call);
        if let Err(violation) = description.check_request(&call.method, &path, &call.query, &call.body) {
            self.violations.lock().push(violation);
        }
    }
}

impl<V: Vendor> FakeServer<V> {
    /// Starts the server on a loopback port.
    ///
    /// # Errors
    /// Binding a loopback port fails.
    pub(crate) async fn start(vendor: V) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            vendor,
            behaviours: Mutex::default(),
            requests: Mutex::default(),
            violations: Mutex::default(),
        });
        let router = axum::Router::new().fallback(respond::<V>).with_state(Arc::clone(&shared));
        let serving = tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(Self { address, shared, accepting: serving.abort_handle() })
    }

    pub(crate) fn vendor(&self) -> &V {
        &self.shared.vendor
    }

    #[allow(clippy::expect_used, reason = "an address and a constant path are a URL")]
    pub(crate) fn url(&self, path: &str) -> Url {
        Url::parse(&format!("http://{}{path}", self.address)).expect("a valid URL")
    }

    pub(crate) fn misbehave(&self, behaviour: Behaviour) {
        self.shared.behaviours.lock().push_back(behaviour);
    }

    /// Returns the event if it conforms to the API description; panics otherwise.
    #[allow(clippy::panic, reason = "for tests, which are to fail")]
    pub(crate) fn event(&self, name: &str, event: Value) -> Value {
        if let Some(Err(error)) = self.vendor().description().map(|description| description.check_event(name, &event)) {
            panic!("event violates the vendor's API description: {error}");
        }
        event
    }

    /// Returns all requests, oldest first.
    pub(crate) fn requests(&self) -> Vec<RecordedRequest> {
        self.shared.assert_described();
        self.shared.requests.lock().clone()
    }

    /// Returns the bodies of all requests that match `is_message`.
    pub(crate) fn sent(&self, is_message: impl Fn(&RecordedRequest) -> bool) -> Vec<Value> {
        let sent = self.requests().into_iter().filter(is_message);
        sent.map(|request| request.body).collect()
    }
}

async fn respond<V: Vendor>(
    State(shared): State<Arc<Shared<V>>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    bytes: Bytes,
) -> Response {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let is_json = text(CONTENT_TYPE).is_some_and(|kind| kind.starts_with("application/json"));
    let call = Call {
        method,
        segments: uri.path().split('/').skip(1).map(percent_decode).collect(),
        query: uri.query().unwrap_or_default().to_owned(),
        authorization: text(AUTHORIZATION),
        body: if is_json { serde_json::from_slice(&bytes).unwrap_or_default() } else { Value::Null },
        bytes,
    };
    let mut behaviour = None;
    let is_api_call = shared.vendor.is_api_call(&call);
    if is_api_call {
        let (method, path) = (call.method.clone(), shared.vendor.recorded_path(&call));
        shared.requests.lock().push(RecordedRequest { method, path, body: call.body.clone() });
        behaviour = shared.behaviours.lock().pop_front();
    }
    let answer = match behaviour {
        Some(Behaviour::Hang) => return std::future::pending().await,
        Some(behaviour) => Ok(shared.vendor.misbehave(behaviour)),
        None => {
            shared.vendor.hold(&call).await;
            shared.vendor.answer(&call)
        }
    };
    // File URLs are issued by the vendors and are not API operations.
    let is_operation = answer.as_ref().is_ok_and(|answer| answer.file.is_none());
    shared.check(&call, is_api_call && is_operation);
    let answer = answer.unwrap_or_else(|refusal| refusal);
    let mut response = Response::builder().status(answer.status);
    if let Some(wait) = answer.retry_after {
        response = response.header(RETRY_AFTER, wait.as_secs());
    }
    let body = if let Some(file) = answer.file {
        let (kind, location, body) = sent(*file);
        response = response.header(CONTENT_TYPE, kind);
        if let Some(location) = location {
            response = response.header(LOCATION, location.as_str());
        }
        body
    } else if answer.body.is_null() {
        Body::empty()
    } else {
        response = response.header(CONTENT_TYPE, "application/json");
        Body::from(answer.body.to_string())
    };
    response.body(body).unwrap_or_default()
}

/// Returns the content type, the redirect target and the body.
fn sent(file: FakeFile) -> (&'static str, Option<Url>, Body) {
    const CHUNK: &[u8] = &[b'x'; 1 << 16];
    let binary = "application/octet-stream";
    match file {
        FakeFile::Bytes(bytes) => (binary, None, Body::from(bytes)),
        FakeFile::Unannounced(length) => {
            let pieces = (0..length).step_by(CHUNK.len()).map(move |at| &CHUNK[..CHUNK.len().min(length - at)]);
            (
                binary,
                None,
                Body::from_stream(stream::iter(pieces.map(|piece| Ok::<_, io::Error>(Bytes::from_static(piece))))),
            )
        }
        FakeFile::Redirect(to) => (binary, Some(to), Body::empty()),
        FakeFile::Page => ("text/html; charset=utf-8", None, Body::from("<title>Sign in</title>")),
        FakeFile::Hang => (binary, None, Body::from_stream(stream::pending::<io::Result<Bytes>>())),
    }
}

/// Decodes percent encoding in a path segment.
fn percent_decode(segment: &str) -> String {
    // Query decoding also decodes `+`, so escape it first.
    let query = format!("s={}", segment.replace('+', "%2B").replace('&', "%26"));
    form_urlencoded::parse(query.as_bytes()).next().map(|(_, value)| value.into_owned()).unwrap_or_default()
}
