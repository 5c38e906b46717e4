//! Language models behind one trait, [`ModelBackend`]: eight vendors over HTTP. The local model, in another crate,
//! implements the same trait.
//!
//! Invariants:
//! - One [`ModelEvent::Text`] per chunk of text that a vendor sends; nothing is buffered, joined or split, except
//!   around a reasoning tag at the beginning (see [`separate_think_tags`]).
//! - A stream is successful only if the vendor's finish reason or end marker arrived. Anything else ends in an error,
//!   and the reader keeps the events received before it.
//! - A key is sent only in the vendor's documented header; no error text contains it.
//! - Opaque reasoning ([`Replay`]) is sent back only to the vendor and model that produced it.
//! - Token counts have the same meaning for every vendor (see [`Usage`]).
//! - All server input is bounded: an event, an error body, a call's arguments, the number of calls, opaque reasoning,
//!   the time after a finish reason.
//!
//! Out of scope: retries, budgets and prices (handled by the engine and the providers), evaluation of empty answers
//! (handled by the engine), and estimating tokens that a vendor did not report.

mod answer;
mod backend;
mod body;
mod connectivity;
mod error;
mod event;
mod request;
mod think_tags;
mod vendor;
mod vendor_backend;
mod vendor_error;
mod wire;

pub use backend::{ModelBackend, ModelStream};
pub use connectivity::ConnectivityReport;
pub use error::{ModelError, ModelErrorCode};
pub use event::{Finish, FinishReason, ModelEvent, Usage, UsageSource};
pub use request::{ModelMessage, ModelRequest, Replay, Schema, ToolCall, ToolDefinition};
pub use think_tags::separate_think_tags;
pub use vendor::Vendor;
pub use vendor_backend::VendorBackend;
