//! A scripted push service that checks requests as strictly as real services.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use agentd_base::{Entropy, Timestamp};
use agentd_testing_web_push::{FakeBrowser, claims_of};
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::{TestApp, TestResponse};

/// Scripted response; the default is 201.
#[derive(Debug, Clone)]
pub enum Answer {
    Status(u16),
    /// Status with `Retry-After`, in seconds.
    After(u16, u32),
    Hang,
}

#[derive(Debug, Clone)]
struct Received {
    path: String,
    headers: HeaderMap,
    body: Bytes,
}

#[derive(Default)]
struct Inner {
    received: watch::Sender<Vec<Received>>,
    script: Mutex<VecDeque<Answer>>,
}

pub struct PushService {
    address: SocketAddr,
    inner: Arc<Inner>,
    entropy: Entropy,
}

/// A browser with a subscription at the service.
pub struct Device {
    pub id: String,
    pub endpoint: String,
    pub browser: FakeBrowser,
}

/// A decrypted message.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    pub content: Value,
    pub ttl: u64,
    pub urgency: String,
    pub topic: String,
}

impl PushService {
    pub async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let inner = Arc::new(Inner::default());
        let router = Router::new().fallback(receive).with_state(Arc::clone(&inner));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { address, inner, entropy: Entropy::seeded(u64::from(address.port())) }
    }

    pub fn then(&self, answers: impl IntoIterator<Item = Answer>) {
        self.inner.script.lock().expect("a script").extend(answers);
    }

    /// Returns the number of received requests.
    pub fn count(&self) -> usize {
        self.inner.received.borrow().len()
    }

    /// Waits until `count` requests have arrived.
    pub async fn wait_for(&self, count: usize) {
        let mut received = self.inner.received.subscribe();
        received.wait_for(|received| received.len() >= count).await.expect("the service is running");
    }

    /// Creates a browser that is not registered with a daemon.
    pub fn browser(&self, name: &str) -> (FakeBrowser, Value) {
        let browser = FakeBrowser::new(&self.entropy);
        let endpoint = format!("http://{}/push/{name}", self.address);
        let keys = json!({"p256dh": browser.p256dh(), "auth": browser.auth()});
        // The format of `PushSubscription.toJSON`.
        let subscription = json!({"endpoint": endpoint, "expirationTime": null, "keys": keys});
        (browser, subscription)
    }

    /// Allows the daemon to reach this machine, and registers a browser.
    pub async fn subscribe(&self, app: &TestApp, name: &str) -> Device {
        let hosts = json!({"allowed_hosts": ["127.0.0.1"]});
        app.put("/api/settings/security").json(&hosts).send().await.expect_status(200);
        let (browser, subscription) = self.browser(name);
        let made = subscribe(app, &subscription).await.expect_status(201).json();
        let endpoint = subscription["endpoint"].as_str().expect("a url").to_owned();
        Device { id: made["id"].as_str().expect("an id").to_owned(), endpoint, browser }
    }

    /// Returns the messages sent to a device, in order of arrival. Verifies the VAPID signature and decrypts each
    /// message.
    pub async fn messages(&self, app: &TestApp, device: &Device) -> Vec<Message> {
        let key = app.get("/api/notifications/push/key").send().await.expect_status(200).json();
        let key = key["public_key"].as_str().expect("a key");
        let received = self.inner.received.borrow().clone();
        let mine = received.iter().filter(|received| device.endpoint.ends_with(&received.path));
        mine.map(|received| self.read(received, key, device, app.clock.clock().now())).collect()
    }

    fn read(&self, received: &Received, key: &str, device: &Device, now: Timestamp) -> Message {
        let header = |name: &str| received.headers[name].to_str().expect("text").to_owned();
        let claims = claims_of(&header("authorization"), key).expect("a signature of the daemon");
        assert_eq!(claims["aud"], format!("http://{}", self.address));
        let ends = claims["exp"].as_i64().expect("a time") - now.to_jiff().as_second();
        // The clock may have advanced since.
        assert!((-86_400..=86_400).contains(&ends), "{claims}");
        assert!(claims["sub"].as_str().is_some_and(|contact| contact.starts_with("mailto:")), "{claims}");
        let content = device.browser.read(&received.body).expect("a message for this browser");
        assert!(received.body.len() <= 4096);
        Message {
            content: serde_json::from_slice(&content).expect("JSON"),
            ttl: header("ttl").parse().expect("seconds"),
            urgency: header("urgency"),
            topic: header("topic"),
        }
    }
}

pub async fn subscribe(app: &TestApp, subscription: &Value) -> TestResponse {
    app.post("/api/notifications/push/subscriptions").json(subscription).send().await
}

/// Returns the error status of a request that violates RFC 8030, 8291 or 8292.
fn refusal(headers: &HeaderMap) -> Option<StatusCode> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !text("authorization").starts_with("vapid t=") {
        return Some(StatusCode::UNAUTHORIZED);
    }
    let topic = text("topic");
    let is_topic = topic.len() <= 32 && topic.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    let is_urgency = ["very-low", "low", "normal", "high"].contains(&text("urgency"));
    let is_well_formed = text("content-encoding") == "aes128gcm" && text("ttl").parse::<u32>().is_ok();
    (!is_topic || !is_urgency || !is_well_formed).then_some(StatusCode::BAD_REQUEST)
}

async fn receive(State(inner): State<Arc<Inner>>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    if let Some(status) = refusal(&headers) {
        return status.into_response();
    }
    let received = Received { path: uri.path().to_owned(), headers, body };
    let next = inner.script.lock().expect("a script").pop_front();
    inner.received.send_modify(|all| all.push(received));
    let status = |status| StatusCode::from_u16(status).expect("a status");
    match next {
        None => StatusCode::CREATED.into_response(),
        Some(Answer::Status(code)) => status(code).into_response(),
        Some(Answer::After(code, seconds)) => (status(code), [("retry-after", seconds.to_string())]).into_response(),
        Some(Answer::Hang) => std::future::pending().await,
    }
}
