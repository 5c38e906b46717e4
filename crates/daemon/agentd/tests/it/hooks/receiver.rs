//! A receiver of hook deliveries whose responses are set by the test.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use tokio::sync::watch;

/// Response of the receiver.
#[derive(Debug, Clone)]
pub enum Answer {
    Status(u16),
    With(u16, &'static str, String),
    /// Responds with success after a delay.
    Late(Duration),
    /// Responds with an error after a delay.
    LateFailure(Duration),
    Hang,
}

#[derive(Debug, Clone)]
pub struct Received {
    pub path: String,
    pub headers: HeaderMap,
    pub bytes: Bytes,
    /// The body as text, with invalid UTF-8 replaced.
    pub body: String,
}

impl Received {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }

    pub fn event(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

struct Inner {
    received: watch::Sender<Vec<Received>>,
    script: Mutex<VecDeque<Answer>>,
    default_answer: Mutex<Answer>,
}

pub struct Receiver {
    pub address: SocketAddr,
    inner: Arc<Inner>,
}

impl Receiver {
    /// Starts a receiver that accepts everything.
    pub async fn start() -> Self {
        let inner = Arc::new(Inner {
            received: watch::Sender::new(Vec::new()),
            script: Mutex::default(),
            default_answer: Mutex::new(Answer::Status(204)),
        });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().fallback(receive).with_state(Arc::clone(&inner));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { address, inner }
    }

    pub fn url(&self) -> String {
        format!("http://{}/in", self.address)
    }

    /// Queues responses for the next requests; later requests get the default response.
    pub fn then(&self, answers: impl IntoIterator<Item = Answer>) {
        self.inner.script.lock().unwrap().extend(answers);
    }

    pub fn always(&self, answer: Answer) {
        *self.inner.default_answer.lock().unwrap() = answer;
    }

    pub fn received(&self) -> Vec<Received> {
        self.inner.received.borrow().clone()
    }

    /// Waits until this many requests have arrived.
    pub async fn wait_for(&self, count: usize) -> Vec<Received> {
        let mut received = self.inner.received.subscribe();
        received.wait_for(|received| received.len() >= count).await.unwrap().clone()
    }
}

async fn receive(State(inner): State<Arc<Inner>>, uri: Uri, headers: HeaderMap, bytes: Bytes) -> Response {
    let body = String::from_utf8_lossy(&bytes).into_owned();
    let path = uri.path().to_owned();
    inner.received.send_modify(|received| received.push(Received { path, headers, bytes, body }));
    let next = inner.script.lock().unwrap().pop_front();
    let answer = next.unwrap_or_else(|| inner.default_answer.lock().unwrap().clone());
    match answer {
        Answer::Status(status) => StatusCode::from_u16(status).unwrap().into_response(),
        Answer::With(status, name, value) => {
            (StatusCode::from_u16(status).unwrap(), [(name, value)], "said why").into_response()
        }
        Answer::Late(pause) => {
            tokio::time::sleep(pause).await;
            StatusCode::OK.into_response()
        }
        Answer::LateFailure(pause) => {
            tokio::time::sleep(pause).await;
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
        Answer::Hang => std::future::pending().await,
    }
}
