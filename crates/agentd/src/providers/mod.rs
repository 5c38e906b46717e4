//! AI providers: their keys and state, which model answers, and what calls used and cost.
//!
//! Eight vendors and `local`, the model inside the daemon. A vendor is configured when it has a
//! key, or a base URL of the owner's (a server such as Ollama needs no key).
//!
//! Invariants
//! - Keys lie in the vault, under the scope `providers`; nothing here shows or logs them.
//! - Backends share one guarded client and are made anew only when a provider changes.
//! - Each call of a model leaves one usage row, and the sums that budgets are checked against change in
//!   the same transaction. A price that nobody knows is NULL, never 0.
//! - Where there is a budget, what a call can use at most is set aside before it, and settled in the transaction
//!   that records what it used; calls that run at once, in whatever replica, cannot use the same rest. What a
//!   daemon that is gone had set aside is free again when its lease ends.
//! - A price that changes changes nothing of what calls have cost: each usage row keeps its own.
//!
//! States of a provider: `unconfigured` → key or base URL set → `configured` → a call or a test
//! → `ok` | `failing` | `rate_limited`; each further outcome replaces the last, and a change of
//! the key leads back to `configured`.
//!
//! Deliberately absent: retries (the engine decides), and what a conversation makes of an answer.

mod error;
mod local;
mod model;
mod parts;
mod routes;
mod service;
mod store;

pub use error::ProviderError;
pub(crate) use local::without_tools;
pub use local::{LocalBackend, LocalOptions};
pub use model::{
    DefaultCheck, LOCAL, LocalModelState, LocalModelView, LongPrompt, ModelCall, ModelPreference, Price, PriceOrigin,
    PriceTable, PriceTableError, ProviderChange, ProviderReport, ProviderStatus, ProviderView, ReportedFailure,
    ResolvedModel, TokenTotal, UsageFigures, UsageId,
};
pub use routes::routes;
pub use service::{PlannedCall, PreparedProvider, Providers, Reservation};
