//! Socket Mode: what would be requests come over a WebSocket (<https://docs.slack.dev/apis/events-api/using-socket-mode>).
//!
//! Invariants
//! - An envelope is acknowledged after what is in it was stored, and over the socket that it came by. Slack sends again
//!   what is not acknowledged, also by another socket.
//! - Where Slack says nothing for a minute, though it is asked, the connection is given up.

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
/// From a socket to its greeting.
const GREETING_TIME: Duration = Duration::from_secs(15);
/// Slack sends a ping about twice as often. After this it is asked, and after twice this it is gone.
const SILENCE: Duration = Duration::from_secs(30);

/// One socket, and the envelopes of it that are not acknowledged yet.
struct Session {
    link: Link,
    socket: WebSocket,
    /// In the order of the batches.
    waiting: VecDeque<String>,
    is_leaving: bool,
}

impl Slack {
    pub(super) async fn keep_socket(self: Arc<Self>, link: Link) -> Ended {
        let socket = match self.connect_socket().await {
            Ok(socket) => socket,
            Err(ended) => return ended,
        };
        link.connected().await;
        let mut session = Session { link, socket, waiting: VecDeque::new(), is_leaving: false };
        match session.run(&self).await {
            Ok(never) => match never {},
            Err(ended) => ended,
        }
    }

    /// A socket that Slack has greeted.
    async fn connect_socket(&self) -> Result<WebSocket, Ended> {
        let token = self.config.app_token.as_ref().filter(|token| !token.is_empty()).ok_or_else(|| {
            SendError::NotSetUp("set channels.slack.app_token, which begins with xapp-, to connect".to_owned())
        })?;
        let url = self.open_socket(token).await?;
        // The owner vouches for what a server that he named himself names.
        let is_named = self.config.api_base_url.is_some();
        let client = self.client.with_trust(if is_named { Trust::Owner } else { Trust::Steered });
        let mut socket = client.web_socket(&url, MAX_MESSAGE_BYTES).await?;
        let greeting = async {
            loop {
                match socket.next().await? {
                    WebSocketEvent::Text(text) => match read(&text) {
                        Some(message) if message["type"] == "hello" => return Ok(()),
                        Some(message) if message["type"] == "disconnect" => return Err(ended_by(&message)),
                        _ => return Err(Ended::later("Slack opened a socket without a greeting")),
                    },
                    WebSocketEvent::Alive => {}
                    WebSocketEvent::Closed(_) | WebSocketEvent::TooLarge => {
                        return Err(Ended::later("Slack ended a socket before its greeting"));
                    }
                }
            }
        };
        match tokio::time::timeout(GREETING_TIME, greeting).await {
            Ok(greeted) => greeted.map(|()| socket),
            Err(_) => Err(Ended::later("Slack opened a socket and said nothing")),
        }
    }
}

impl Session {
    /// Until it ends.
    async fn run(&mut self, slack: &Slack) -> Result<std::convert::Infallible, Ended> {
        let (mut heard_at, mut is_asked) = (Instant::now(), false);
        loop {
            let silence = heard_at + if is_asked { SILENCE * 2 } else { SILENCE };
            tokio::select! {
                _ = self.link.stored() => self.acknowledge().await?,
                event = self.socket.next(), if self.link.has_room() => {
                    (heard_at, is_asked) = (Instant::now(), false);
                    self.take(slack, event?).await?;
                }
                () = tokio::time::sleep_until(silence) => {
                    if is_asked {
                        return Err(Ended::later("Slack says nothing any more"));
                    }
                    self.socket.ping().await?;
                    is_asked = true;
                }
            }
        }
    }

    async fn acknowledge(&mut self) -> Result<(), Ended> {
        if let Some(envelope) = self.waiting.pop_front() {
            self.socket.send(json!({"envelope_id": envelope}).to_string()).await?;
        }
        Ok(())
    }

    async fn take(&mut self, slack: &Slack, event: WebSocketEvent) -> Result<(), Ended> {
        let text = match event {
            WebSocketEvent::Text(text) => text,
            WebSocketEvent::Alive => return Ok(()),
            WebSocketEvent::TooLarge => {
                return Err(Ended::later(format!("Slack sent more than {MAX_MESSAGE_BYTES} bytes at once")));
            }
            WebSocketEvent::Closed(_) => return Err(Ended::expected()),
        };
        // Nothing that can be acknowledged, or that anybody could make sense of.
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
            self.waiting.push_back(envelope);
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
        let text = "Slack has Socket Mode switched off for the app; turn it on under Socket Mode on the app's pages";
        return SendError::Credentials(text.to_owned()).into();
    }
    Ended::expected()
}
