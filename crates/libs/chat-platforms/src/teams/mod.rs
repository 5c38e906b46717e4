//! Microsoft Teams adapter, based on the Bot Framework (<https://learn.microsoft.com/azure/bot-service/rest-api>).
//!
//! Invariants
//! - A request is accepted only with a token that the Bot Framework signed with a key endorsed for Teams. The token
//!   must be issued for this app and for the service URL in the request.
//! - Credentials are sent only to the login service. Its token is sent only to a verified or configured service URL.
//! - A service URL is untrusted input, so private addresses are refused.
//!
//! Deliberately absent: other Bot Framework channels, invokes (which need a different response), and message
//! extensions.

mod client;
mod contents;
mod files;
mod html;
mod kinds;
mod read;
mod send;
mod verify;
mod write;

#[cfg(test)]
mod tests;

pub use client::{Teams, TeamsConfig};
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

impl ChatPlatform for Teams {
    fn platform(&self) -> Platform {
        Platform::Teams
    }

    fn receive<'a>(
        &'a self,
        request: &'a WebhookRequest,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Received, Rejection>> {
        async move {
            let activity = self.verify(request, now).await?;
            Ok(self.read(&activity))
        }
        .boxed()
    }

    fn address(&self, channel: &str) -> Result<Address, String> {
        if write::is_segment(channel) {
            return Ok(Address::of_channel(channel));
        }
        Err("invalid Teams channel; use a conversation id, such as 19:…@thread.tacv2".to_owned())
    }

    fn render(&self, markdown: &str) -> Vec<String> {
        markup::render(markdown, &write::STYLE)
    }

    fn render_text(&self, title: &str, text: &str) -> Vec<String> {
        markup::render_text(title, text, &write::PLAIN)
    }

    fn send<'a>(&'a self, to: &'a Address, message: &'a Outgoing) -> BoxFuture<'a, Result<Sent, SendError>> {
        self.send_message(to, message).boxed()
    }

    fn settle<'a>(&'a self, message: &'a Address, text: &'a str) -> BoxFuture<'a, Result<(), SendError>> {
        self.replace_message(message, text).boxed()
    }

    fn show_typing<'a>(&'a self, to: &'a Address) -> BoxFuture<'a, Result<(), SendError>> {
        self.send_typing(to).boxed()
    }

    fn open_file<'a>(&'a self, source: &'a FileSource) -> BoxFuture<'a, Result<IncomingFile, SendError>> {
        self.open_attachment(source).boxed()
    }

    fn secrets(&self) -> Vec<&Secret> {
        self.config.app_password.iter().collect()
    }

    fn fetch_account(&self) -> BoxFuture<'_, Result<Account, SendError>> {
        self.account().boxed()
    }
}
