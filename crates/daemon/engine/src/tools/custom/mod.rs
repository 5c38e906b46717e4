//! Tools that the owner makes: a Python program, a shell script, or an HTTP request with
//! placeholders.
//!
//! Invariants
//! - A name is unique over all custom tools (an index decides) and none of those that other sources
//!   keep for themselves.
//! - What a model writes fills placeholders and can change nothing else of a request.
//! - A request whose host the owner wrote goes where the owner may; one whose host has placeholders
//!   goes where an agent may, carries no secrets, and nothing follows a redirect with the owner's
//!   trust.
//! - Secret headers lie in the vault and are never shown.

mod model;
mod run;
mod service;
pub(super) mod store;
mod template;

pub use model::{
    CustomTool, CustomToolChange, CustomToolId, HttpMethod, HttpRequestChange, HttpToolRequest, ToolKind,
    carries_credential,
};
pub use service::{CustomTools, ListedTool};
