//! The Gateway: messages, commands and pressed buttons come over a WebSocket
//! (<https://docs.discord.com/developers/events/gateway>).
//!
//! Invariants
//! - Discord keeps events for a session that is away for a while. A session is resumed after the last event that was
//!   stored, and heartbeats name that one as well, so what was not stored comes again.
//! - A heartbeat that is not acknowledged before the next is due ends the connection.
//! - A connection is never closed with 1000 or 1001: those would end the session.
//! - New sessions are limited by the day. When none is left, nothing begins one before the limit ends.

mod answers;
mod message;
mod session;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use agentd_net::{Trust, WebSocket, WebSocketEvent};
use http::Method;
use serde_json::{Value, json};
use url::Url;

use super::Discord;
use crate::connection::{Ended, Link, Opening};
use crate::outgoing::SendError;
use session::{MAX_MESSAGE_BYTES, Place, Session, kept, op};

/// From a socket to its greeting.
const GREETING_TIME: Duration = Duration::from_secs(15);
/// `GUILD_MESSAGES`, `DIRECT_MESSAGES`, `MESSAGE_CONTENT`.
const INTENTS: u64 = 1 << 9 | 1 << 12 | 1 << 15;
/// Maximum wait for a new session; Discord resets the limit within a day.
const MAX_SESSION_WAIT: Duration = Duration::from_hours(24);
const DEFAULT_SESSION_WAIT_MS: u64 = 60_000;
/// Intervals of heartbeats that make sense.
const INTERVALS_MS: (u64, u64) = (50, 300_000);

impl Discord {
    pub(super) async fn keep_session(self: Arc<Self>, link: Link, opening: Opening) -> Ended {
        match self.session(link, opening).await {
            Ok(never) => match never {},
            Err(ended) => ended,
        }
    }

    async fn session(self: Arc<Self>, link: Link, opening: Opening) -> Result<std::convert::Infallible, Ended> {
        let token = self.config.bot_token.as_ref().filter(|token| !token.is_empty());
        let token = token.ok_or_else(|| SendError::NotSetUp("set channels.discord.bot_token to connect".to_owned()))?;
        let mark = hex::encode(&token.sha256()[..8]);
        let place = opening.resume.as_deref().and_then(|text| serde_json::from_str::<Place>(text).ok());
        let place = place.filter(|place| place.token == mark);
        link.set_resume(place.as_ref().map(kept));
        let mut socket = self.gateway_socket(place.as_ref()).await?;
        let interval = greeting(&mut socket).await?;
        let first = match &place {
            Some(place) => json!({"op": op::RESUME, "d": {
                "token": token.expose(), "session_id": place.session_id, "seq": place.sequence,
            }}),
            None => json!({"op": op::IDENTIFY, "d": {
                "token": token.expose(), "intents": INTENTS,
                "properties": {"os": std::env::consts::OS, "browser": "agentd", "device": "agentd"},
            }}),
        };
        socket.send(first.to_string()).await?;
        Session::new(self, link, socket, place, mark, opening.unit).run(interval).await
    }

    /// Where the session was, or else wherever the Gateway is.
    async fn gateway_socket(&self, place: Option<&Place>) -> Result<WebSocket, Ended> {
        if let Some(place) = place
            && let Ok(socket) = self.open_gateway(&place.url).await
        {
            return Ok(socket);
        }
        let gateway = self.call_as_bot(Method::GET, &["gateway", "bot"], None).await?;
        let limit = &gateway["session_start_limit"];
        if place.is_none() && limit["remaining"] == 0 {
            let wait = session_wait(limit);
            let text = "Discord lets the bot begin no more sessions for now; it is tried again when the limit ends";
            return Err(Ended::later(text).waiting(wait));
        }
        let url = gateway["url"].as_str();
        let url = url.ok_or_else(|| Ended::later("Discord answered without the address of its Gateway"))?;
        self.open_gateway(url).await
    }

    async fn open_gateway(&self, url: &str) -> Result<WebSocket, Ended> {
        // The owner vouches for what a server that he named himself names.
        let base = self.config.api_base_url.as_ref();
        let trust = if base.is_some() { Trust::Owner } else { Trust::Steered };
        let is_plain = base.is_some_and(|base| base.scheme() == "http");
        let url = Url::parse(url).ok().filter(|url| url.scheme() == "wss" || (is_plain && url.scheme() == "ws"));
        let mut url = url.ok_or_else(|| Ended::later("Discord named an address that is none of a socket"))?;
        url.query_pairs_mut().clear().append_pair("v", "10").append_pair("encoding", "json");
        Ok(self.client.with_trust(trust).web_socket(&url, MAX_MESSAGE_BYTES).await?)
    }

    /// Answers an interaction that came over the Gateway.
    async fn answer_interaction(&self, id: &str, token: &str, answer: &Value) {
        if let Err(error) = self.call_back(id, token, answer).await {
            tracing::info!(%error, "Discord took no answer to an interaction; what comes of it is written all the same");
        }
    }
}

/// The time after which Discord lets the bot begin sessions again.
fn session_wait(limit: &Value) -> Duration {
    Duration::from_millis(limit["reset_after"].as_u64().unwrap_or(DEFAULT_SESSION_WAIT_MS)).min(MAX_SESSION_WAIT)
}

/// How often Discord wants a heartbeat.
async fn greeting(socket: &mut WebSocket) -> Result<Duration, Ended> {
    let hello = async {
        loop {
            match socket.next().await? {
                WebSocketEvent::Text(text) => {
                    let hello: Value = serde_json::from_str(&text).unwrap_or_default();
                    let interval = hello["d"]["heartbeat_interval"].as_u64().filter(|_| hello["op"] == op::HELLO);
                    let interval = interval.ok_or_else(|| Ended::later("Discord opened a socket without a greeting"));
                    return interval.map(|ms| Duration::from_millis(ms.clamp(INTERVALS_MS.0, INTERVALS_MS.1)));
                }
                WebSocketEvent::Alive => {}
                WebSocketEvent::Closed(_) | WebSocketEvent::TooLarge => {
                    return Err(Ended::later("Discord ended a socket before its greeting"));
                }
            }
        }
    };
    let late = |_| Ended::later("Discord opened a socket and said nothing");
    tokio::time::timeout(GREETING_TIME, hello).await.map_err(late)?
}
