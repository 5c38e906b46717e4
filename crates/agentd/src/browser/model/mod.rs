//! Actions as they are asked for.

mod action;

pub use action::{ActionFields, ActionName};
