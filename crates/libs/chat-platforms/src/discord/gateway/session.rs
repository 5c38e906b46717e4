//! Gateway session.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use agentd_net::{WebSocket, WebSocketEvent};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::super::Discord;
use super::answers::Answers;
use crate::connection::{Ended, Link};
use crate::incoming_text::id;
use crate::message::Incoming;
use crate::outgoing::SendError;
use crate::webhook::Received;

pub(super) const MAX_MESSAGE_BYTES: usize = 1 << 20;
/// Close code that ends the connection but not the session.
const CLOSE_AND_RESUME: u16 = 4000;
/// Minimum delay after an invalidated session; Discord requires one to five seconds.
const RESTART_DELAY: Duration = Duration::from_secs(1);
const RESTART_JITTER: Duration = Duration::from_secs(4);

/// Gateway opcodes.
pub(super) mod op {
    pub(crate) const DISPATCH: u64 = 0;
    pub(crate) const HEARTBEAT: u64 = 1;
    pub(crate) const IDENTIFY: u64 = 2;
    pub(crate) const RESUME: u64 = 6;
    pub(crate) const RECONNECT: u64 = 7;
    pub(crate) const INVALID_SESSION: u64 = 9;
    pub(crate) const HELLO: u64 = 10;
    pub(crate) const HEARTBEAT_ACK: u64 = 11;
}

/// Point from which a session is resumed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ResumePoint {
    pub(super) session_id: String,
    pub(super) url: String,
    /// Sequence number of the last stored event.
    pub(super) sequence: u64,
    /// User ID of the bot.
    pub(super) user: String,
    /// Digest of the bot token, which detects a changed token.
    pub(super) token: String,
}

/// Serializes a resume point.
pub(super) fn serialize_resume_point(resume_point: &ResumePoint) -> String {
    serde_json::to_string(resume_point).unwrap_or_default()
}

pub(super) struct Session {
    discord: Arc<Discord>,
    link: Link,
    socket: WebSocket,
    resume_point: Option<ResumePoint>,
    /// Digest of the bot token, which detects a changed token.
    token: String,
    unit: f64,
    /// Sequence number of the last received event.
    received: Option<u64>,
    pending: VecDeque<PendingEvent>,
    answers: Answers,
    is_acknowledged: bool,
}

/// Event that is not stored yet.
struct PendingEvent {
    sequence: Option<u64>,
    answer: Option<InteractionResponse>,
}

/// Response to an interaction.
struct InteractionResponse {
    id: String,
    token: String,
    body: Value,
}

impl Session {
    pub(super) fn new(
        discord: Arc<Discord>,
        link: Link,
        socket: WebSocket,
        resume_point: Option<ResumePoint>,
        token: String,
        unit: f64,
    ) -> Self {
        let received = resume_point.as_ref().map(|resume_point| resume_point.sequence);
        let pending = VecDeque::new();
        let answers = Answers::new();
        Self { discord, link, socket, resume_point, token, unit, received, pending, answers, is_acknowledged: true }
    }

    /// Runs the session until it ends.
    pub(super) async fn run(mut self, interval: Duration) -> Result<Infallible, Ended> {
        let ended = match self.process_events(interval).await {
            Ok(never) => match never {},
            Err(ended) => ended,
        };
        // The session can be resumed for some time.
        self.socket.close(CLOSE_AND_RESUME).await;
        Err(ended)
    }

    async fn process_events(&mut self, interval: Duration) -> Result<Infallible, Ended> {
        // Jitter, so that bots do not send heartbeats in step after an outage.
        let mut heartbeat_at = Instant::now() + interval.mul_f64(self.unit);
        loop {
            tokio::select! {
                _ = self.link.stored() => self.record_stored(),
                event = self.socket.next(), if self.link.has_capacity() => self.handle_event(event?).await?,
                () = tokio::time::sleep_until(heartbeat_at) => {
                    if !self.is_acknowledged {
                        return Err(Ended::later("Discord stopped acknowledging heartbeats"));
                    }
                    self.send_heartbeat().await?;
                    heartbeat_at = Instant::now() + interval;
                }
            }
        }
    }

    async fn send_heartbeat(&mut self) -> Result<(), Ended> {
        self.is_acknowledged = false;
        let stored = self.resume_point.as_ref().map(|resume_point| resume_point.sequence);
        Ok(self.socket.send(json!({"op": op::HEARTBEAT, "d": stored}).to_string()).await?)
    }

    async fn handle_event(&mut self, event: WebSocketEvent) -> Result<(), Ended> {
        let text = match event {
            WebSocketEvent::Text(text) => text,
            WebSocketEvent::Alive => return Ok(()),
            WebSocketEvent::TooLarge => {
                // A resumed session would start with the same event.
                self.discard_session();
                return Err(Ended::later(format!("Discord sent a message of more than {MAX_MESSAGE_BYTES} bytes")));
            }
            WebSocketEvent::Closed(code) => return Err(self.close_reason(code)),
        };
        let Ok(message) = serde_json::from_str::<Value>(&text) else { return Ok(()) };
        match message["op"].as_u64() {
            Some(op::DISPATCH) => self.dispatch(&message).await,
            Some(op::HEARTBEAT) => self.send_heartbeat().await,
            Some(op::HEARTBEAT_ACK) => {
                self.is_acknowledged = true;
                Ok(())
            }
            Some(op::RECONNECT) => Err(Ended::expected()),
            Some(op::INVALID_SESSION) => {
                if message["d"] != true {
                    self.discard_session();
                }
                Err(Ended::expected().waiting(RESTART_DELAY + RESTART_JITTER.mul_f64(self.unit)))
            }
            _ => Ok(()),
        }
    }

    async fn dispatch(&mut self, message: &Value) -> Result<(), Ended> {
        let (data, sequence) = (&message["d"], message["s"].as_u64());
        self.received = sequence.or(self.received);
        match message["t"].as_str() {
            Some("READY") => self.start_session(data).await?,
            Some("RESUMED") => self.link.connected().await,
            Some("MESSAGE_CREATE") => {
                let user =
                    self.resume_point.as_ref().map(|resume_point| resume_point.user.as_str()).unwrap_or_default();
                if let Some(message) = self.discord.read_gateway_message(data, user) {
                    self.deliver(sequence, vec![Incoming::Message(message)], None).await;
                }
            }
            Some("INTERACTION_CREATE") => {
                let Received { answer, incoming } = self.discord.read(data, self.discord.clock.now());
                let body = serde_json::from_slice(&answer.body).unwrap_or_default();
                let answer =
                    id(&data["id"]).zip(id(&data["token"])).map(|(id, token)| InteractionResponse { id, token, body });
                if incoming.is_empty() {
                    self.respond(answer);
                } else {
                    self.deliver(sequence, incoming, answer).await;
                }
            }
            _ => {}
        }
        self.advance_resume_point();
        Ok(())
    }

    async fn start_session(&mut self, ready: &Value) -> Result<(), Ended> {
        let resume_point = || {
            Some(ResumePoint {
                session_id: id(&ready["session_id"])?,
                url: id(&ready["resume_gateway_url"])?,
                sequence: self.received?,
                user: id(&ready["user"]["id"])?,
                token: self.token.clone(),
            })
        };
        self.resume_point =
            Some(resume_point().ok_or_else(|| Ended::later("Discord sent a Ready event without a session id"))?);
        self.link.connected().await;
        Ok(())
    }

    async fn deliver(&mut self, sequence: Option<u64>, incoming: Vec<Incoming>, answer: Option<InteractionResponse>) {
        self.pending.push_back(PendingEvent { sequence, answer });
        self.link.deliver(incoming).await;
    }

    fn record_stored(&mut self) {
        let Some(stored) = self.pending.pop_front() else { return };
        if let (Some(resume_point), Some(sequence)) = (&mut self.resume_point, stored.sequence) {
            resume_point.sequence = sequence;
        }
        self.respond(stored.answer);
        self.advance_resume_point();
    }

    /// Advances the resume point past events that need no storing, if no event is pending.
    fn advance_resume_point(&mut self) {
        let Some(resume_point) = &mut self.resume_point else { return };
        if let Some(received) = self.received.filter(|_| self.link.is_idle()) {
            resume_point.sequence = received;
        }
        self.link.set_resume(Some(serialize_resume_point(resume_point)));
    }

    fn discard_session(&mut self) {
        self.resume_point = None;
        self.link.set_resume(None);
    }

    /// Sends the response concurrently with the session, so that heartbeats continue.
    fn respond(&mut self, answer: Option<InteractionResponse>) {
        let Some(answer) = answer else { return };
        let discord = Arc::clone(&self.discord);
        self.answers.submit(async move { discord.answer_interaction(&answer.id, &answer.token, &answer.body).await });
    }

    /// Interprets a close code (<https://docs.discord.com/developers/topics/opcodes-and-status-codes>).
    fn close_reason(&mut self, code: Option<u16>) -> Ended {
        let refused = |text: &str| Ended::from(SendError::Credentials(text.to_owned()));
        match code {
            Some(4004) => refused("Discord rejected the bot token; check channels.discord.bot_token"),
            Some(4010 | 4011) => refused(
                "Discord requires sharding because the bot is in too many servers, which agentd does not support",
            ),
            Some(4012) => refused("Discord no longer supports Gateway version 10; update agentd"),
            Some(4013) => refused("Discord no longer accepts the Gateway intents of agentd; update agentd"),
            Some(4014) => refused(
                "Discord denied the bot message contents; enable Message Content Intent under Bot in the developer \
                 portal",
            ),
            // Invalid sequence, or the session timed out.
            Some(4007 | 4009) => {
                self.discard_session();
                Ended::expected()
            }
            Some(4008) => Ended::later("Discord closed the connection: too many messages were sent"),
            _ => Ended::expected(),
        }
    }
}
