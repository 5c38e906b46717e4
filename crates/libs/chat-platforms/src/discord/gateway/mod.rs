//! Gateway client: receives messages, commands and button presses over a WebSocket
//! (<https://docs.discord.com/developers/events/gateway>).
//!
//! Invariants
//! - Discord buffers events of a disconnected session. A session is resumed after the last stored event, which
//!   heartbeats acknowledge as well, so that unstored events are redelivered.
//! - A heartbeat that is not acknowledged before the next one is due ends the connection.
//! - A connection is never closed with 1000 or 1001: those would end the session.
//! - The number of new sessions per day is limited. Once exhausted, none is started before the limit resets.

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
use crate::connection::{ConnectOptions, Ended, Link};
use crate::outgoing::SendError;
use session::{MAX_MESSAGE_BYTES, ResumePoint, Session, op, serialize_resume_point};

/// Time limit for the `Hello` message after connecting.
const HELLO_TIMEOUT: Duration = Duration::from_secs(15);
/// `GUILD_MESSAGES`, `DIRECT_MESSAGES`, `MESSAGE_CONTENT`.
const INTENTS: u64 = 1 << 9 | 1 << 12 | 1 << 15;
/// Maximum wait for a new session; Discord resets the limit within a day.
const MAX_SESSION_WAIT: Duration = Duration::from_hours(24);
const DEFAULT_SESSION_WAIT_MS: u64 = 60_000;
/// Accepted range of heartbeat intervals.
const HEARTBEAT_RANGE_MS: (u64, u64) = (50, 300_000);

impl Discord {
    pub(super) async fn run_gateway(self: Arc<Self>, link: Link, options: ConnectOptions) -> Ended {
        match self.run_session(link, options).await {
            Ok(never) => match never {},
            Err(ended) => ended,
        }
    }

    async fn run_session(
        self: Arc<Self>,
        link: Link,
        options: ConnectOptions,
    ) -> Result<std::convert::Infallible, Ended> {
        let token = self.config.bot_token.as_ref().filter(|token| !token.is_empty());
        let token = token.ok_or_else(|| SendError::NotSetUp("set channels.discord.bot_token to connect".to_owned()))?;
        let token_digest = hex::encode(&token.sha256()[..8]);
        let resume_point = options.resume.as_deref().and_then(|text| serde_json::from_str::<ResumePoint>(text).ok());
        let resume_point = resume_point.filter(|resume_point| resume_point.token == token_digest);
        link.set_resume(resume_point.as_ref().map(serialize_resume_point));
        let mut socket = self.gateway_socket(resume_point.as_ref()).await?;
        let interval = receive_hello(&mut socket).await?;
        let first = match &resume_point {
            Some(resume_point) => json!({"op": op::RESUME, "d": {
                "token": token.expose(), "session_id": resume_point.session_id, "seq": resume_point.sequence,
            }}),
            None => json!({"op": op::IDENTIFY, "d": {
                "token": token.expose(), "intents": INTENTS,
                "properties": {"os": std::env::consts::OS, "browser": "agentd", "device": "agentd"},
            }}),
        };
        socket.send(first.to_string()).await?;
        Session::new(self, link, socket, resume_point, token_digest, options.unit).run(interval).await
    }

    /// Connects to the resume URL, or else to the current Gateway URL.
    async fn gateway_socket(&self, resume_point: Option<&ResumePoint>) -> Result<WebSocket, Ended> {
        if let Some(resume_point) = resume_point
            && let Ok(socket) = self.open_gateway(&resume_point.url).await
        {
            return Ok(socket);
        }
        let gateway = self.call_as_bot(Method::GET, &["gateway", "bot"], None).await?;
        let limit = &gateway["session_start_limit"];
        if resume_point.is_none() && limit["remaining"] == 0 {
            let wait = session_wait(limit);
            let text = "Discord session limit reached; the connection is retried when the limit resets";
            return Err(Ended::later(text).waiting(wait));
        }
        let url = gateway["url"].as_str();
        let url = url.ok_or_else(|| Ended::later("Discord returned no Gateway URL"))?;
        self.open_gateway(url).await
    }

    async fn open_gateway(&self, url: &str) -> Result<WebSocket, Ended> {
        // A custom API server is trusted by the owner, and so are the URLs that it returns.
        let base = self.config.api_base_url.as_ref();
        let trust = if base.is_some() { Trust::Owner } else { Trust::Untrusted };
        let is_plain = base.is_some_and(|base| base.scheme() == "http");
        let url = Url::parse(url).ok().filter(|url| url.scheme() == "wss" || (is_plain && url.scheme() == "ws"));
        let mut url = url.ok_or_else(|| Ended::later("Discord returned an invalid Gateway URL"))?;
        url.query_pairs_mut().clear().append_pair("v", "10").append_pair("encoding", "json");
        Ok(self.client.with_trust(trust).web_socket(&url, MAX_MESSAGE_BYTES).await?)
    }

    /// Responds to an interaction received over the Gateway.
    async fn answer_interaction(&self, id: &str, token: &str, answer: &Value) {
        if let Err(error) = self.respond_to_interaction(id, token, answer).await {
            tracing::info!(%error, "Discord rejected interaction response");
        }
    }
}

/// Returns the time until the session limit resets.
fn session_wait(limit: &Value) -> Duration {
    Duration::from_millis(limit["reset_after"].as_u64().unwrap_or(DEFAULT_SESSION_WAIT_MS)).min(MAX_SESSION_WAIT)
}

/// Waits for `Hello` and returns the heartbeat interval.
async fn receive_hello(socket: &mut WebSocket) -> Result<Duration, Ended> {
    let hello = async {
        loop {
            match socket.next().await? {
                WebSocketEvent::Text(text) => {
                    let hello: Value = serde_json::from_str(&text).unwrap_or_default();
                    let interval = hello["d"]["heartbeat_interval"].as_u64().filter(|_| hello["op"] == op::HELLO);
                    let interval =
                        interval.ok_or_else(|| Ended::later("Discord opened a connection without a Hello event"));
                    return interval
                        .map(|ms| Duration::from_millis(ms.clamp(HEARTBEAT_RANGE_MS.0, HEARTBEAT_RANGE_MS.1)));
                }
                WebSocketEvent::Alive => {}
                WebSocketEvent::Closed(_) | WebSocketEvent::TooLarge => {
                    return Err(Ended::later("Discord closed a connection before its Hello event"));
                }
            }
        }
    };
    let late = |_| Ended::later("Discord sent no Hello event in time");
    tokio::time::timeout(HELLO_TIMEOUT, hello).await.map_err(late)?
}
