//! One session from its first message to its end.

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
/// Ends a connection, and no session.
const CLOSE_AND_RESUME: u16 = 4000;
/// After the end of a session, Discord wants a pause of one to five seconds before the next.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_SPREAD: Duration = Duration::from_secs(4);

/// Numbers of what is sent and what comes.
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

/// A session of the Gateway, as far as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Place {
    pub(super) session_id: String,
    pub(super) url: String,
    /// Of the last event that was stored.
    pub(super) sequence: u64,
    /// The user that the bot is.
    pub(super) user: String,
    /// Tells the bot's token from others.
    pub(super) token: String,
}

/// As it is kept for later.
pub(super) fn kept(place: &Place) -> String {
    serde_json::to_string(place).unwrap_or_default()
}

pub(super) struct Session {
    discord: Arc<Discord>,
    link: Link,
    socket: WebSocket,
    place: Option<Place>,
    /// Tells the bot's token from others.
    token: String,
    unit: f64,
    /// The last event that came.
    received: Option<u64>,
    waiting: VecDeque<Waiting>,
    answers: Answers,
    is_acknowledged: bool,
}

/// An event that is not stored yet.
struct Waiting {
    sequence: Option<u64>,
    answer: Option<Answer>,
}

/// What an interaction is answered.
struct Answer {
    id: String,
    token: String,
    body: Value,
}

impl Session {
    pub(super) fn new(
        discord: Arc<Discord>,
        link: Link,
        socket: WebSocket,
        place: Option<Place>,
        token: String,
        unit: f64,
    ) -> Self {
        let received = place.as_ref().map(|place| place.sequence);
        let waiting = VecDeque::new();
        let answers = Answers::new();
        Self { discord, link, socket, place, token, unit, received, waiting, answers, is_acknowledged: true }
    }

    /// Until it ends.
    pub(super) async fn run(mut self, interval: Duration) -> Result<Infallible, Ended> {
        let ended = match self.keep(interval).await {
            Ok(never) => match never {},
            Err(ended) => ended,
        };
        // The session is there for some time still.
        self.socket.close(CLOSE_AND_RESUME).await;
        Err(ended)
    }

    async fn keep(&mut self, interval: Duration) -> Result<Infallible, Ended> {
        // Spread, so that not all bots beat at once after Discord was away.
        let mut beat_at = Instant::now() + interval.mul_f64(self.unit);
        loop {
            tokio::select! {
                _ = self.link.stored() => self.note_stored(),
                event = self.socket.next(), if self.link.has_room() => self.take(event?).await?,
                () = tokio::time::sleep_until(beat_at) => {
                    if !self.is_acknowledged {
                        return Err(Ended::later("Discord acknowledges no heartbeat any more"));
                    }
                    self.beat().await?;
                    beat_at = Instant::now() + interval;
                }
            }
        }
    }

    async fn beat(&mut self) -> Result<(), Ended> {
        self.is_acknowledged = false;
        let stored = self.place.as_ref().map(|place| place.sequence);
        Ok(self.socket.send(json!({"op": op::HEARTBEAT, "d": stored}).to_string()).await?)
    }

    async fn take(&mut self, event: WebSocketEvent) -> Result<(), Ended> {
        let text = match event {
            WebSocketEvent::Text(text) => text,
            WebSocketEvent::Alive => return Ok(()),
            WebSocketEvent::TooLarge => {
                // A resumed session would begin with the same.
                self.forget();
                return Err(Ended::later(format!("Discord sent more than {MAX_MESSAGE_BYTES} bytes at once")));
            }
            WebSocketEvent::Closed(code) => return Err(self.closed(code)),
        };
        let Ok(message) = serde_json::from_str::<Value>(&text) else { return Ok(()) };
        match message["op"].as_u64() {
            Some(op::DISPATCH) => self.dispatch(&message).await,
            Some(op::HEARTBEAT) => self.beat().await,
            Some(op::HEARTBEAT_ACK) => {
                self.is_acknowledged = true;
                Ok(())
            }
            Some(op::RECONNECT) => Err(Ended::expected()),
            Some(op::INVALID_SESSION) => {
                if message["d"] != true {
                    self.forget();
                }
                Err(Ended::expected().waiting(PAUSE + PAUSE_SPREAD.mul_f64(self.unit)))
            }
            _ => Ok(()),
        }
    }

    async fn dispatch(&mut self, message: &Value) -> Result<(), Ended> {
        let (data, sequence) = (&message["d"], message["s"].as_u64());
        self.received = sequence.or(self.received);
        match message["t"].as_str() {
            Some("READY") => self.begin(data).await?,
            Some("RESUMED") => self.link.connected().await,
            Some("MESSAGE_CREATE") => {
                let user = self.place.as_ref().map(|place| place.user.as_str()).unwrap_or_default();
                if let Some(message) = self.discord.read_gateway_message(data, user) {
                    self.deliver(sequence, vec![Incoming::Message(message)], None).await;
                }
            }
            Some("INTERACTION_CREATE") => {
                let Received { answer, incoming } = self.discord.read(data, self.discord.clock.now());
                let body = serde_json::from_slice(&answer.body).unwrap_or_default();
                let answer = id(&data["id"]).zip(id(&data["token"])).map(|(id, token)| Answer { id, token, body });
                if incoming.is_empty() {
                    self.answer(answer);
                } else {
                    self.deliver(sequence, incoming, answer).await;
                }
            }
            _ => {}
        }
        self.keep_place();
        Ok(())
    }

    async fn begin(&mut self, ready: &Value) -> Result<(), Ended> {
        let place = || {
            Some(Place {
                session_id: id(&ready["session_id"])?,
                url: id(&ready["resume_gateway_url"])?,
                sequence: self.received?,
                user: id(&ready["user"]["id"])?,
                token: self.token.clone(),
            })
        };
        self.place = Some(place().ok_or_else(|| Ended::later("Discord began a session without saying which"))?);
        self.link.connected().await;
        Ok(())
    }

    async fn deliver(&mut self, sequence: Option<u64>, incoming: Vec<Incoming>, answer: Option<Answer>) {
        self.waiting.push_back(Waiting { sequence, answer });
        self.link.deliver(incoming).await;
    }

    fn note_stored(&mut self) {
        let Some(stored) = self.waiting.pop_front() else { return };
        if let (Some(place), Some(sequence)) = (&mut self.place, stored.sequence) {
            place.sequence = sequence;
        }
        self.answer(stored.answer);
        self.keep_place();
    }

    /// What is no message needs no storing, so the place moves on with it when nothing waits.
    fn keep_place(&mut self) {
        let Some(place) = &mut self.place else { return };
        if let Some(received) = self.received.filter(|_| self.link.is_idle()) {
            place.sequence = received;
        }
        self.link.set_resume(Some(kept(place)));
    }

    fn forget(&mut self) {
        self.place = None;
        self.link.set_resume(None);
    }

    /// Answers concurrently with the session, so that heartbeats continue.
    fn answer(&mut self, answer: Option<Answer>) {
        let Some(answer) = answer else { return };
        let discord = Arc::clone(&self.discord);
        self.answers.submit(async move { discord.answer_interaction(&answer.id, &answer.token, &answer.body).await });
    }

    /// What a code of Discord's means (<https://docs.discord.com/developers/topics/opcodes-and-status-codes>).
    fn closed(&mut self, code: Option<u16>) -> Ended {
        let refused = |text: &str| Ended::from(SendError::Credentials(text.to_owned()));
        match code {
            Some(4004) => refused("Discord does not know the bot's token; check channels.discord.bot_token"),
            Some(4010 | 4011) => refused("Discord wants the bot's connection to be split; it is in too many servers"),
            Some(4012) => refused("Discord has no Gateway of version 10 any more; a newer agentd is needed"),
            Some(4013) => refused("Discord takes the intents of the connection no more; a newer agentd is needed"),
            Some(4014) => refused(
                "Discord gives the bot no texts of messages; turn on Message Content Intent under Bot on the \
                 application's pages",
            ),
            // The sequence is none of the session, and the session is over.
            Some(4007 | 4009) => {
                self.forget();
                Ended::expected()
            }
            Some(4008) => Ended::later("Discord says that too much was sent"),
            _ => Ended::expected(),
        }
    }
}
