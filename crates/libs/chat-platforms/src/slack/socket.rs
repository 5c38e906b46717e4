//! Socket Mode client (<https://docs.slack.dev/apis/events-api/using-socket-mode>).
//!
//! Invariants
//! - An envelope is acknowledged after its contents were stored, on the socket that delivered it. Slack redelivers
//!   unacknowledged envelopes, possibly on another socket.
//! - A connection is closed if Slack is silent for a minute despite a ping.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use agentd_net::{Trust, WebSocket, WebSocketEvent};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::Slack;
use crate::connection::{Ended, Link};
use crate::incoming_text::id;
use crate::outgoing::SendError;

const MAX_MESSAGE_BYTES: usize = 1 << 20;
/// Time limit for the `hello` message after connecting.
const HELLO_TIMEOUT: Duration = Duration::from_secs(15);
/// Idle time after which a ping is sent; after twice this time the connection is closed. Slack pings about twice as
/// often.
const PING_INTERVAL: Duration = Duration::from_secs(30);

/// Socket with its unacknowledged envelopes.
struct Session {
    link: Link,
    socket: WebSocket,
    /// Envelope IDs in order of delivery.
    unacknowledged: VecDeque<String>,
    is_leaving: bool,
}

impl Slack {
    pub(super) async fn run_socket(self: Arc<Self>, link: Link) -> Ended {
        let socket = match self.connect_socket().await {
            Ok(socket) => socket,
            Err(ended) => return ended,
        };
        link.connected().await;
        let mut session = Session { link, socket, unacknowledged: VecDeque::new(), is_leaving: false };
        match session.run(&self).await {
            Ok(never) => match never {},
            Err(ended) => ended,
        }
    }

    /// Connects and waits for `hello`.
    async fn connect_socket(&self) -> Result<WebSocket, Ended> {
        let token = self.config.app_token.as_ref().filter(|token| !token.is_empty()).ok_or_else(|| {
            SendError::NotSetUp("set channels.slack.app_token, which begins with xapp-, to connect".to_owned())
        })?;
        let url = self.open_socket(token).await?;
        // A custom API server is trusted by the owner, and so are the URLs that it returns.
        let is_custom_api = self.config.api_base_url.is_some();
        let client = self.client.with_trust(if is_custom_api { Trust::Owner } else { Trust::Untrusted });
        let mut socket = client.web_socket(&url, MAX_MESSAGE_BYTES).await?;
        let hello = async {
            loop {
                match socket.next().await? {
                    WebSocketEvent::Text(text) => match read(&text) {
                        Some(message) if message["type"] == "hello" => return Ok(()),
                        Some(message) if message["type"] == "disconnect" => return Err(ended_by(&message)),
                        _ => return Err(Ended::later("Slack opened a connection without a hello message")),
                    },
                    WebSocketEvent::Alive => {}
                    WebSocketEvent::Closed(_) | WebSocketEvent::TooLarge => {
                        return Err(Ended::later("Slack closed a connection before its hello message"));
                    }
                }
            }
        };
        match tokio::time::timeout(HELLO_TIMEOUT, hello).await {
            Ok(received) => received.map(|()| socket),
            Err(_) => Err(Ended::later("Slack sent no hello message in time")),
        }
    }
}

impl Session {
    /// Runs the session until it ends.
    async fn run(&mut self, slack: &Slack) -> Result<std::convert::Infallible, Ended> {
        let (mut received_at, mut is_pinged) = (Instant::now(), false);
        loop {
            let silence = received_at + if is_pinged { PING_INTERVAL * 2 } else { PING_INTERVAL };
            tokio::select! {
                _ = self.link.stored() => self.acknowledge().await?,
                event = self.socket.next(), if self.link.has_capacity() => {
                    (received_at, is_pinged) = (Instant::now(), false);
                    self.handle_event(slack, event?).await?;
                }
                () = tokio::time::sleep_until(silence) => {
                    if is_pinged {
                        return Err(Ended::later("Slack stopped responding"));
                    }
                    self.socket.ping().await?;
                    is_pinged = true;
                }
            }
        }
    }

    async fn acknowledge(&mut self) -> Result<(), Ended> {
        if let Some(envelope) = self.unacknowledged.pop_front() {
            self.socket.send(json!({"envelope_id": envelope}).to_string()).await?;
        }
        Ok(())
    }

    async fn handle_event(&mut self, slack: &Slack, event: WebSocketEvent) -> Result<(), Ended> {
        let text = match event {
            WebSocketEvent::Text(text) => text,
            WebSocketEvent::Alive => return Ok(()),
            WebSocketEvent::TooLarge => {
                return Err(Ended::later(format!("Slack sent a message of more than {MAX_MESSAGE_BYTES} bytes")));
            }
            WebSocketEvent::Closed(_) => return Err(Ended::expected()),
        };
        // Invalid JSON cannot be acknowledged.
        let Some(message) = read(&text) else { return Ok(()) };
        if message["type"] == "disconnect" {
            let ended = ended_by(&message);
            if ended.error.is_some() {
                return Err(ended);
            }
            if !std::mem::replace(&mut self.is_leaving, true) {
                self.link.leaving().await;
            }
            return Ok(());
        }
        let Some(envelope) = id(&message["envelope_id"]) else { return Ok(()) };
        let incoming = slack.read(&message["payload"]).incoming;
        if incoming.is_empty() {
            self.socket.send(json!({"envelope_id": envelope}).to_string()).await?;
        } else {
            self.unacknowledged.push_back(envelope);
            self.link.deliver(incoming).await;
        }
        Ok(())
    }
}

fn read(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok()
}

fn ended_by(disconnect: &Value) -> Ended {
    if disconnect["reason"] == "link_disabled" {
        let text = "Socket Mode is disabled for the Slack app; enable it under Socket Mode in the app settings";
        return SendError::Credentials(text.to_owned()).into();
    }
    Ended::expected()
}
