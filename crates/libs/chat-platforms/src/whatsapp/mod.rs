//! WhatsApp, by Meta's Cloud API (<https://developers.facebook.com/docs/whatsapp/cloud-api>).
//!
//! Invariants
//! - A request counts only with the HMAC of its raw body under the app secret; the handshake only with the verify
//!   token.
//! - Only messages to the number that is set are read: one app may have several.
//! - A message that has no room for buttons is followed by a short one that has them.
//!
//! Deliberately absent: message templates (what reopens a conversation after a day is for the owner to decide), groups,
//! other states of delivery than failure, and a window against replays: the platform sends a message again for days,
//! with the time at which it was written, so the caller knows repeated messages by their ids.

mod client;
mod contents;
mod files;
mod kinds;
mod read;
mod send;
mod verify;
mod write;

#[cfg(test)]
mod tests;

pub use client::{Whatsapp, WhatsappConfig};
pub(crate) use kinds::KINDS;

use agentd_base::{Secret, Timestamp};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::Method;

use crate::files::IncomingFile;
use crate::markup;
use crate::message::FileSource;
use crate::outgoing::{Account, Address, Outgoing, SendError, Sent};
use crate::platform::{ChatPlatform, Platform};
use crate::webhook::{Received, Rejection, WebhookRequest};

impl ChatPlatform for Whatsapp {
    fn platform(&self) -> Platform {
        Platform::Whatsapp
    }

    fn receive<'a>(&'a self, request: &'a WebhookRequest, _: Timestamp) -> BoxFuture<'a, Result<Received, Rejection>> {
        async move {
            if request.method == Method::GET {
                return self.shake_hands(request);
            }
            self.verify(request)?;
            let body = serde_json::from_slice(&request.body)
                .map_err(|_| Rejection::Malformed("WhatsApp sent what is not JSON".to_owned()))?;
            Ok(self.read(&body))
        }
        .boxed()
    }

    fn address(&self, channel: &str) -> Result<Address, String> {
        let digits = channel.strip_prefix('+').unwrap_or(channel);
        if (5..=15).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Ok(Address::of_channel(digits));
        }
        Err("a WhatsApp channel is a telephone number with its country code, such as +491701234567".to_owned())
    }

    fn render(&self, markdown: &str) -> Vec<String> {
        markup::render(markdown, &write::STYLE)
    }

    fn render_text(&self, title: &str, text: &str) -> Vec<String> {
        markup::render_text(title, text, &write::STYLE)
    }

    fn fits_with_buttons(&self, part: &str) -> bool {
        markup::characters(part) <= write::MAX_TEXT_WITH_BUTTONS
    }

    fn send<'a>(&'a self, to: &'a Address, message: &'a Outgoing) -> BoxFuture<'a, Result<Sent, SendError>> {
        self.send_message(to, message).boxed()
    }

    fn settle<'a>(&'a self, message: &'a Address, text: &'a str) -> BoxFuture<'a, Result<(), SendError>> {
        // What is sent cannot be changed here: the text follows it.
        async move { self.send_text(message, text).await.map(drop) }.boxed()
    }

    fn show_typing<'a>(&'a self, to: &'a Address) -> BoxFuture<'a, Result<(), SendError>> {
        self.send_typing(to).boxed()
    }

    fn open_file<'a>(&'a self, source: &'a FileSource) -> BoxFuture<'a, Result<IncomingFile, SendError>> {
        self.open_attachment(source).boxed()
    }

    fn secrets(&self) -> Vec<&Secret> {
        [&self.config.app_secret, &self.config.verify_token, &self.config.access_token].into_iter().flatten().collect()
    }

    fn fetch_account(&self) -> BoxFuture<'_, Result<Account, SendError>> {
        self.account().boxed()
    }
}
