//! WhatsApp adapter for Meta's Cloud API (<https://developers.facebook.com/docs/whatsapp/cloud-api>).
//!
//! Invariants
//! - A request is accepted only with the HMAC of its raw body under the app secret, and the handshake only with the
//!   verify token.
//! - Only messages to the configured number are read, since an app may have several.
//! - A message that is too long for buttons is followed by a short message with the buttons.
//!
//! Deliberately absent: message templates (reopening a conversation after a day is the owner's decision), groups, and
//! delivery states other than failure. There is no replay window either: the platform redelivers messages for days with
//! their original timestamps, so the caller must deduplicate by ID.

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
                return self.answer_handshake(request);
            }
            self.verify(request)?;
            let body = serde_json::from_slice(&request.body)
                .map_err(|_| Rejection::Malformed("the body is not valid JSON".to_owned()))?;
            Ok(self.read(&body))
        }
        .boxed()
    }

    fn address(&self, channel: &str) -> Result<Address, String> {
        let digits = channel.strip_prefix('+').unwrap_or(channel);
        if (5..=15).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Ok(Address::of_channel(digits));
        }
        Err("invalid WhatsApp channel; use a phone number with country code, such as +491701234567".to_owned())
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
        // Sent messages cannot be edited, so the text is sent as another message.
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
