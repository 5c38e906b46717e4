//! Actions as they are asked for, and by whom.

mod action;
mod actor;

pub use action::{ActionFields, ActionName};
pub use actor::Actor;
