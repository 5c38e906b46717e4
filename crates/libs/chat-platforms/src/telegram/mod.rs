//! Telegram adapter for the Bot API (<https://core.telegram.org/bots/api>), with updates by webhook or long polling.
//!
//! Invariants
//! - A webhook request is accepted if it contains the secret token, compared in constant time. Telegram sends neither a
//!   signature nor a timestamp, so a replayed request is recognized only by its `update_id`. That ID is the ID of every
//!   incoming item, which the caller must deduplicate.
//! - The bot token is part of request paths. Error messages contain no paths, and Telegram's error texts are searched
//!   for the token.
//! - Messages on behalf of a chat (anonymous administrators, channels) are ignored, since they have no sender.
//!
//! Deliberately absent: inline mode, payments, edits, reactions and channel posts.

mod api;
mod client;
mod connect;
mod contents;
mod files;
mod kinds;
mod read;
mod send;
mod text;
mod write;

#[cfg(test)]
mod tests;

pub use client::{Telegram, TelegramConfig};
pub(crate) use kinds::KINDS;

use std::sync::Arc;

use agentd_base::{Secret, Timestamp};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::Value;
use url::Url;

use crate::connection::{ConnectOptions, Connection};
use crate::files::IncomingFile;
use crate::message::FileSource;
use crate::outgoing::{Account, Address, Outgoing, SendError, Sent};
use crate::platform::{ChatPlatform, Platform};
use crate::webhook::{Received, Rejection, WebhookRequest, is_secret};

impl Telegram {
    /// Checks the secret token of a request.
    fn verify(&self, request: &WebhookRequest) -> Result<(), Rejection> {
        let secret = self.config.secret_token.as_ref().filter(|secret| !secret.is_empty());
        let secret = secret.ok_or(Rejection::NotSetUp)?;
        let token = request
            .header("x-telegram-bot-api-secret-token")
            .ok_or(Rejection::Unverified("the secret token header is missing"))?;
        if is_secret(token, secret) { Ok(()) } else { Err(Rejection::Unverified("the secret token is wrong")) }
    }
}

impl ChatPlatform for Telegram {
    fn platform(&self) -> Platform {
        Platform::Telegram
    }

    fn connect(self: Arc<Self>, options: ConnectOptions) -> Option<Connection> {
        Some(Connection::open(options, |link, _| self.run_polling(link)))
    }

    fn receive<'a>(
        &'a self,
        request: &'a WebhookRequest,
        _now: Timestamp,
    ) -> BoxFuture<'a, Result<Received, Rejection>> {
        async move {
            self.verify(request)?;
            let update: Value = serde_json::from_slice(&request.body)
                .map_err(|_| Rejection::Malformed("the body is not valid JSON".to_owned()))?;
            if read::has_mention(&update) {
                self.fetch_username().await;
            }
            Ok(self.read(&update))
        }
        .boxed()
    }

    fn address(&self, channel: &str) -> Result<Address, String> {
        let is_name = channel.strip_prefix('@').is_some_and(|name| {
            (4..=32).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        });
        if is_name || channel.parse::<i64>().is_ok_and(|id| id != 0 && id.to_string() == channel) {
            Ok(Address::of_channel(channel))
        } else {
            Err("invalid Telegram chat; use a chat id, such as -1001234567890, or the @name of a public chat"
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
        self.send_message(to, message).boxed()
    }

    fn settle<'a>(&'a self, message: &'a Address, text: &'a str) -> BoxFuture<'a, Result<(), SendError>> {
        self.settle_message(message, text).boxed()
    }

    fn show_typing<'a>(&'a self, to: &'a Address) -> BoxFuture<'a, Result<(), SendError>> {
        self.send_typing(to).boxed()
    }

    fn register<'a>(&'a self, webhook_url: &'a Url) -> BoxFuture<'a, Result<String, SendError>> {
        self.set_webhook(webhook_url).boxed()
    }

    fn open_file<'a>(&'a self, source: &'a FileSource) -> BoxFuture<'a, Result<IncomingFile, SendError>> {
        self.open_attachment(source).boxed()
    }

    fn secrets(&self) -> Vec<&Secret> {
        [&self.config.bot_token, &self.config.secret_token].into_iter().flatten().collect()
    }

    fn fetch_account(&self) -> BoxFuture<'_, Result<Account, SendError>> {
        self.account().boxed()
    }
}
