//! Fake Gateway: sessions that can be resumed, counted heartbeats, and events that are buffered until a heartbeat
//! acknowledges them.

use std::io;
use std::sync::Arc;

use agentd_chat_platforms::WebhookRequest;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedSender;

use super::{APPLICATION_ID, FakeDiscord};
use crate::socket::{FakeSocket, FromSocket, SocketServer, ToSocket};

/// Minimum intents of a bot that reads messages: server messages, direct messages and message contents.
const REQUIRED_INTENTS: u64 = 1 << 9 | 1 << 12 | 1 << 15;

/// Fault injected into the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GatewayFault {
    /// The connection is dropped without a close frame.
    Drop,
    /// The client is told to reconnect.
    Reconnect,
    /// The session is invalid, or must be resumed.
    InvalidSession { can_resume: bool },
    /// Heartbeats on this connection are no longer acknowledged.
    Deaf,
    /// The connection is closed with a code.
    Close(u16),
}

/// Control of the Gateway.
impl FakeDiscord {
    /// Pushes a message, in a server if one is given.
    pub fn push_message(&self, id: &str, sender: &str, channel: &str, server: Option<&str>, text: &str) {
        let mut data = json!({
            "id": id, "type": 0, "channel_id": channel, "content": text, "timestamp": "2026-01-05T09:00:00.000000+00:00",
            "author": {"id": sender, "username": "ada", "global_name": "Ada L."}, "mentions": [], "attachments": [],
        });
        if text.contains(&format!("<@{APPLICATION_ID}>")) {
            data["mentions"] = json!([{"id": APPLICATION_ID, "username": "fake-bot", "bot": true}]);
        }
        if let Some(server) = server {
            data["guild_id"] = json!(server);
        }
        self.gateway().push("MESSAGE_CREATE", &data);
    }

    /// Pushes the interaction of a request. It accepts messages once it was answered.
    #[allow(clippy::expect_used, reason = "for tests, which give what this fake made")]
    pub fn push(&self, request: &WebhookRequest) {
        let data: Value = serde_json::from_slice(&request.body).expect("an interaction");
        for interaction in &mut self.server.vendor().state.lock().interactions {
            interaction.is_unanswered |= data["token"] == *interaction.token;
        }
        self.gateway().push("INTERACTION_CREATE", &data);
    }

    /// Pushes any other event.
    pub fn push_event(&self, kind: &str, data: &Value) {
        self.gateway().push(kind, data);
    }

    /// Fault injected into the session.
    pub fn gateway_fault(&self, fault: GatewayFault) {
        self.gateway().fault(fault);
    }

    /// Sets the heartbeat interval of connections opened from now on.
    pub fn set_heartbeat_ms(&self, ms: u64) {
        self.gateway().set_heartbeat_ms(ms);
    }

    /// Sets the number of sessions that may still be started.
    pub fn set_sessions_left(&self, sessions: u64) {
        self.gateway().set_remaining(sessions);
    }

    /// Sets whether the bot receives message contents.
    pub fn set_message_content(&self, is_on: bool) {
        self.gateway().set_content(is_on);
    }

    /// Returns whether a session is connected, the number of sessions started, and the number of resumes.
    #[must_use]
    pub fn sessions(&self) -> (bool, usize, usize) {
        self.gateway().counts()
    }

    #[must_use]
    pub fn heartbeats(&self) -> usize {
        self.gateway().heartbeats()
    }

    /// Returns protocol violations of clients.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        self.gateway().problems()
    }

    fn gateway(&self) -> &Gateway {
        &self.server.vendor().gateway
    }
}

#[derive(Debug)]
struct Session {
    id: String,
    sequence: u64,
    /// Events not acknowledged by a heartbeat.
    events: Vec<Value>,
    /// Number and sender of its socket.
    socket: Option<(usize, UnboundedSender<ToSocket>)>,
    is_deaf: bool,
}

#[derive(Debug)]
struct Hub {
    token: String,
    url: String,
    sockets: usize,
    session: Option<Session>,
    heartbeat_ms: u64,
    heartbeats: usize,
    remaining: u64,
    has_content: bool,
    identified: usize,
    resumed: usize,
    problems: Vec<String>,
}

#[derive(Debug, Clone)]
pub(super) struct Gateway {
    hub: Arc<Mutex<Hub>>,
    _server: Arc<SocketServer>,
}

impl Gateway {
    pub(super) async fn start(token: &str) -> io::Result<Self> {
        let hub = Arc::new(Mutex::new(Hub {
            token: token.to_owned(),
            url: String::new(),
            sockets: 0,
            session: None,
            heartbeat_ms: 41_250,
            heartbeats: 0,
            remaining: 1000,
            has_content: true,
            identified: 0,
            resumed: 0,
            problems: Vec::new(),
        }));
        let shared = Arc::clone(&hub);
        let server = SocketServer::start(move |socket| serve(&shared, socket)).await?;
        hub.lock().url = format!("ws://{}", server.address);
        Ok(Self { hub, _server: Arc::new(server) })
    }

    /// Returns the response of `GET /gateway/bot`.
    pub(super) fn description(&self) -> Value {
        let hub = self.hub.lock();
        json!({"url": hub.url, "shards": 1, "session_start_limit": {
            "total": 1000, "remaining": hub.remaining, "reset_after": 14_400_000, "max_concurrency": 1,
        }})
    }

    pub(super) fn push(&self, kind: &str, data: &Value) {
        let mut hub = self.hub.lock();
        let Some(session) = &mut hub.session else { return };
        session.push(kind, data);
    }

    pub(super) fn fault(&self, fault: GatewayFault) {
        let mut hub = self.hub.lock();
        let Some(session) = &mut hub.session else { return };
        let order = match fault {
            GatewayFault::Drop => ToSocket::Drop,
            GatewayFault::Reconnect => ToSocket::Send(json!({"op": 7, "d": null})),
            GatewayFault::InvalidSession { can_resume } => ToSocket::Send(json!({"op": 9, "d": can_resume})),
            GatewayFault::Deaf => {
                session.is_deaf = true;
                return;
            }
            GatewayFault::Close(code) => ToSocket::Close(code),
        };
        if let Some((_, client)) = &session.socket {
            let _ = client.send(order);
        }
        let is_over = fault == GatewayFault::InvalidSession { can_resume: false }
            || matches!(fault, GatewayFault::Close(4007 | 4009));
        if is_over {
            hub.session = None;
        }
    }

    pub(super) fn set_heartbeat_ms(&self, ms: u64) {
        self.hub.lock().heartbeat_ms = ms;
    }

    pub(super) fn set_remaining(&self, sessions: u64) {
        self.hub.lock().remaining = sessions;
    }

    pub(super) fn set_content(&self, is_on: bool) {
        self.hub.lock().has_content = is_on;
    }

    /// Returns whether a session is connected, the number of sessions started, and the number of resumes.
    pub(super) fn counts(&self) -> (bool, usize, usize) {
        let hub = self.hub.lock();
        let is_open = hub.session.as_ref().is_some_and(|session| session.socket.is_some());
        (is_open, hub.identified, hub.resumed)
    }

    pub(super) fn heartbeats(&self) -> usize {
        self.hub.lock().heartbeats
    }

    pub(super) fn problems(&self) -> Vec<String> {
        self.hub.lock().problems.clone()
    }
}

impl Session {
    fn push(&mut self, kind: &str, data: &Value) {
        self.sequence += 1;
        let event = json!({"op": 0, "s": self.sequence, "t": kind, "d": data});
        self.events.push(event.clone());
        self.send(event);
    }

    fn send(&self, message: Value) {
        if let Some((_, client)) = &self.socket {
            let _ = client.send(ToSocket::Send(message));
        }
    }
}

fn serve(shared: &Arc<Mutex<Hub>>, mut socket: FakeSocket) {
    let mut hub = shared.lock();
    hub.sockets += 1;
    let number = hub.sockets;
    if socket.query != "v=10&encoding=json" {
        hub.problems.push(format!("the query {}", socket.query));
        let _ = socket.client.send(ToSocket::Close(4012));
        return;
    }
    let _ = socket.client.send(ToSocket::Send(json!({"op": 10, "d": {"heartbeat_interval": hub.heartbeat_ms}})));
    drop(hub);
    let shared = Arc::clone(shared);
    tokio::spawn(async move {
        let mut is_known = false;
        while let Some(event) = socket.events.recv().await {
            let mut hub = shared.lock();
            match event {
                FromSocket::Message(message) => {
                    if let Err(code) = hub.handle_message(&message, number, &socket.client, &mut is_known) {
                        hub.problems.push(format!("closed with {code}"));
                        let _ = socket.client.send(ToSocket::Close(code));
                    }
                }
                FromSocket::Pong => {}
                FromSocket::Disconnected(code) => hub.disconnect(number, code),
            }
        }
    });
}

impl Hub {
    /// Handles a client message. Returns the close code for an invalid one.
    fn handle_message(
        &mut self,
        message: &Value,
        number: usize,
        client: &UnboundedSender<ToSocket>,
        is_known: &mut bool,
    ) -> Result<(), u16> {
        let data = &message["d"];
        match message["op"].as_u64() {
            Some(1) => {
                self.heartbeats += 1;
                return self.handle_heartbeat(data, number, client);
            }
            Some(2 | 6) if *is_known => return Err(4005),
            Some(2 | 6) if data["token"] != *self.token => return Err(4004),
            Some(2) => self.identify(data, number, client)?,
            Some(6) => self.resume(data, number, client)?,
            _ if *is_known => return Err(4001),
            _ => return Err(4003),
        }
        *is_known = true;
        Ok(())
    }

    fn handle_heartbeat(&mut self, data: &Value, number: usize, client: &UnboundedSender<ToSocket>) -> Result<(), u16> {
        let is_own = |session: &&mut Session| session.socket.as_ref().is_some_and(|(own, _)| *own == number);
        if let Some(session) = self.session.as_mut().filter(is_own) {
            let seen = data.as_u64().unwrap_or_default();
            if seen > session.sequence {
                return Err(4007);
            }
            session.events.retain(|event| event["s"].as_u64() > Some(seen));
            if session.is_deaf {
                return Ok(());
            }
        }
        let _ = client.send(ToSocket::Send(json!({"op": 11})));
        Ok(())
    }

    fn identify(&mut self, data: &Value, number: usize, client: &UnboundedSender<ToSocket>) -> Result<(), u16> {
        let names = ["os", "browser", "device"].map(|name| data["properties"][name].is_string());
        let intents = data["intents"].as_u64().ok_or(4002_u16)?;
        if names != [true; 3] || intents & REQUIRED_INTENTS != REQUIRED_INTENTS {
            return Err(4002);
        }
        if !self.has_content {
            return Err(4014);
        }
        self.remaining = self.remaining.checked_sub(1).ok_or(4000_u16)?;
        self.identified += 1;
        let id = format!("session-{}", self.identified);
        let socket = Some((number, client.clone()));
        let mut session = Session { id: id.clone(), sequence: 0, events: Vec::new(), socket, is_deaf: false };
        session.push(
            "READY",
            &json!({
                "v": 10, "user": {"id": APPLICATION_ID, "username": "fake-bot", "bot": true}, "guilds": [],
                "session_id": id, "resume_gateway_url": self.url, "application": {"id": APPLICATION_ID, "flags": 0},
            }),
        );
        self.session = Some(session);
        Ok(())
    }

    fn resume(&mut self, data: &Value, number: usize, client: &UnboundedSender<ToSocket>) -> Result<(), u16> {
        let sequence = data["seq"].as_u64().ok_or(4002_u16)?;
        let Some(session) = self.session.as_mut().filter(|session| data["session_id"] == *session.id) else {
            let _ = client.send(ToSocket::Send(json!({"op": 9, "d": false})));
            return Ok(());
        };
        if sequence > session.sequence {
            self.session = None;
            return Err(4007);
        }
        session.socket = Some((number, client.clone()));
        session.is_deaf = false;
        for event in session.events.iter().filter(|event| event["s"].as_u64() > Some(sequence)) {
            session.send(event.clone());
        }
        session.push("RESUMED", &json!({}));
        self.resumed += 1;
        Ok(())
    }

    fn disconnect(&mut self, number: usize, code: Option<u16>) {
        let Some(session) = &mut self.session else { return };
        if session.socket.as_ref().is_none_or(|(own, _)| *own != number) {
            return;
        }
        session.socket = None;
        // These close codes end the session.
        if matches!(code, Some(1000 | 1001)) {
            self.session = None;
        }
    }
}
