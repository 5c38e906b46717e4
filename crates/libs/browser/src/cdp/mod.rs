//! Client of the Chrome DevTools Protocol: raw JSON over a pair of pipes.
//!
//! Invariants
//! - A command has a time limit and exactly one outcome.
//! - The end of the pipe ends every command and subscription.
//! - The message size is limited; an oversized response fails only its command.
//! - A slow subscriber is told how many events it missed.
//!
//! Deliberately absent: types for the whole protocol. Chromium changes it too fast, and one unknown value would lose
//! the event. Only the fields in use are parsed.

mod connection;
mod framing;
mod message;
mod subscription;
mod surrogates;

pub(crate) use connection::{CdpError, Connection, Observer};
pub(crate) use message::{Event, SessionId};
pub(crate) use subscription::{Delivery, Subscription};

#[cfg(test)]
mod tests;
