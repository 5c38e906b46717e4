//! Devices: pairing, sockets, tools used by agents, and joining machines.

mod join;
mod pairing;
mod socket;
mod work;

use std::time::Duration;

use agentd::config::ConfigSource;
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async};

use crate::support::{Eventually, TestApp, TestResponse, record};

/// Maximum time to wait for a frame.
const FRAME_TIMEOUT: Duration = Duration::from_secs(120);

/// A paired device.
pub struct Paired {
    pub id: String,
    pub token: String,
}

pub async fn create_code(app: &TestApp) -> String {
    let made = app.post("/api/auth/device/code").send().await.expect_status(201).json();
    made["code"].as_str().expect("a code").to_owned()
}

pub fn claim(code: &str, name: &str) -> Value {
    json!({"code": code, "name": name, "platform": "linux"})
}

pub async fn try_code(app: &TestApp, code: &str) -> TestResponse {
    app.post("/api/auth/device/pair").anonymous().json(&claim(code, "laptop")).send().await
}

pub async fn pair(app: &TestApp, name: &str) -> Paired {
    let code = create_code(app).await;
    let request = app.post("/api/auth/device/pair").anonymous().json(&claim(&code, name));
    let answer = request.send().await.expect_status(201).json();
    let text = |field: &str| answer[field].as_str().expect("a text").to_owned();
    assert_eq!(text("name"), name);
    Paired { id: text("device_id"), token: text("device_token") }
}

/// Returns the device as the list shows it.
pub async fn listed_device(app: &TestApp, id: &str) -> Value {
    let list = app.get("/api/devices").send().await.expect_status(200).json();
    let devices = list["devices"].as_array().expect("a list").clone();
    assert_eq!(list["total"], devices.len());
    devices.into_iter().find(|device| device["id"] == id).unwrap_or(Value::Null)
}

/// Waits until the list shows a device that satisfies the predicate.
pub async fn wait_for_listed(app: &TestApp, id: &str, predicate: impl Fn(&Value) -> bool) -> Value {
    let mut eventually = Eventually::new();
    loop {
        let device = listed_device(app, id).await;
        if predicate(&device) {
            return device;
        }
        eventually.retry().await;
    }
}

/// The device's side of its socket.
pub struct Socket(pub WebSocketStream<TcpStream>);

impl Socket {
    pub async fn try_open(app: &TestApp, token: &str) -> Result<Self, Error> {
        let stream = TcpStream::connect(app.address).await.expect("the daemon listens");
        let (socket, answer) =
            client_async(format!("ws://{}/api/devices/ws?token={token}", app.address), stream).await?;
        record::note("connect_device", answer.status().as_u16());
        assert!(answer.headers().contains_key("x-request-id"));
        Ok(Self(socket))
    }

    /// Connects and receives the greeting.
    pub async fn open(app: &TestApp, device: &Paired) -> Self {
        let mut socket = Self::try_open(app, &device.token).await.expect("the token is good");
        let hello = socket.next().await;
        assert_eq!((&hello["type"], &hello["device_id"]), (&json!("hello"), &json!(device.id)));
        socket
    }

    pub async fn send(&mut self, frame: &Value) {
        self.0.send(Message::text(frame.to_string())).await.expect("the frame is sent");
    }

    pub async fn send_text(&mut self, text: &str) {
        self.0.send(Message::text(text)).await.expect("the frame is sent");
    }

    async fn message(&mut self) -> Option<Result<Message, Error>> {
        tokio::time::timeout(FRAME_TIMEOUT, self.0.next()).await.expect("the daemon sends a message")
    }

    /// Returns the next frame.
    pub async fn next(&mut self) -> Value {
        loop {
            match self.message().await.expect("the socket is open").expect("a message") {
                Message::Text(text) => return serde_json::from_str(&text).expect("JSON"),
                Message::Ping(_) | Message::Pong(_) => {}
                other => panic!("{other:?} instead of a frame"),
            }
        }
    }

    /// Returns the close frame, ignoring earlier messages.
    pub async fn close_frame(&mut self) -> CloseFrame {
        loop {
            match self.message().await {
                Some(Ok(Message::Close(Some(frame)))) => return frame,
                Some(Ok(_)) => {}
                other => panic!("{other:?} instead of a close frame"),
            }
        }
    }

    pub async fn register(&mut self, names: &[&str]) {
        let tool = |name: &&str| {
            json!({"name": name, "description": "Repeats its input.", "input_schema": {
                "type": "object", "properties": {"word": {"type": "string"}}, "additionalProperties": false,
            }})
        };
        let tools: Vec<Value> = names.iter().map(tool).collect();
        self.send(&json!({"type": "register_tools", "tools": tools})).await;
    }
}

/// Returns the status of a rejected connection.
pub fn rejection_status(outcome: Result<Socket, Error>) -> u16 {
    match outcome {
        Err(Error::Http(answer)) => answer.status().as_u16(),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("the socket opened"),
    }
}

/// Trusts the `X-Forwarded-For` header of the tests.
pub fn behind_proxy(source: &mut ConfigSource) {
    source.trusted_proxies = Some("127.0.0.1".to_owned());
}
