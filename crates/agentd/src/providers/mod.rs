//! Where replies come from: eight vendors and the model inside, what they used, and what they may
//! use.
//!
//! Invariants
//! - Which provider and model a turn gets is decided in one place ([`Providers::resolve`]).
//! - One usage row a model call, written in the transaction that ends the reply; the running totals
//!   of a day change with it, so that they are never wrong and never need a scan of the rows.
//! - A price that is not known is null, never 0.
//! - Keys live sealed in the vault and leave only in the vendor's header.
//!
//! Budgets are checked before a call. Calls that run at the same time do not see each other's
//! tokens, so a budget may be overshot by what was already under way.
//!
//! Deliberately absent: retries (the engine's), and the wire formats (`agentd-llm`).

mod error;
mod local;
mod model;
mod prices;
mod routes;
mod service;
mod store;
mod tracked;

pub use error::ProviderError;
pub use local::{LocalModels, LocalSetup};
pub use model::{LOCAL, ModelCall, ModelWish, ResolvedModel};
pub use prices::Prices;
pub use routes::routes;
pub use service::{ProviderUpdate, Providers, TokenTotal};
