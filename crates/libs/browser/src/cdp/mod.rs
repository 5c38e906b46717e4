//! The client of the Chrome DevTools Protocol: raw JSON over a pair of pipes.
//!
//! Invariants: a command has a time limit and one outcome; the end of the pipe ends every command
//! and subscription; a message has a greatest size, and a page that makes one longer costs its command
//! alone; a listener that is too slow is told how many events it did not get.
//!
//! Deliberately absent: types for the whole protocol. Chromium changes it faster than such types
//! follow, and one unknown value makes them lose the event; only what is used is read.

mod connection;
mod framing;
mod halves;
mod message;
mod subscription;

pub(crate) use connection::{CdpError, Connection, Observer};
pub(crate) use message::{Event, SessionId};
pub(crate) use subscription::{Heard, Subscription};

#[cfg(test)]
mod tests;
