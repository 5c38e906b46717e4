//! HTTP server on loopback, implemented by the test.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use agentd_base::Secret;
use agentd_mcp::{ConnectError, ConnectOptions, Connection};
use agentd_net::{GuardedClient, NetPolicy, PolicyHandle, Trust};
use futures_util::StreamExt;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::service::service_fn;
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use url::Url;

type Body = UnsyncBoxBody<Bytes, io::Error>;
pub(crate) type Answer = Response<Body>;

/// Received request.
#[derive(Debug, Clone)]
pub(crate) struct ReceivedRequest {
    pub(crate) method: Method,
    pub(crate) headers: HeaderMap,
    /// `null` without a body.
    pub(crate) message: Value,
}

impl ReceivedRequest {
    /// Returns the method of the message, or the HTTP method if there is none.
    pub(crate) fn method_name(&self) -> &str {
        self.message["method"].as_str().unwrap_or(self.method.as_str())
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    pub(crate) fn result(&self, result: Value) -> Answer {
        json_answer(&json!({ "jsonrpc": "2.0", "id": self.message["id"], "result": result }))
    }

    pub(crate) fn result_event(&self, result: Value) -> String {
        event(&json!({ "jsonrpc": "2.0", "id": self.message["id"], "result": result }))
    }
}

/// Running server; stopped on drop.
pub(crate) struct HttpServer {
    pub(crate) address: SocketAddr,
    requests: Arc<Mutex<Vec<ReceivedRequest>>>,
    task: JoinHandle<()>,
}

impl HttpServer {
    pub(crate) async fn start(answer: impl Fn(ReceivedRequest) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let requests: Arc<Mutex<Vec<ReceivedRequest>>> = Arc::default();
        let (seen, answer) = (Arc::clone(&requests), Arc::new(answer));
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            loop {
                let Ok((stream, _)) = listener.accept().await else { return };
                let (seen, answer) = (Arc::clone(&seen), Arc::clone(&answer));
                let service = service_fn(move |request| {
                    let (seen, answer) = (Arc::clone(&seen), Arc::clone(&answer));
                    async move {
                        let request = read(request).await;
                        seen.lock().push(request.clone());
                        Ok::<_, Infallible>(answer(request))
                    }
                });
                connections.spawn(async move {
                    let builder = hyper::server::conn::http1::Builder::new();
                    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Self { address, requests, task }
    }

    pub(crate) fn url(&self) -> Url {
        Url::parse(&format!("http://{}/mcp", self.address)).expect("an address")
    }

    /// Returns all requests so far.
    pub(crate) fn requests(&self) -> Vec<ReceivedRequest> {
        self.requests.lock().clone()
    }

    pub(crate) async fn connect(&self) -> Result<Connection, ConnectError> {
        self.connect_with(ConnectOptions::default(), &[]).await
    }

    pub(crate) async fn connect_with(
        &self,
        options: ConnectOptions,
        headers: &[(String, Secret)],
    ) -> Result<Connection, ConnectError> {
        Connection::over_http(self.url(), headers, client(), options).await
    }

    /// Stops the server abruptly, like a killed one.
    pub(crate) async fn stop(&mut self) {
        self.task.abort();
        let _ = (&mut self.task).await;
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub(crate) fn client() -> GuardedClient {
    GuardedClient::new(PolicyHandle::new(NetPolicy::default()), Trust::Owner)
}

async fn read(request: Request<Incoming>) -> ReceivedRequest {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    ReceivedRequest {
        method: head.method,
        headers: head.headers,
        message: serde_json::from_slice(&body).unwrap_or_default(),
    }
}

pub(crate) fn full_response(status: u16, content_type: &str, body: impl Into<Bytes>) -> Answer {
    Response::builder()
        .status(status)
        .header("content-type", content_type)
        .body(Full::new(body.into()).map_err(io::Error::other).boxed_unsync())
        .expect("an answer")
}

pub(crate) fn json_answer(message: &Value) -> Answer {
    full_response(200, "application/json", message.to_string())
}

pub(crate) fn accepted() -> Answer {
    status(202)
}

pub(crate) fn status(status: u16) -> Answer {
    let mut answer = full_response(200, "text/plain", "");
    *answer.status_mut() = StatusCode::from_u16(status).expect("a status");
    answer.headers_mut().clear();
    answer
}

pub(crate) fn event(message: &Value) -> String {
    format!("event: message\ndata: {message}\n\n")
}

/// Returns an event stream that ends when the sender is dropped.
pub(crate) fn stream() -> (mpsc::UnboundedSender<String>, Answer) {
    let (sender, mut receiver) = mpsc::unbounded_channel::<String>();
    let frames = futures_util::stream::poll_fn(move |cx| {
        receiver.poll_recv(cx).map(|text| text.map(|text| Ok::<_, io::Error>(Frame::data(Bytes::from(text)))))
    });
    let answer = Response::builder().header("content-type", "text/event-stream");
    (sender, answer.body(StreamBody::new(frames).boxed_unsync()).expect("an answer"))
}

/// Returns an event stream with these events that then ends.
pub(crate) fn events(text: impl Into<String>) -> Answer {
    let (sender, answer) = stream();
    sender.send(text.into()).expect("a receiver");
    answer
}

/// Returns an event stream with these events that then fails.
pub(crate) fn broken_events(text: impl Into<String>) -> Answer {
    let first = futures_util::stream::iter([Ok(Frame::data(Bytes::from(text.into())))]);
    let last = futures_util::stream::once(async {
        // Lets the data already sent leave first.
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        Err(io::Error::other("broken off"))
    });
    let body = StreamBody::new(first.chain(last)).boxed_unsync();
    Response::builder().header("content-type", "text/event-stream").body(body).expect("an answer")
}
