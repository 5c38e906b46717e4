//! Language models behind one trait, [`ModelBackend`]: eight vendors over HTTP. The local model implements the same
//! trait elsewhere.
//!
//! Invariants
//! - One [`ModelEvent::Text`] for each piece of text that a vendor sends; nothing is buffered, joined or split, except
//!   around a tag of reasoning at the beginning (see [`separate_think_tags`]).
//! - A stream is good only if the vendor's finish reason or end marker came. Anything else ends in an error, and the
//!   reader keeps what came before it.
//! - A key leaves in the vendor's documented header and nowhere else; no error text carries it.
//! - Opaque reasoning ([`Replay`]) is sent back only to the vendor and model that it came from.
//! - Token counts mean the same for every vendor (see [`Usage`]).
//! - Whatever a server sends is bounded: an event, an error body, a call's arguments, the number
//!   of calls, opaque reasoning, the time after a finish reason.
//!
//! Deliberately absent: retries, budgets and prices (the engine and the providers decide), judging an answer that
//! says nothing (the engine does), and the counting of tokens that a vendor did not count.

mod answer;
mod backend;
mod body;
mod complaint;
mod connectivity;
mod error;
mod event;
mod request;
mod think_tags;
mod vendor;
mod vendor_backend;
mod wire;

pub use backend::{ModelBackend, ModelStream};
pub use connectivity::ConnectivityReport;
pub use error::{ModelError, ModelErrorCode};
pub use event::{Finish, FinishReason, ModelEvent, Usage, UsageSource};
pub use request::{ModelMessage, ModelRequest, Replay, Schema, ToolCall, ToolDefinition};
pub use think_tags::separate_think_tags;
pub use vendor::Vendor;
pub use vendor_backend::VendorBackend;
