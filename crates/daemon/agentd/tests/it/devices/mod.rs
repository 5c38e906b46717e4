//! Devices: pairing, the socket, their tools in the hands of agents, and the machine that joins.

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

/// A frame that has not come by then never comes.
const PATIENCE: Duration = Duration::from_secs(120);

/// A paired device.
pub struct Paired {
    pub id: String,
    pub token: String,
}

pub async fn make_code(app: &TestApp) -> String {
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
    let code = make_code(app).await;
    let request = app.post("/api/auth/device/pair").anonymous().json(&claim(&code, name));
    let answer = request.send().await.expect_status(201).json();
    let text = |field: &str| answer[field].as_str().expect("a text").to_owned();
    assert_eq!(text("name"), name);
    Paired { id: text("device_id"), token: text("device_token") }
}

/// The device as the list shows it.
pub async fn shown(app: &TestApp, id: &str) -> Value {
    let list = app.get("/api/devices").send().await.expect_status(200).json();
    let devices = list["devices"].as_array().expect("a list").clone();
    assert_eq!(list["total"], devices.len());
    devices.into_iter().find(|device| device["id"] == id).unwrap_or(Value::Null)
}

/// Waits until the list shows a device as it should be.
pub async fn until_shown(app: &TestApp, id: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let mut eventually = Eventually::new();
    loop {
        let device = shown(app, id).await;
        if is_so(&device) {
            return device;
        }
        eventually.look_again().await;
    }
}

/// The device's end of its socket.
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

    /// Connected and greeted.
    pub async fn open(app: &TestApp, device: &Paired) -> Self {
        let mut socket = Self::try_open(app, &device.token).await.expect("the token is good");
        let hello = socket.next().await;
        assert_eq!((&hello["type"], &hello["device_id"]), (&json!("hello"), &json!(device.id)));
        socket
    }

    pub async fn send(&mut self, frame: &Value) {
        self.0.send(Message::text(frame.to_string())).await.expect("the daemon takes it");
    }

    pub async fn send_text(&mut self, text: &str) {
        self.0.send(Message::text(text)).await.expect("the daemon takes it");
    }

    async fn message(&mut self) -> Option<Result<Message, Error>> {
        tokio::time::timeout(PATIENCE, self.0.next()).await.expect("the daemon says something")
    }

    /// The next frame.
    pub async fn next(&mut self) -> Value {
        loop {
            match self.message().await.expect("the socket is open").expect("a message") {
                Message::Text(text) => return serde_json::from_str(&text).expect("JSON"),
                Message::Ping(_) | Message::Pong(_) => {}
                other => panic!("{other:?} instead of a frame"),
            }
        }
    }

    /// The close frame, everything before it passed over.
    pub async fn closed(&mut self) -> CloseFrame {
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

/// The status of a refused connection.
pub fn refusal(outcome: Result<Socket, Error>) -> u16 {
    match outcome {
        Err(Error::Http(answer)) => answer.status().as_u16(),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("the socket opened"),
    }
}

/// Believes the `X-Forwarded-For` of a test.
pub fn behind_proxy(source: &mut ConfigSource) {
    source.trusted_proxies = Some("127.0.0.1".to_owned());
}
