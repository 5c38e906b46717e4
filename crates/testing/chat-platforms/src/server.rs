//! What the fakes of platforms have in common: a server on loopback that records requests, checks them against the
//! vendor's own description of its API, misbehaves on demand, and leaves the rest to a [`Vendor`].

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

/// What one request is answered instead of what it deserves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behaviour {
    /// Too many requests, with the wait that is asked for. Platforms that say it in a header say whole seconds.
    RateLimited(Duration),
    /// A fault of the platform's own.
    ServerError,
    /// No answer at all.
    Hang,
    /// The person takes no messages of the bot.
    Blocked,
    /// The chat is gone.
    Gone,
    /// The person wrote too long ago; as [`Self::Blocked`] where the platform does not have that.
    WindowClosed,
    /// The token is taken no more.
    CredentialsRefused,
}

/// A file that a fake hands out to who may have it, or what becomes of that.
#[derive(Debug, Clone)]
pub enum FakeFile {
    Bytes(Bytes),
    /// So many bytes, without saying how many.
    Unannounced(usize),
    /// It lies elsewhere.
    Redirect(Url),
    /// A page instead of it.
    Page,
    /// Its head, and then nothing more.
    Hang,
}

/// The files of a fake, by their ids.
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

/// A request that a fake got.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedRequest {
    pub method: Method,
    /// Without any token in it.
    pub path: String,
    /// The body as JSON; `Null` where there is none.
    pub body: Value,
}

/// A request as a [`Vendor`] gets it.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) method: Method,
    /// Decoded segments of the path.
    pub(crate) segments: Vec<String>,
    pub(crate) query: String,
    pub(crate) authorization: Option<String>,
    /// `Null` where it is not said to be JSON.
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

    /// The value of a field of a form.
    pub(crate) fn field(&self, name: &str) -> Option<String> {
        let mut fields = form_urlencoded::parse(&self.bytes);
        fields.find(|(field, _)| field == name).map(|(_, value)| value.into_owned())
    }
}

/// What it is answered.
#[derive(Debug)]
pub(crate) struct Answer {
    status: u16,
    retry_after: Option<Duration>,
    /// `Null`: no body.
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

    /// With the header that asks for a wait.
    pub(crate) fn retry_after(self, wait: Duration) -> Self {
        Self { retry_after: Some(wait), ..self }
    }
}

/// One platform.
pub(crate) trait Vendor: std::fmt::Debug + Send + Sync + 'static {
    /// Whether it is a call of the API, which is recorded and may be answered as a test wants, and not one for keys or
    /// tokens.
    fn is_api_call(&self, _call: &Call) -> bool {
        true
    }

    /// What stands in the record for the path: without what is secret in it.
    fn recorded_path(&self, call: &Call) -> String {
        call.segments.join("/")
    }

    /// `None`: the vendor gives none that could be used.
    fn description(&self) -> Option<&'static ApiDescription> {
        None
    }

    fn misbehave(&self, behaviour: Behaviour) -> Answer;

    /// Until it may be answered.
    fn hold<'a>(&'a self, _call: &'a Call) -> BoxFuture<'a, ()> {
        ready(()).boxed()
    }

    /// `Err` is an answer too: a refusal.
    fn answer(&self, call: &Call) -> Result<Answer, Answer>;
}

/// A running fake; it stops when dropped, and fails the test where it took what the vendor's API does not have.
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
    /// What was taken against the vendor's description.
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
    /// What a fake itself refuses is what a test wants to see refused.
    fn check(&self, call: &Call, is_taken: bool) {
        let Some(description) = self.vendor.description().filter(|_| is_taken) else { return };
        let path = self.vendor.recorded_path(call);
        if let Err(violation) = description.check_request(&call.method, &path, &call.query, &call.body) {
            self.violations.lock().push(violation);
        }
    }
}

impl<V: Vendor> FakeServer<V> {
    /// # Errors
    /// When no port on loopback can be had.
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

    /// The event, where the vendor would send it.
    #[allow(clippy::panic, reason = "for tests, which are to fail")]
    pub(crate) fn event(&self, name: &str, event: Value) -> Value {
        if let Some(Err(error)) = self.vendor().description().map(|description| description.check_event(name, &event)) {
            panic!("not as the vendor describes it: {error}");
        }
        event
    }

    /// Oldest first.
    pub(crate) fn requests(&self) -> Vec<RecordedRequest> {
        self.shared.assert_described();
        self.shared.requests.lock().clone()
    }

    /// The bodies of those requests, for which `is_message` holds.
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
        segments: uri.path().split('/').skip(1).map(decoded).collect(),
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
    // Files are fetched from addresses that the vendors hand out, and not by operations.
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

/// The type of what is sent, where it redirects to, and the body.
fn sent(file: FakeFile) -> (&'static str, Option<Url>, Body) {
    const PIECE: &[u8] = &[b'x'; 1 << 16];
    let binary = "application/octet-stream";
    match file {
        FakeFile::Bytes(bytes) => (binary, None, Body::from(bytes)),
        FakeFile::Unannounced(length) => {
            let pieces = (0..length).step_by(PIECE.len()).map(move |at| &PIECE[..PIECE.len().min(length - at)]);
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

/// A segment of a path without its percent signs.
fn decoded(segment: &str) -> String {
    // A query decodes `+` as well, so it is written out first.
    let query = format!("s={}", segment.replace('+', "%2B").replace('&', "%26"));
    form_urlencoded::parse(query.as_bytes()).next().map(|(_, value)| value.into_owned()).unwrap_or_default()
}
