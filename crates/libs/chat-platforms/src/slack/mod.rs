//! Slack adapter. Receives events and interactive messages by webhook or Socket Mode; sends with the Web API
//! (<https://docs.slack.dev>).
//!
//! Invariants
//! - A request is accepted if its raw body and timestamp are signed with the signing secret, and the timestamp is at
//!   most five minutes off. This includes the URL verification challenge.
//! - A channel message that mentions the bot arrives twice, as `message` and as `app_mention`. Both have the ID
//!   `channel:ts`, as do redeliveries, so that the caller can deduplicate them.
//! - Messages of bots are ignored.
//! - Outgoing texts are in `mrkdwn`, where only `<`, `>` and `&` can be escaped. Unintended emphasis is possible;
//!   unintended mentions and links are not.
//!
//! Deliberately absent: slash commands, edits, reactions, and typing indicators, which Slack does not offer to bots.

mod api;
mod blocks;
mod client;
mod files;
mod kinds;
mod read;
mod send;
mod socket;
mod text;
mod verify;
mod write;

#[cfg(test)]
mod tests;

pub use client::{Slack, SlackConfig};
pub(crate) use kinds::KINDS;

use std::sync::Arc;

use agentd_base::{Secret, Timestamp};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use http::header::CONTENT_TYPE;
use serde_json::Value;

use crate::connection::{ConnectOptions, Connection};
use crate::files::IncomingFile;
use crate::message::FileSource;
use crate::outgoing::{Account, Address, Outgoing, SendError, Sent};
use crate::platform::{ChatPlatform, Platform};
use crate::webhook::{Received, Rejection, WebhookRequest};

/// Parses the payload: interactive messages are forms with a JSON field, events are JSON.
fn payload_of(request: &WebhookRequest) -> Result<Value, Rejection> {
    let is_form = request
        .header(CONTENT_TYPE.as_str())
        .is_some_and(|kind| kind.to_ascii_lowercase().starts_with("application/x-www-form-urlencoded"));
    if !is_form {
        return serde_json::from_slice(&request.body)
            .map_err(|_| Rejection::Malformed("the body is not valid JSON".to_owned()));
    }
    match form_urlencoded::parse(&request.body).find(|(name, _)| name == "payload") {
        Some((_, payload)) => serde_json::from_str(&payload)
            .map_err(|_| Rejection::Malformed("the `payload` of the form is not valid JSON".to_owned())),
        // A slash command.
        None => Ok(Value::Null),
    }
}

impl ChatPlatform for Slack {
    fn platform(&self) -> Platform {
        Platform::Slack
    }

    fn connect(self: Arc<Self>, options: ConnectOptions) -> Option<Connection> {
        Some(Connection::open(options, |link, _| self.run_socket(link)))
    }

    fn receive<'a>(
        &'a self,
        request: &'a WebhookRequest,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Received, Rejection>> {
        let secret = self.config.signing_secret.as_ref();
        let received = verify::verify(secret, request, now).and_then(|()| payload_of(request));
        ready(received.map(|payload| self.read(&payload))).boxed()
    }

    fn address(&self, channel: &str) -> Result<Address, String> {
        let is_id = channel.starts_with(['C', 'D', 'G', 'U', 'W'])
            && (2..=32).contains(&channel.len())
            && channel.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
        if is_id {
            Ok(Address::of_channel(channel))
        } else {
            Err("invalid Slack channel; use a channel id, such as C0123456789, or a user id, such as U0123456789"
                .to_owned())
        }
    }

    fn render(&self, markdown: &str) -> Vec<String> {
        write::render(markdown)
    }

    fn render_text(&self, title: &str, text: &str) -> Vec<String> {
        write::render_text(title, text)
    }

    fn send<'a>(&'a self, to: &'a Address, message: &'a Outgoing) -> BoxFuture<'a, Result<Sent, SendError>> {
        self.post_message(to, message).boxed()
    }

    fn settle<'a>(&'a self, message: &'a Address, text: &'a str) -> BoxFuture<'a, Result<(), SendError>> {
        self.update_message(message, text).boxed()
    }

    fn show_typing<'a>(&'a self, _to: &'a Address) -> BoxFuture<'a, Result<(), SendError>> {
        ready(Ok(())).boxed()
    }

    fn open_file<'a>(&'a self, source: &'a FileSource) -> BoxFuture<'a, Result<IncomingFile, SendError>> {
        self.open_attachment(source).boxed()
    }

    fn secrets(&self) -> Vec<&Secret> {
        [&self.config.signing_secret, &self.config.bot_token, &self.config.app_token].into_iter().flatten().collect()
    }

    fn fetch_account(&self) -> BoxFuture<'_, Result<Account, SendError>> {
        self.account().boxed()
    }
}
