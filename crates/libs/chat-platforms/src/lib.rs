//! Adapters for six chat platforms behind one interface. [`ChatPlatform`] verifies and reads incoming requests, renders
//! Markdown in the platform's markup, and sends messages.
//!
//! Invariants
//! - A request is verified over its raw bytes before it is read. Secrets are compared in constant time. Requests
//!   outside the platform's time window are rejected.
//! - Reading never panics and never fails for unknown contents: an event of an unknown kind is acknowledged and
//!   ignored.
//! - Messages of the adapter itself and of other bots are ignored.
//! - A user message is read, answered as unreadable, or ignored for a reason in the platform's table of kinds
//!   ([`message_kinds`]). Text of others is marked as quoted.
//! - Every request uses the guarded client. No error message contains a token.
//! - A rendered part is within the platform's limit for any input.
//!
//! Some platforms also support outbound connections ([`ChatPlatform::connect`]): Telegram long polling, Slack Socket
//! Mode and the Discord Gateway.
//!
//! Deliberately absent: authorization of senders, deduplication, retries and storage, which are up to the caller.

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

pub use connection::{Batch, ConnectOptions, Connection, ConnectionEvent, Ended};
pub use files::IncomingFile;
pub use kinds::{Handling, MessageKind};
pub use markup::protect_bare_urls;
pub use message::{Attachment, Chat, Decision, FileSource, Incoming, IncomingMessage, Sender, Undelivered};
pub use outgoing::{Account, Address, Button, ButtonStyle, Outgoing, SendError, Sent};
pub use platform::{ChatPlatform, Platform};
pub use tables::message_kinds;
pub use webhook::{Received, Rejection, WebhookAnswer, WebhookRequest};
