//! Tools that the owner defines: a Python program, a shell script, or an HTTP request with placeholders.
//!
//! Invariants
//! - A name is unique among custom tools (enforced by an index) and not reserved by another source.
//! - Input of a model fills placeholders and cannot change any other part of a request.
//! - A request with a fixed host has the owner's network permissions. A request whose host contains placeholders has
//!   only the agent's and carries no secrets. Requests with the owner's permissions follow no redirects.
//! - Secret headers are stored in the vault and never returned.

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
