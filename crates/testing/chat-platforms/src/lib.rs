//! Six chat platforms on loopback for tests and benchmarks, each as strict as the real one.
//!
//! A fake verifies what it receives against the vendor's own description of its API where one exists
//! ([`api_description`]), signs what it sends as the vendor does, and misbehaves on demand. [`FakePlatform`] puts all six
//! behind one interface.
//!
//! Shares only types with the crate that it checks: signatures, limits and identifiers are written down again here, from
//! the vendors' documentation.

pub mod api_description;
pub mod discord;
pub mod google_chat;
pub mod keys;
mod platform;
mod request;
mod server;
pub mod slack;
mod socket;
pub mod teams;
pub mod telegram;
pub mod whatsapp;

pub use platform::{FakeMessage, FakePlatform, FakePress, forged};
pub use request::RequestExt;
pub use server::{Behaviour, FakeFile, RecordedRequest};
