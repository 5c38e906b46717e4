//! HTTP requests to the daemon; responses are validated against the OpenAPI document.

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::{Stream, StreamExt};
use reqwest::header::HeaderMap;
use reqwest::{Client, Method, StatusCode};
use serde_json::Value;

use super::examples::Call;
use super::{document, record};

/// Maximum wait for the next event.
const EVENT_TIMEOUT: Duration = Duration::from_secs(120);

/// Headers expected in every response; an empty value matches any value.
const EXPECTED_HEADERS: [(&str, &str); 5] = [
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("x-xss-protection", "1; mode=block"),
    ("referrer-policy", "strict-origin-when-cross-origin"),
    ("x-request-id", ""),
];

pub struct TestRequest {
    builder: reqwest::RequestBuilder,
    method: Method,
    path: String,
    key: Option<String>,
    /// JSON body, kept for the examples of the API document.
    json: Option<Value>,
}

impl TestRequest {
    pub fn new(client: &Client, method: Method, address: SocketAddr, path: &str, key: Option<&str>) -> Self {
        let builder = client.request(method.clone(), format!("http://{address}{path}"));
        Self { builder, method, path: path.to_owned(), key: key.map(str::to_owned), json: None }
    }

    pub fn json(mut self, body: &Value) -> Self {
        self.builder = self.builder.json(body);
        self.json = Some(body.clone());
        self
    }

    /// Sets arbitrary bytes as the body, with the content type JSON.
    pub fn raw_json(mut self, body: impl Into<reqwest::Body>) -> Self {
        self.builder = self.builder.header("content-type", "application/json").body(body);
        self
    }

    pub fn body(mut self, content_type: &str, body: impl Into<reqwest::Body>) -> Self {
        self.builder = self.builder.header("content-type", content_type).body(body);
        self
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.builder = self.builder.header(name, value);
        self
    }

    /// Uses another credential than the API key of the owner.
    pub fn bearer(mut self, token: &str) -> Self {
        self.key = Some(token.to_owned());
        self
    }

    pub fn anonymous(mut self) -> Self {
        self.key = None;
        self
    }

    async fn execute(self) -> (Sent, reqwest::Response) {
        let mut builder = self.builder;
        if let Some(key) = &self.key {
            builder = builder.bearer_auth(key);
        }
        let response = builder.send().await.expect("send the request");
        for (name, expected) in EXPECTED_HEADERS {
            let found = response.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
            let is_as_expected = if expected.is_empty() { !found.is_empty() } else { found == expected };
            let (method, path, status) = (&self.method, &self.path, response.status());
            assert!(is_as_expected, "{method} {path} returned {status} with `{name}: {found}`");
        }
        if let Some(operation) = document::find(self.method.as_str(), &self.path) {
            record::note(&operation.id, response.status().as_u16());
        }
        (Sent { method: self.method, path: self.path, json: self.json, status: response.status() }, response)
    }

    pub async fn send(self) -> TestResponse {
        let (sent, response) = self.execute().await;
        let headers = response.headers().clone();
        let body = response.bytes().await.expect("the response body").to_vec();
        let content_type = headers.get("content-type").and_then(|value| value.to_str().ok()).unwrap_or_default();
        sent.record(content_type, &body);
        let Sent { method, path, status, .. } = sent;
        let answer = TestResponse { method, path, status, headers, body };
        document::validate(&answer);
        answer
    }

    /// Sends the request without checking the status, and reads Server-Sent Events as they arrive.
    pub async fn open(self) -> (StatusCode, EventStream) {
        let (sent, response) = self.execute().await;
        (sent.status, EventStream::new(sent, response))
    }

    /// Sends the request and reads Server-Sent Events as they arrive.
    pub async fn stream(self) -> EventStream {
        let (sent, response) = self.execute().await;
        if sent.status != StatusCode::OK {
            panic!("{} {} {}: {}", sent.method, sent.path, sent.status, response.text().await.unwrap_or_default());
        }
        EventStream::new(sent, response)
    }
}

/// A request that was answered.
struct Sent {
    method: Method,
    path: String,
    json: Option<Value>,
    status: StatusCode,
}

impl Sent {
    fn record(&self, content_type: &str, body: &[u8]) {
        if let Some(operation) = document::find(self.method.as_str(), &self.path) {
            let (target, request, status) = (&self.path, self.json.as_ref(), self.status.as_u16());
            Call { operation, target, request, status, content_type, body }.record();
        }
    }
}

#[derive(Debug)]
pub struct TestResponse {
    pub method: Method,
    pub path: String,
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl TestResponse {
    #[track_caller]
    pub fn expect_status(self, status: u16) -> Self {
        assert_eq!(self.status.as_u16(), status, "{} {}: {}", self.method, self.path, self.text());
        self
    }

    /// Checks the status and the error code.
    #[track_caller]
    pub fn expect_error(self, status: u16, code: &str) -> Self {
        let answer = self.expect_status(status);
        assert_eq!(answer.json()["code"], code, "{} {}: {}", answer.method, answer.path, answer.text());
        answer
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error} in {}", self.text()))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// Returns the values of every `Set-Cookie` header.
    pub fn cookies(&self) -> Vec<&str> {
        self.headers.get_all("set-cookie").iter().filter_map(|value| value.to_str().ok()).collect()
    }

    /// Returns the field names in a validation error.
    pub fn bad_fields(&self) -> Vec<String> {
        let fields = self.json()["fields"].as_array().cloned().unwrap_or_default();
        fields.iter().filter_map(|field| field["field"].as_str().map(str::to_owned)).collect()
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct ServerEvent {
    pub id: Option<String>,
    pub event: String,
    pub data: Value,
}

/// An open stream of events. Dropping it disconnects the client.
pub struct EventStream {
    bytes: std::pin::Pin<Box<dyn Stream<Item = reqwest::Result<bytes::Bytes>> + Send>>,
    buffer: Vec<u8>,
    sent: Sent,
    /// Beginning of the stream, kept for the examples of the API document.
    beginning: Vec<u8>,
}

impl Drop for EventStream {
    fn drop(&mut self) {
        self.sent.record("text/event-stream", &self.beginning);
    }
}

impl EventStream {
    fn new(sent: Sent, response: reqwest::Response) -> Self {
        Self { bytes: Box::pin(response.bytes_stream()), buffer: Vec::new(), sent, beginning: Vec::new() }
    }

    /// Returns the next event, or `None` when the daemon closed the stream. Comments are skipped.
    pub async fn next(&mut self) -> Option<ServerEvent> {
        tokio::time::timeout(EVENT_TIMEOUT, self.read()).await.expect("next event within the time limit")
    }

    async fn read(&mut self) -> Option<ServerEvent> {
        loop {
            if let Some(end) = self.buffer.windows(2).position(|pair| pair == b"\n\n") {
                let block: Vec<u8> = self.buffer.drain(..end + 2).collect();
                if let Some(event) = parse(&String::from_utf8(block).expect("UTF-8")) {
                    return Some(event);
                }
                continue;
            }
            match self.bytes.next().await {
                Some(Ok(more)) => {
                    self.buffer.extend_from_slice(&more);
                    if self.beginning.len() < 1000 {
                        self.beginning.extend_from_slice(&more);
                    }
                }
                Some(Err(_)) | None => return None,
            }
        }
    }

    /// Reads all events until the end of the stream.
    pub async fn collect(mut self) -> Vec<ServerEvent> {
        let mut events = Vec::new();
        while let Some(event) = self.next().await {
            events.push(event);
        }
        events
    }
}

fn parse(block: &str) -> Option<ServerEvent> {
    let field = |name: &str| {
        let lines = block.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let values: Vec<&str> = lines.map(|value| value.strip_prefix(' ').unwrap_or(value)).collect();
        (!values.is_empty()).then(|| values.join("\n"))
    };
    let data = field("data")?;
    Some(ServerEvent {
        id: field("id"),
        event: field("event").unwrap_or_else(|| "message".to_owned()),
        data: serde_json::from_str(&data).unwrap_or(Value::String(data)),
    })
}

/// Returns the text of all `token` events.
pub fn token_text(events: &[ServerEvent]) -> String {
    events.iter().filter(|event| event.event == "token").filter_map(|event| event.data["content"].as_str()).collect()
}
