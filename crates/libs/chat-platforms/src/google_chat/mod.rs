//! Google Chat adapter, for interaction events over HTTP (<https://developers.google.com/workspace/chat>).
//!
//! Invariants
//! - A request is accepted only with a token that Google signed for Chat and for the configured audience.
//! - The private key of the service account signs token requests and is never sent.
//! - Text of agents never mentions anyone: an invisible character breaks mention syntax.
//!
//! Deliberately absent: Pub/Sub events, dialogs, typing indicators (which the platform lacks), and Google Drive files,
//! which require the user's consent.

mod account;
mod client;
mod event;
mod files;
mod kinds;
mod read;
mod send;
mod verify;
mod write;

#[cfg(test)]
mod tests;

pub use client::{GoogleChat, GoogleChatConfig};
pub(crate) use kinds::KINDS;

use agentd_base::{Secret, Timestamp};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use crate::files::IncomingFile;
use crate::markup;
use crate::message::FileSource;
use crate::outgoing::{Account, Address, Outgoing, SendError, Sent};
use crate::platform::{ChatPlatform, Platform};
use crate::webhook::{Received, Rejection, WebhookRequest};

impl ChatPlatform for GoogleChat {
    fn platform(&self) -> Platform {
        Platform::GoogleChat
    }

    fn receive<'a>(
        &'a self,
        request: &'a WebhookRequest,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Received, Rejection>> {
        async move {
            self.verify(request, now).await?;
            let event = serde_json::from_slice(&request.body)
                .map_err(|_| Rejection::Malformed("the body is not valid JSON".to_owned()))?;
            Ok(self.read(&event))
        }
        .boxed()
    }

    fn address(&self, channel: &str) -> Result<Address, String> {
        if write::resource_ids(channel, &["spaces"]).is_some() {
            return Ok(Address::of_channel(channel));
        }
        Err("invalid Google Chat channel; use the name of a space, such as spaces/AAAAMpdlehY".to_owned())
    }

    fn render(&self, markdown: &str) -> Vec<String> {
        markup::render(markdown, &write::STYLE)
    }

    fn render_text(&self, title: &str, text: &str) -> Vec<String> {
        markup::render_text(title, text, &write::STYLE)
    }

    fn send<'a>(&'a self, to: &'a Address, message: &'a Outgoing) -> BoxFuture<'a, Result<Sent, SendError>> {
        self.send_message(to, message).boxed()
    }

    fn settle<'a>(&'a self, message: &'a Address, text: &'a str) -> BoxFuture<'a, Result<(), SendError>> {
        self.replace_message(message, text).boxed()
    }

    fn show_typing<'a>(&'a self, _: &'a Address) -> BoxFuture<'a, Result<(), SendError>> {
        std::future::ready(Ok(())).boxed()
    }

    fn open_file<'a>(&'a self, source: &'a FileSource) -> BoxFuture<'a, Result<IncomingFile, SendError>> {
        self.open_attachment(source).boxed()
    }

    fn secrets(&self) -> Vec<&Secret> {
        // The private key signs and is sent to no server; access tokens are not part of the configuration.
        Vec::new()
    }

    fn fetch_account(&self) -> BoxFuture<'_, Result<Account, SendError>> {
        self.account().boxed()
    }
}
