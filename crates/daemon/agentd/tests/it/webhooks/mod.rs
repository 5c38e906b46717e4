//! Inbound webhooks: authentication, retention, and agent turns.

mod bounds;
mod fairness;
mod managing;
mod receiving;
pub mod turns;

use agentd_store::args;
use aws_lc_rs::hmac::{self, HMAC_SHA256};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::support::{TestApp, TestRequest};

/// A webhook with the secret that signs its requests.
pub struct Sender {
    pub id: String,
    pub secret: String,
}

fn digest(key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(HMAC_SHA256, key), &parts.concat()).as_ref().to_vec()
}

impl Sender {
    pub async fn create(app: &TestApp, fields: Value) -> Self {
        let made = app.post("/api/webhooks").json(&fields).send().await.expect_status(201).json();
        let text = |name: &str| made[name].as_str().expect("a text").to_owned();
        Self { id: text("id"), secret: text("secret") }
    }

    pub fn path(&self) -> String {
        format!("/api/webhooks/{}", self.id)
    }

    pub fn signature(&self, body: &[u8]) -> String {
        format!("sha256={}", hex::encode(digest(self.secret.as_bytes(), &[body])))
    }

    /// Returns the `webhook-signature` header of Standard Webhooks.
    pub fn standard_signature(&self, id: &str, time: i64, body: &[u8]) -> String {
        let encoded = self.secret.strip_prefix("whsec_").expect("a generated secret");
        let key = STANDARD.decode(encoded).expect("base64");
        let time = time.to_string();
        let digest = digest(&key, &[id.as_bytes(), b".", time.as_bytes(), b".", body]);
        format!("v1,{}", STANDARD.encode(digest))
    }

    /// Creates an unsigned request.
    pub fn bare(&self, app: &TestApp, content_type: &str, body: &[u8]) -> TestRequest {
        app.post(&format!("{}/receive", self.path())).anonymous().body(content_type, body.to_vec())
    }

    /// Creates a signed request.
    pub fn signed(&self, app: &TestApp, content_type: &str, body: &[u8]) -> TestRequest {
        self.bare(app, content_type, body).header("x-svc-signature", &self.signature(body))
    }

    /// Sends JSON and returns the delivery id.
    pub async fn send(&self, app: &TestApp, body: &Value) -> String {
        let answer = self.signed(app, "application/json", body.to_string().as_bytes()).send().await;
        answer.expect_status(202).json()["delivery_id"].as_str().expect("an id").to_owned()
    }

    pub async fn delivery(&self, app: &TestApp, id: &str) -> Value {
        app.get(&format!("{}/deliveries/{id}", self.path())).send().await.expect_status(200).json()
    }

    pub async fn deliveries(&self, app: &TestApp, query: &str) -> Value {
        app.get(&format!("{}/deliveries{query}", self.path())).send().await.expect_status(200).json()
    }

    /// Waits for the end of the turn and returns the delivery.
    pub async fn wait_until_ended(&self, app: &TestApp, id: &str) -> Value {
        let session = self.delivery(app, id).await["session_id"].as_str().expect("a session").to_owned();
        app.get(&format!("/api/chat/sessions/{session}/stream")).stream().await.collect().await;
        self.delivery(app, id).await
    }
}

/// Returns the data of `webhook.received` events, oldest first.
pub async fn events(app: &TestApp) -> Vec<Value> {
    let mut read = app.running().context().db.read().await.expect("a connection");
    let sql = "SELECT data FROM outbox WHERE event_type = 'webhook.received' ORDER BY seq";
    let rows = read.fetch_all(sql, args![]).await.expect("events");
    rows.iter().map(|row| row.json("data").expect("JSON")).collect()
}

pub async fn metric(app: &TestApp, line_start: &str) -> f64 {
    // The metrics are cached for one second.
    app.clock.advance(std::time::Duration::from_secs(2));
    let text = app.get("/api/metrics/prometheus").anonymous().send().await.expect_status(200).text();
    let line =
        text.lines().find(|line| line.starts_with(line_start)).unwrap_or_else(|| panic!("{line_start} in {text}"));
    line.rsplit(' ').next().and_then(|value| value.parse().ok()).expect("a number")
}

pub fn ci() -> Value {
    json!({"name": "ci"})
}
