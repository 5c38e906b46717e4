//! Discord adapter. Receives interactions by webhook, or interactions and messages through the Gateway; sends with the
//! REST API (<https://docs.discord.com/developers>).
//!
//! Invariants
//! - A request is accepted if its timestamp and raw body have a valid Ed25519 signature of the application, strictly
//!   verified, and the timestamp is at most five minutes off.
//! - A command immediately receives a deferred response, which Discord shows as "is thinking". The first follow-up
//!   replaces it; this is documented behaviour of Discord, so no edit is needed.
//! - An interaction accepts follow-ups for 15 minutes. After that, or if Discord no longer knows its token, the bot
//!   writes to the channel.
//! - Outgoing messages never mention anyone and never show link previews.
//!
//! Deliberately absent: other Gateway events, sharding, modals, autocomplete, edits and reactions.

mod api;
mod client;
mod commands;
mod contents;
mod details;
mod files;
mod gateway;
mod kinds;
mod read;
mod send;
mod verify;
mod write;

#[cfg(test)]
mod tests;

pub use client::{Discord, DiscordConfig};
pub(crate) use kinds::KINDS;

use std::sync::Arc;

use agentd_base::{Secret, Timestamp};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use url::Url;

use self::details::is_snowflake;
use crate::connection::{ConnectOptions, Connection};
use crate::files::IncomingFile;
use crate::message::FileSource;
use crate::outgoing::{Account, Address, Outgoing, SendError, Sent};
use crate::platform::{ChatPlatform, Platform};
use crate::webhook::{Received, Rejection, WebhookRequest};

impl ChatPlatform for Discord {
    fn platform(&self) -> Platform {
        Platform::Discord
    }

    fn connect(self: Arc<Self>, options: ConnectOptions) -> Option<Connection> {
        Some(Connection::open(options, |link, options| self.run_gateway(link, options)))
    }

    fn receive<'a>(
        &'a self,
        request: &'a WebhookRequest,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Received, Rejection>> {
        let received = verify::verify(self.key.as_ref(), request, now).and_then(|()| {
            let interaction = serde_json::from_slice(&request.body)
                .map_err(|_| Rejection::Malformed("the body is not valid JSON".to_owned()))?;
            Ok(self.read(&interaction, now))
        });
        ready(received).boxed()
    }

    fn address(&self, channel: &str) -> Result<Address, String> {
        if is_snowflake(channel) {
            Ok(Address::of_channel(channel))
        } else {
            Err("invalid Discord channel; use a channel id, such as 1234567890123456789".to_owned())
        }
    }

    fn render(&self, markdown: &str) -> Vec<String> {
        write::render(markdown)
    }

    fn render_text(&self, title: &str, text: &str) -> Vec<String> {
        write::render_text(title, text)
    }

    fn send<'a>(&'a self, to: &'a Address, message: &'a Outgoing) -> BoxFuture<'a, Result<Sent, SendError>> {
        self.send_message(to, message).boxed()
    }

    fn settle<'a>(&'a self, message: &'a Address, text: &'a str) -> BoxFuture<'a, Result<(), SendError>> {
        self.settle_message(message, text).boxed()
    }

    fn show_typing<'a>(&'a self, to: &'a Address) -> BoxFuture<'a, Result<(), SendError>> {
        self.send_typing(to).boxed()
    }

    fn register<'a>(&'a self, _webhook_url: &'a Url) -> BoxFuture<'a, Result<String, SendError>> {
        self.register_commands().boxed()
    }

    fn open_file<'a>(&'a self, source: &'a FileSource) -> BoxFuture<'a, Result<IncomingFile, SendError>> {
        self.open_attachment(source).boxed()
    }

    fn secrets(&self) -> Vec<&Secret> {
        self.config.bot_token.iter().collect()
    }

    fn fetch_account(&self) -> BoxFuture<'_, Result<Account, SendError>> {
        self.account().boxed()
    }
}
