//! Server: hyper on loopback, one task per connection.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use agentd_llm::Vendor;
use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use url::Url;

use crate::reply::Body;
use crate::{DocumentedFailure, Ending, Reply, Script, format};

/// Maximum wait for a condition.
const WAIT_LIMIT: Duration = Duration::from_secs(60);

/// Recorded request.
#[derive(Debug, Clone)]
pub struct RecordedRequest {
    pub method: Method,
    pub path: String,
    pub query: Option<String>,
    pub headers: HeaderMap,
    /// JSON body; `Null` if there was none or requests are not recorded.
    pub body: Value,
    /// Raw body.
    pub bytes: Bytes,
}

/// Running fake vendor; stops when dropped.
#[derive(Debug)]
pub struct FakeVendor {
    vendor: Vendor,
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: AbortHandle,
}

#[derive(Debug)]
struct Shared {
    vendor: Vendor,
    script: Script,
    key: Option<String>,
    keeps_requests: bool,
    requests: Mutex<Vec<RecordedRequest>>,
    aborted: watch::Sender<usize>,
    connections: watch::Sender<usize>,
}

impl Drop for FakeVendor {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl FakeVendor {
    /// Starts a server that accepts any key, or none.
    ///
    /// # Errors
    /// No port on loopback is available.
    pub async fn start(vendor: Vendor, script: Script) -> io::Result<Self> {
        Self::launch(vendor, script, None, true).await
    }

    /// Starts a server that accepts only `key`; other keys get the documented error of the vendor.
    ///
    /// # Errors
    /// See [`Self::start`].
    pub async fn start_with_key(vendor: Vendor, script: Script, key: &str) -> io::Result<Self> {
        Self::launch(vendor, script, Some(key.to_owned()), true).await
    }

    /// Starts a server that does not record or parse requests, for benchmarks with very many requests.
    ///
    /// # Errors
    /// See [`Self::start`].
    pub async fn start_without_recording(vendor: Vendor, script: Script) -> io::Result<Self> {
        Self::launch(vendor, script, None, false).await
    }

    async fn launch(vendor: Vendor, script: Script, key: Option<String>, keeps_requests: bool) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            vendor,
            script,
            key,
            keeps_requests,
            requests: Mutex::default(),
            aborted: watch::Sender::new(0),
            connections: watch::Sender::new(0),
        });
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared))).abort_handle();
        Ok(Self { vendor, address, shared, accepting })
    }

    /// Returns the base URL in the form expected by the vendor's own SDK.
    #[must_use]
    #[allow(clippy::expect_used, reason = "an address and a constant path are a URL")]
    pub fn base_url(&self) -> Url {
        let path = match self.vendor {
            Vendor::Openai | Vendor::Xai => "/v1",
            Vendor::Openrouter => "/api/v1",
            _ => "",
        };
        Url::parse(&format!("http://{}{path}", self.address)).expect("a valid URL")
    }

    /// Returns all requests so far, including those for the list of models, oldest first.
    #[must_use]
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.shared.requests.lock().clone()
    }

    /// Returns the number of connections opened so far.
    #[must_use]
    pub fn connections(&self) -> usize {
        *self.shared.connections.borrow()
    }

    /// Waits until `count` answers were aborted by their client.
    ///
    /// # Panics
    /// Fewer were aborted within a minute.
    pub async fn wait_for_aborted(&self, count: usize) {
        let mut aborted = self.shared.aborted.subscribe();
        let reached = tokio::time::timeout(WAIT_LIMIT, aborted.wait_for(|so_far| *so_far >= count)).await;
        assert!(reached.is_ok(), "fewer than {count} answers were aborted");
    }
}

/// Connections are tasks of the set, so that they end with the server.
async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    while let Ok((socket, _)) = listener.accept().await {
        shared.connections.send_modify(|count| *count += 1);
        connections.spawn(serve(socket, Arc::clone(&shared)));
        while connections.try_join_next().is_some() {}
    }
}

async fn serve(socket: TcpStream, shared: Arc<Shared>) {
    // Without this, delayed acknowledgements on loopback would hold back gated pieces.
    let _ = socket.set_nodelay(true);
    let service = service_fn(move |request| {
        let shared = Arc::clone(&shared);
        async move { Ok::<_, Infallible>(respond(request, &shared).await) }
    });
    // Fails if a client disconnects or a reply is scripted to break; both are expected.
    let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(socket), service).await;
}

type Answer = Response<UnsyncBoxBody<Bytes, io::Error>>;

async fn respond(request: Request<Incoming>, shared: &Arc<Shared>) -> Answer {
    let (head, body) = request.into_parts();
    let bytes = body.collect().await.map(|whole| whole.to_bytes()).unwrap_or_default();
    let recorded = RecordedRequest {
        method: head.method,
        path: head.uri.path().to_owned(),
        query: head.uri.query().map(str::to_owned),
        headers: head.headers,
        body: if shared.keeps_requests { serde_json::from_slice(&bytes).unwrap_or_default() } else { Value::Null },
        bytes,
    };
    let reply = choose(&recorded, shared);
    let sent_key = sent_key(shared.vendor, &recorded.headers).unwrap_or_default().to_owned();
    if shared.keeps_requests {
        shared.requests.lock().push(recorded);
    }
    answer(&reply, shared, &sent_key)
}

fn sent_key(vendor: Vendor, headers: &HeaderMap) -> Option<&str> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    match vendor {
        Vendor::Anthropic => text("x-api-key"),
        Vendor::Google => text("x-goog-api-key"),
        _ => text("authorization").and_then(|text| text.strip_prefix("Bearer ")),
    }
}

fn choose(request: &RecordedRequest, shared: &Shared) -> Reply {
    let vendor = shared.vendor;
    let list = match vendor {
        Vendor::Anthropic | Vendor::Openai | Vendor::Mistral | Vendor::Xai => "/v1/models",
        Vendor::Google => "/v1beta/models",
        Vendor::Groq => "/openai/v1/models",
        Vendor::Deepseek => "/models",
        Vendor::Openrouter => "/api/v1/models",
    };
    let is_list = request.method == Method::GET && request.path == list;
    let is_public = is_list && vendor == Vendor::Openrouter;
    if let Some(key) = &shared.key
        && !is_public
        && sent_key(vendor, &request.headers) != Some(key)
    {
        return Reply::failure(DocumentedFailure::WrongKey);
    }
    let method = match vendor {
        Vendor::Anthropic => "messages",
        Vendor::Google => {
            let is_method =
                request.path.strip_prefix(list).is_some_and(|rest| rest.ends_with(":streamGenerateContent"));
            if is_method && request.query.as_deref() == Some("alt=sse") && request.method == Method::POST {
                return shared.script.reply(request);
            }
            ""
        }
        _ => "chat/completions",
    };
    let prefix = list.strip_suffix("models").unwrap_or_default();
    if request.method == Method::POST && !method.is_empty() && request.path.strip_prefix(prefix) == Some(method) {
        return shared.script.reply(request);
    }
    if vendor == Vendor::Openrouter && request.path == "/api/v1/key" {
        return Reply::json(200, r#"{"data":{"label":"test","usage":0,"limit":null}}"#);
    }
    if is_list { Reply::json(200, &models(vendor).to_string()) } else { Reply::json(404, "{}") }
}

fn models(vendor: Vendor) -> Value {
    match vendor {
        Vendor::Google => json!({"models": [
            {"name": "models/fake-model", "supportedGenerationMethods": ["generateContent", "countTokens"]},
            {"name": "models/fake-embedding", "supportedGenerationMethods": ["embedContent"]}]}),
        Vendor::Anthropic => {
            json!({"data": [{"type": "model", "id": "fake-model", "display_name": "Fake"}], "has_more": false})
        }
        _ => json!({"object": "list", "data": [{"id": "fake-model", "object": "model", "owned_by": "nobody"}]}),
    }
}

fn answer(reply: &Reply, shared: &Arc<Shared>, sent_key: &str) -> Answer {
    let vendor = shared.vendor;
    let is_paced = reply.gate.is_some() || reply.delay.is_some();
    let mut status = reply.status;
    let mut response = Response::builder();
    let body = match &reply.body {
        Body::Failure(failure) => {
            let (documented, value) = failure.render(vendor, sent_key);
            status = documented;
            response = response.header("content-type", "application/json");
            Full::from(value.to_string()).map_err(|never| match never {}).boxed_unsync()
        }
        Body::Answer(answer) => {
            response = response.header("content-type", "text/event-stream; charset=utf-8");
            if !is_paced && reply.ending == Ending::Proper {
                Full::from(answer.rendered(vendor)).map_err(|never| match never {}).boxed_unsync()
            } else {
                let mut frames = format::frames(vendor, answer);
                if reply.ending != Ending::Proper {
                    frames.pop();
                }
                paced(reply, frames, 1, shared)
            }
        }
        Body::Chunks(chunks) => paced(reply, chunks.to_vec(), 0, shared),
    };
    for (name, value) in &reply.headers {
        response = response.header(name, value);
    }
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.status(status).body(body).unwrap_or_else(|_| Response::new(UnsyncBoxBody::default()))
}

/// Notifies the server when a body is dropped before its end.
struct Watched {
    shared: Arc<Shared>,
    is_complete: bool,
}

impl Watched {
    fn complete(mut self) {
        self.is_complete = true;
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if !self.is_complete {
            self.shared.aborted.send_modify(|count| *count += 1);
        }
    }
}

/// Sends `frames` one by one; the first `ungated` of them do not wait.
fn paced(reply: &Reply, frames: Vec<Bytes>, ungated: usize, shared: &Arc<Shared>) -> UnsyncBoxBody<Bytes, io::Error> {
    let watched = Watched { shared: Arc::clone(shared), is_complete: false };
    let (gate, delay, ending) = (reply.gate.clone(), reply.delay, reply.ending);
    let frames = stream::unfold((frames.into_iter().enumerate(), watched), move |(mut frames, mut watched)| {
        let gate = gate.clone();
        async move {
            let Some((position, frame)) = frames.next() else {
                return match ending {
                    Ending::Proper | Ending::WithoutEndMarker => {
                        watched.complete();
                        None
                    }
                    // The pause lets the data that was sent arrive before the connection breaks.
                    Ending::Broken => {
                        tokio::task::yield_now().await;
                        watched.is_complete = true;
                        Some((Err(io::Error::from(io::ErrorKind::BrokenPipe)), (frames, watched)))
                    }
                    Ending::Hang => std::future::pending().await,
                };
            };
            if position >= ungated {
                if let Some(gate) = gate {
                    gate.pass().await;
                }
                if let Some(delay) = delay {
                    tokio::time::sleep(delay).await;
                }
            }
            Some((Ok(Frame::data(frame)), (frames, watched)))
        }
    });
    StreamBody::new(frames).boxed_unsync()
}
