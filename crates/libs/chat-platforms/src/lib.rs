//! Six chat platforms behind one interface: [`ChatPlatform`] verifies and reads what a platform sends, writes what it
//! is sent in its own markup, and sends it.
//!
//! Invariants
//! - Nothing of a request is read before the request is verified over its raw bytes; secrets are compared in constant
//!   time, and what is older than the platform's window is refused.
//! - Reading never panics and never fails as a whole for what it does not know: an event of an unknown kind is answered
//!   as the platform wants it and is no message.
//! - What an adapter itself or another bot wrote is no message.
//! - Whatever a person sends is read, is named as something that cannot be read, or is ignored for a reason that the
//!   platform's table of kinds gives ([`message_kinds`]). Words of others are marked as quoted.
//! - Every request goes through the guarded client; no error text carries a token.
//! - A rendered part is within the platform's limit, whatever the text was.
//!
//! A platform that has it is connected to from here as well ([`ChatPlatform::connect`]): long polling of Telegram, Socket
//! Mode of Slack, the Gateway of Discord.
//!
//! Deliberately absent: who may speak, which message was seen before, retries, and storing anything. The caller decides
//! and keeps.

mod access_token;
mod api;
mod certificate;
mod connection;
mod content;
#[cfg(test)]
mod content_tests;
mod files;
mod incoming_text;
mod jwt;
mod keys;
mod kinds;
mod markup;
mod message;
mod outgoing;
mod platform;
mod tables;
#[cfg(test)]
mod test_support;
#[cfg(test)]
mod test_vectors;
mod webhook;

pub mod discord;
pub mod google_chat;
pub mod slack;
pub mod teams;
pub mod telegram;
pub mod whatsapp;

pub use connection::{Batch, Connection, ConnectionEvent, Ended, Opening};
pub use files::IncomingFile;
pub use kinds::{Handling, MessageKind};
pub use markup::protect_bare_urls;
pub use message::{Attachment, Chat, Decision, FileSource, Incoming, IncomingMessage, Sender, Undelivered};
pub use outgoing::{Account, Address, Button, ButtonStyle, Outgoing, SendError, Sent};
pub use platform::{ChatPlatform, Platform};
pub use tables::message_kinds;
pub use webhook::{Received, Rejection, WebhookAnswer, WebhookRequest};
